"""A scripted model server on loopback, speaking Gemini's streaming REST form.

`POST /v1beta/models/{model}:streamGenerateContent?alt=sse` answers with what the
scenario scripted, and nothing else is served. Time never decides anything: where a
scenario needs an order of events it puts a `Gate` into an answer and opens it.

Every request is checked (`check_request`), whatever the scenario is about: a harness
must not send a history that the real API would refuse. A refused request, and one for
which no answer is scripted, gets an HTTP 400 and fails the scenario afterwards.
"""

from __future__ import annotations

import asyncio
import dataclasses
import http.server
import json
import os
import re
import select
import threading
from collections.abc import Callable, Iterable
from typing import Any

API_KEY = "conformance-key"
MODEL = "gemini-3-conformance"

# The longest time a gate inside an answer stays closed, in seconds. A scenario ends
# (or is ended) long before; the limit only keeps a lost thread from living for ever.
_GATE_LIMIT = 120.0

_WRAPPED_INPUT = re.compile(r"<USER_REQUEST>\n(.*?)\n?</USER_REQUEST>", re.DOTALL)


class Gate:
    """Holds an answer back until the scenario opens it. Opening twice is harmless."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._open = False

    def open(self) -> None:
        if not self._open:
            self._open = True
            os.write(self._writer, b"o")

    def fileno(self) -> int:
        return self._reader


@dataclasses.dataclass(frozen=True)
class Raw:
    """Bytes put on the stream as they are."""

    data: bytes


class _Cut:
    """Ends the stream in the middle, as a broken connection does."""


CUT = _Cut()


@dataclasses.dataclass
class Turn:
    """One scripted HTTP answer.

    `items` are written in order: a `str` is a chunk with one text part, a `dict` a chunk
    with that part, a `list` a chunk with these parts, a `Gate` waits, `Raw` is written as
    it is, `CUT` breaks the connection.
    """

    items: list[Any]
    finish: str | None = "STOP"
    # True: the finish reason comes in a chunk of its own, whose candidate has no content.
    finish_alone: bool = False
    usage: dict[str, Any] | None = None
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes | None = None
    separator: str = "\n\n"


DEFAULT_USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}


def answer(
    *items: Any,
    finish: str | None = "STOP",
    finish_alone: bool = False,
    usage: dict[str, Any] | None = None,
    separator: str = "\n\n",
) -> Turn:
    """A streamed answer. Without `usage` it carries `DEFAULT_USAGE`."""
    return Turn(
        list(items),
        finish=finish,
        finish_alone=finish_alone,
        usage=DEFAULT_USAGE if usage is None else usage,
        separator=separator,
    )


def raw(*items: Any) -> Turn:
    """A stream of exactly these bytes, gates and cuts: no finish chunk is added."""
    return Turn([Raw(i) if isinstance(i, bytes) else i for i in items], finish=None)


def error(
    status: int,
    message: str,
    *,
    rpc_status: str = "",
    details: Iterable[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
) -> Turn:
    """An HTTP error with the body the real API gives."""
    body = {"error": {"code": status, "message": message, "status": rpc_status or "UNKNOWN", "details": list(details)}}
    return Turn([], status=status, headers=headers or {}, body=json.dumps(body).encode())


def text(value: str, *, signature: str | None = None) -> dict[str, Any]:
    return _signed({"text": value}, signature)


def thought(value: str, *, signature: str | None = None) -> dict[str, Any]:
    return _signed({"text": value, "thought": True}, signature)


def call(
    name: str, args: dict[str, Any] | None = None, *, id: str | None = None, signature: str | None = None
) -> dict[str, Any]:
    function_call: dict[str, Any] = {"name": name, "args": args or {}}
    if id is not None:
        function_call["id"] = id
    return _signed({"functionCall": function_call}, signature)


def _signed(part: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return part if signature is None else part | {"thoughtSignature": signature}


def chunk(
    parts: list[dict[str, Any]] | None, *, finish: str | None = None, usage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One `GenerateContentResponse`. `parts` None leaves the candidate without content."""
    candidate: dict[str, Any] = {"index": 0}
    if parts is not None:
        candidate["content"] = {"role": "model", "parts": parts}
    if finish is not None:
        candidate["finishReason"] = finish
    response: dict[str, Any] = {"candidates": [candidate], "modelVersion": MODEL}
    if usage is not None:
        response["usageMetadata"] = usage
    return response


