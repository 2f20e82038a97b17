"""Tests of the suite itself: a check that cannot fail proves nothing.

Run with `python3 -m unittest discover -s conformance/tests`; needs no SDK.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import pathlib
import sys
import unittest
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness_conformance import fake_model as fm
from harness_conformance.runner import Listed, Result, _judge, _selected

USER = {"role": "user", "parts": [{"text": "hi"}]}


def calls(*names: str) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": n, "id": f"id-{n}", "args": {}}} for n in names]}


def result(name: str, id: str | None = None) -> dict[str, Any]:
    return {
        "role": "user",
        "parts": [{"functionResponse": {"name": name, "id": id or f"id-{name}", "response": {"output": "ok"}}}],
    }


class History(unittest.TestCase):
    """`check_history` finds every way in which calls and answers fail to pair."""

    def test_good_histories(self) -> None:
        answer = {"role": "model", "parts": [{"text": "hello"}]}
        together = {"role": "user", "parts": result("a")["parts"] + result("b")["parts"]}
        for history in (
            [USER],
            [USER, answer, USER],
            [USER, calls("a"), result("a")],
            [USER, calls("a", "b"), result("a"), result("b"), answer],
            [USER, calls("a", "b"), together, answer, USER],
        ):
            self.assertEqual(fm.check_history(history), [])

    def test_bad_histories(self) -> None:
        for history, complaint in (
            ([], "no contents"),
            ([{"role": "model", "parts": [{"text": "x"}]}], "starts with role"),
            ([{"role": "system", "parts": [{"text": "x"}]}], "has role"),
            ([USER, {"role": "model", "parts": []}], "no parts"),
            ([USER, {"role": "model", "parts": [{"thoughtSignature": "x"}]}], "empty part"),
            ([USER, calls("a")], "calls without a response"),
            ([USER, calls("a"), USER, result("a")], "is unanswered"),
            ([USER, calls("a"), calls("b"), result("a"), result("b")], "a new call while"),
            ([USER, result("a")], "without a call"),
            ([USER, calls("a"), result("a"), result("a")], "without a call"),
            ([USER, calls("a", "b"), result("b"), result("a")], "is due"),
            ([USER, calls("a"), result("a", "other")], "is due"),
            ([USER, calls("a"), result("a"), calls("a"), result("a")], "second response with id"),
        ):
            with self.subTest(complaint):
                self.assertIn(complaint, "; ".join(fm.check_history(history)))

    def test_requests(self) -> None:
        path = f"/v1beta/models/{fm.MODEL}:streamGenerateContent?alt=sse"
        headers = {"x-goog-api-key": fm.API_KEY}
        tool = {"functionDeclarations": [{"name": "a"}]}
        body = {"contents": [USER], "systemInstruction": {"parts": [{"text": "s"}]}, "tools": [tool]}
        self.assertEqual(fm.check_request(path, headers, body, expects_tools=True), [])
        for changed, complaint in (
            ({"path": "/v1/x"}, "unexpected path"),
            ({"headers": {}}, "wrong API key"),
            ({"body": None}, "not a JSON object"),
            ({"body": body | {"systemInstruction": {}}}, "no system instruction"),
            ({"body": body | {"tools": []}}, "no tools declared"),
            ({"body": body | {"tools": [tool, tool]}}, "declared twice"),
        ):
            with self.subTest(complaint):
                arguments: dict[str, Any] = {"path": path, "headers": headers, "body": body} | changed
                self.assertIn(complaint, "; ".join(fm.check_request(**arguments, expects_tools=True)))

    def test_dialogue_is_without_wrapping(self) -> None:
        wrapped = "<USER_REQUEST>\nhi\n</USER_REQUEST>\n<ADDITIONAL_METADATA>\nx\n</ADDITIONAL_METADATA>"
        thought = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a"}, {"text": "b"}]}
        request = fm.Request(1, "", {}, {"contents": [{"role": "user", "parts": [{"text": wrapped}]}, thought]})
        self.assertEqual(request.dialogue, [("user", "hi"), ("model", "ab")])


class Server(unittest.IsolatedAsyncioTestCase):
    """The server answers what is scripted, and remembers what was not."""

    async def asyncSetUp(self) -> None:
        self.model = fm.FakeModel()
        self.addCleanup(self.model.close)

    async def post(self, *contents: dict[str, Any]) -> tuple[int, bytes]:
        def ask() -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(self.model.url.removeprefix("http://"), timeout=10)
            body = {"contents": list(contents or [USER]), "systemInstruction": {"parts": [{"text": "s"}]}}
            connection.request(
                "POST",
                f"/v1beta/models/{fm.MODEL}:streamGenerateContent?alt=sse",
                json.dumps(body),
                {"x-goog-api-key": fm.API_KEY},
            )
            response = connection.getresponse()
            try:
                return response.status, response.read()
            except http.client.IncompleteRead as cut:
                return -1, cut.partial
            finally:
                connection.close()

        return await asyncio.to_thread(ask)

    async def test_chunks_and_finish(self) -> None:
        self.model.say(fm.answer("a", "ü"))
        status, body = await self.post()
        self.assertEqual(status, 200)
        events = [json.loads(line.removeprefix("data: ")) for line in body.decode().split("\n\n") if line]
        candidates = [e["candidates"][0] for e in events]
        self.assertEqual([c["content"]["parts"] for c in candidates], [[{"text": "a"}], [{"text": "ü"}]])
        self.assertEqual([c.get("finishReason") for c in candidates], [None, "STOP"])
        self.assertEqual(events[-1]["usageMetadata"], fm.DEFAULT_USAGE)
        self.assertEqual((self.model.violations, self.model.left), ([], 0))

    async def test_cut_has_no_end(self) -> None:
        self.model.say(fm.answer("a", fm.CUT))
        status, body = await self.post()
        self.assertEqual(status, -1)
        self.assertIn(b'"a"', body)

    async def test_gate_holds_the_answer(self) -> None:
        gate = fm.Gate()
        self.model.say(fm.answer("a", gate, "b"))
        asked = asyncio.create_task(self.post())
        await self.model.request(1)
        self.assertFalse(asked.done())
        gate.open()
        self.assertEqual((await asked)[0], 200)
        await self.model.answered(1)

    async def test_running_out_of_answers_is_a_violation(self) -> None:
        status, _ = await self.post()
        self.assertEqual(status, 400)
        self.assertEqual(self.model.violations, ["request 1: no answer is scripted for it"])

    async def test_bad_history_is_a_violation(self) -> None:
        self.model.say(fm.answer("a"))
        status, _ = await self.post(USER, calls("a"))
        self.assertEqual((status, self.model.left), (400, 1))
        self.assertEqual(self.model.violations, ["request 1: calls without a response: a/id-a"])


class Judging(unittest.TestCase):
    """With --expect-peer a named fault must show, and for the reason that is named."""

    def judge(self, status: str, reason: str = "", *, fault: str | None = "f", sometimes: bool = False) -> str:
        item = Listed("x", "", 1, fault, "glued", sometimes)
        return _judge(item, Result("x", status, 0, reason), expect_peer=True).status

    def test_judging(self) -> None:
        self.assertEqual(self.judge("fail", "they are glued"), "pass")
        self.assertEqual(self.judge("fail", "something else"), "fail")
        self.assertEqual(self.judge("pass"), "fail")
        self.assertEqual(self.judge("pass", sometimes=True), "pass")
        self.assertEqual(self.judge("fail", fault=None), "fail")
        self.assertEqual(self.judge("pass", fault=None), "pass")

    def test_selection(self) -> None:
        self.assertTrue(_selected("sse_done", ["sse_*"]))
        self.assertFalse(_selected("sse_done", ["sse"]))


if __name__ == "__main__":
    unittest.main()