def event(response: dict[str, Any], separator: str = "\n\n") -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(response, ensure_ascii=False)}{separator}".encode()


class Request:
    """A request the harness made."""

    def __init__(self, number: int, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.number = number
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def contents(self) -> list[dict[str, Any]]:
        return self.body.get("contents", [])

    @property
    def system(self) -> str:
        parts = self.body.get("systemInstruction", {}).get("parts", [])
        return "\n".join(p.get("text", "") for p in parts)

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """Declared functions by name."""
        return {d["name"]: d for t in self.body.get("tools", []) for d in t.get("functionDeclarations", [])}

    @property
    def dialogue(self) -> list[tuple[Any, ...]]:
        """The history without what a harness may phrase in its own way.

        `("user", text)` is what the user (or the system) said, without the metadata a
        harness wraps around it; `("model", text)` without thoughts; `("call", name, args)`;
        `("result", name)`; `("media", mime)`.
        """
        said: list[tuple[Any, ...]] = []
        for content in self.contents:
            who = "model" if content.get("role") == "model" else "user"
            for part in content.get("parts", []):
                if part.get("thought"):
                    continue
                if "functionCall" in part:
                    said.append(("call", part["functionCall"]["name"], part["functionCall"].get("args", {})))
                elif "functionResponse" in part:
                    said.append(("result", part["functionResponse"]["name"]))
                elif "inlineData" in part:
                    said.append(("media", part["inlineData"].get("mimeType")))
                elif part.get("text"):
                    if who == "model" and said and said[-1][0] == "model":
                        said[-1] = ("model", said[-1][1] + part["text"])
                    else:
                        said.append((who, unwrap(part["text"]) if who == "user" else part["text"]))
        return said

    @property
    def last_said(self) -> str:
        """The last thing the user side said, "" if the model's own turn is last."""
        said = [d for d in self.dialogue if d[0] == "user"]
        return said[-1][1] if said else ""

    @property
    def results(self) -> list[dict[str, Any]]:
        """The `functionResponse`s after the last call, in order."""
        found: list[dict[str, Any]] = []
        for content in reversed(self.contents):
            here = [p["functionResponse"] for p in content.get("parts", []) if "functionResponse" in p]
            if not here:
                break
            found = here + found
        return found

    @property
    def result_texts(self) -> list[str]:
        """What the model reads in each of `results`."""
        return [result_text(r) for r in self.results]

    @property
    def parts(self) -> list[dict[str, Any]]:
        return [p for c in self.contents for p in c.get("parts", [])]


def unwrap(value: str) -> str:
    """The user's own words in a user text."""
    found = _WRAPPED_INPUT.search(value)
    return found.group(1) if found else value


def result_text(response: dict[str, Any]) -> str:
    content = response.get("response", {})
    if set(content) == {"output"} and isinstance(content["output"], str):
        return content["output"]
    return json.dumps(content, ensure_ascii=False)


def check_request(path: str, headers: dict[str, str], body: Any, *, expects_tools: bool) -> list[str]:
    """What is wrong with a request, in the terms of the public Gemini API."""
    wrong: list[str] = []
    if path != f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse":
        wrong.append(f"unexpected path {path}")
    if headers.get("x-goog-api-key") != API_KEY:
        wrong.append(f"wrong API key {headers.get('x-goog-api-key')!r}")
    if not isinstance(body, dict):
        return [*wrong, "the body is not a JSON object"]
    system = body.get("systemInstruction", {}).get("parts", [])
    if not any(p.get("text") for p in system):
        wrong.append("no system instruction")
    declared = [d.get("name") for t in body.get("tools", []) for d in t.get("functionDeclarations", [])]
    if expects_tools and not declared:
        wrong.append("no tools declared")
    if len(set(declared)) != len(declared):
        wrong.append(f"a tool is declared twice: {sorted(declared)}")
    return wrong + check_history(body.get("contents"))


def check_history(contents: Any) -> list[str]:
    """What makes a history one that the API refuses: above all, calls and answers must pair."""
    if not isinstance(contents, list) or not contents:
        return ["no contents"]
    wrong: list[str] = []
    if contents[0].get("role") != "user":
        wrong.append(f"the history starts with role {contents[0].get('role')!r}")
    open_calls: list[dict[str, Any]] = []
    ids: set[str] = set()
    for at, content in enumerate(contents):
        if content.get("role") not in ("user", "model", "function"):
            wrong.append(f"contents[{at}] has role {content.get('role')!r}")
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            wrong.append(f"contents[{at}] has no parts")
            continue
        answered_here = False
        calls_here = False
        for part in parts:
            where = f"contents[{at}]"
            if not isinstance(part, dict) or not (set(part) - {"thought", "thoughtSignature"}):
                wrong.append(f"{where} has an empty part")
            elif "functionCall" in part:
                if open_calls and not calls_here:
                    wrong.append(f"{where}: a new call while {_names(open_calls)} is unanswered")
                calls_here = True
                if content.get("role") != "model":
                    wrong.append(f"{where}: a call with role {content.get('role')!r}")
                open_calls.append(part["functionCall"])
            elif "functionResponse" in part:
                answered_here = True
                response = part["functionResponse"]
                if not isinstance(response.get("response"), dict):
                    wrong.append(f"{where}: the response of {response.get('name')} is not an object")
                if not open_calls:
                    wrong.append(f"{where}: a response of {response.get('name')} without a call")
                    continue
                expected = open_calls.pop(0)
                if (response.get("name"), response.get("id")) != (expected.get("name"), expected.get("id")):
                    wrong.append(
                        f"{where}: response {response.get('name')}/{response.get('id')} where "
                        f"{expected.get('name')}/{expected.get('id')} is due"
                    )
                if response.get("id") in ids:
                    wrong.append(f"{where}: a second response with id {response.get('id')}")
                if response.get("id"):
                    ids.add(response["id"])
            elif open_calls and not calls_here and not answered_here:
                wrong.append(f"{where}: other content while {_names(open_calls)} is unanswered")
    if open_calls:
        wrong.append(f"calls without a response: {_names(open_calls)}")
    return wrong


def _names(calls: list[dict[str, Any]]) -> str:
    return ", ".join(f"{c.get('name')}/{c.get('id')}" for c in calls)


Script = Turn | Callable[[Request], Turn]


class FakeModel:
    """The server. All methods are for the scenario's event loop."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        # Requests that break an invariant, or that no answer was scripted for.
        self.violations: list[str] = []
        self.expects_tools = False
        # Answers every request when set; the queue of turns is not looked at then.
        self.script: Callable[[Request], Turn] | None = None
        self._turns: list[Script] = []
        self._gone: set[int] = set()
        self._answered: set[int] = set()
        self._lock = threading.Lock()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._loop = asyncio.get_running_loop()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True, name="fake-model")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, *turns: Script) -> None:
        """Appends answers to the script."""
        with self._lock:
            self._turns.extend(turns)

    @property
    def left(self) -> int:
        """Scripted answers that nobody has asked for."""
        return len(self._turns)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Waits until `predicate`, looked at after every event at the server, holds."""
        with self._lock:
            if predicate():
                return
            waiter = self._loop.create_future()
            self._waiters.append((predicate, waiter))
        await waiter

    async def request(self, number: int) -> Request:
        """The `number`-th request (from 1), as soon as it has come."""
        await self.until(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def hung_up(self, number: int) -> None:
        """Waits until the harness has dropped the connection of that request."""
        await self.until(lambda: number in self._gone)

    async def answered(self, number: int) -> None:
        """Waits until the whole answer of that request is written."""
        await self.until(lambda: number in self._answered)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # Everything below runs on the server's threads.

    def _changed(self) -> None:
        def wake() -> None:
            with self._lock:
                due = [(p, w) for p, w in self._waiters if w.done() or p()]
                self._waiters = [x for x in self._waiters if x not in due]
            for _, waiter in due:
                if not waiter.done():
                    waiter.set_result(None)

        try:
            self._loop.call_soon_threadsafe(wake)
        except RuntimeError:
            pass  # The scenario is over and its loop closed.

    def _accept(self, path: str, headers: dict[str, str], body: Any) -> tuple[Request, Turn]:
        with self._lock:
            request = Request(len(self.requests) + 1, path, headers, body if isinstance(body, dict) else {})
            self.requests.append(request)
            wrong = check_request(path, headers, body, expects_tools=self.expects_tools)
            script: Script | None = None
            if not wrong:
                script = self.script or (self._turns.pop(0) if self._turns else None)
                if script is None:
                    wrong = ["no answer is scripted for it"]
            self.violations += [f"request {request.number}: {w}" for w in wrong]
        self._changed()
        if script is None:
            return request, error(400, "conformance: " + "; ".join(wrong), rpc_status="INVALID_ARGUMENT")
        return request, script(request) if callable(script) else script

    def _finished(self, request: Request, *, whole: bool) -> None:
        with self._lock:
            (self._answered if whole else self._gone).add(request.number)
        self._changed()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # A harness that hangs up is an event of the scenario, not an error.


class _HungUp(Exception):
    pass


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._refuse()

    def do_POST(self) -> None:
        if ":streamGenerateContent" not in self.path:
            self._refuse()
            return
        try:
            body = json.loads(self._read_body())
        except ValueError:
            body = None
        headers = {k.lower(): v for k, v in self.headers.items()}
        request, turn = self.server.model._accept(self.path, headers, body)
        try:
            whole = self._answer(turn)
        except (_HungUp, OSError):
            self.close_connection = True
            whole = False
        self.server.model._finished(request, whole=whole)

    def _refuse(self) -> None:
        with self.server.model._lock:
            self.server.model.violations.append(f"unexpected {self.command} {self.path}")
        body = b'{"error":{"code":404,"message":"conformance: not served","status":"NOT_FOUND"}}'
        self._read_body()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, turn: Turn) -> bool:
        """Writes the answer; False if it ended in a cut."""
        self.send_response(turn.status)
        for name, value in turn.headers.items():
            self.send_header(name, value)
        if turn.body is not None:
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(turn.body)))
            self.end_headers()
            self.wfile.write(turn.body)
            return True
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for piece in _pieces(turn):
            if isinstance(piece, Gate):
                self._wait(piece)
            elif piece is CUT:
                # Closing without the last chunk of the chunked body: the client sees an unexpected end.
                self.close_connection = True
                return False
            else:
                self._write(piece)
        self.wfile.write(b"0\r\n\r\n")
        return True

    def _write(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _wait(self, gate: Gate) -> None:
        ready, _, _ = select.select([gate, self.connection], [], [], _GATE_LIMIT)
        if gate in ready:
            return
        # Readable without a new request being due: the peer has closed.
        raise _HungUp


def _pieces(turn: Turn) -> Iterable[Any]:
    """Bytes, gates and cuts of a streamed turn; the last content chunk carries the finish, if one comes."""
    finish = None if any(item is CUT for item in turn.items) else turn.finish
    contents = [i for i, item in enumerate(turn.items) if isinstance(item, (str, dict, list))]
    alone = turn.finish_alone or not contents
    for i, item in enumerate(turn.items):
        if isinstance(item, Raw):
            yield item.data
        elif isinstance(item, Gate) or item is CUT:
            yield item
        else:
            parts = [{"text": item}] if isinstance(item, str) else [item] if isinstance(item, dict) else item
            last = i == contents[-1] and not alone and finish is not None
            yield event(
                chunk(parts, finish=finish if last else None, usage=turn.usage if last else None), turn.separator
            )
    if alone and finish is not None:
        yield event(chunk(None, finish=finish, usage=turn.usage), turn.separator)
