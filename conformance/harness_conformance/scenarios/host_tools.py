"""Tools that run in the SDK's process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ..fake_model import answer, call
from ..scenario import Trial, scenario
from .tools import PNG, inline


@scenario()
async def host_tool(t: Trial) -> None:
    """A host tool gets its arguments, the step names it, the model reads its result."""
    seen: list[Any] = []

    def add(a: int, b: int, note: str = "") -> dict[str, Any]:
        """Adds two numbers."""
        seen.append((a, b, note))
        return {"sum": a + b, "note": note}

    t.model.say(
        answer(call("add", {"a": 2, "b": 40, "note": "ünï", "toolAction": "Adding", "toolSummary": "Sum"}, id="c1")),
        answer("42."),
    )
    async with t.agent(tools=[add]) as agent:
        reply = await t.chat(agent, "Add")
        t.equal(seen, [(2, 40, "ünï")], "calls of the tool")
        t.equal(reply.text, "42.", "answer")
        calls = [c for c in reply.chunks if type(c).__name__ == "ToolCall"]
        t.equal(
            [(c.name, c.id, c.args) for c in calls],
            [("add", "c1", {"a": 2, "b": 40, "note": "ünï"})],
            "calls the SDK streams",
        )
        t.equal(
            [(s.step_index, s.source.value, s.status.value) for s in reply.done],
            [(0, "USER", "DONE"), (1, "MODEL", "DONE"), (2, "MODEL", "DONE")],
            "steps",
        )
        await t.still_works(agent)
    result = t.model.requests[1].results[0]
    t.equal((result["name"], result.get("id")), ("add", "c1"), "the result at the model")
    t.matches(t.model.requests[1].result_texts[0], r'"sum":\s*42', "what the model read")


@scenario()
async def host_tool_async(t: Trial) -> None:
    """A coroutine works as a host tool."""

    async def wait_a_little(name: str) -> str:
        """Waits."""
        await asyncio.sleep(0)
        return f"waited for {name}"

    t.model.say(answer(call("wait_a_little", {"name": "Godot"}, id="c1")), answer("Came."))
    async with t.agent(tools=[wait_a_little]) as agent:
        t.equal((await t.chat(agent, "Wait")).text, "Came.", "answer")
        t.contains(t.model.requests[1].result_texts[0], "waited for Godot", "what the model read")
        await t.still_works(agent)


@scenario()
async def host_tool_raises(t: Trial) -> None:
    """What a host tool raises is a result the model reads, and the turn goes on."""

    def explode() -> str:
        """Fails."""
        raise ValueError("boiler pressure 9000")

    t.model.say(answer(call("explode", id="c1")), answer("Oh."))
    async with t.agent(tools=[explode]) as agent:
        t.equal((await t.chat(agent, "Go")).text, "Oh.", "answer")
        t.contains(t.model.requests[1].result_texts[0], "boiler pressure 9000", "what the model read")
        await t.still_works(agent)


def _scalar(name: str, value: Any, shown: str) -> None:
    async def run(t: Trial) -> None:
        def get() -> Any:
            """Gives a value."""
            return value

        t.model.say(answer(call("get", id="c1")), answer("Got it."))
        async with t.agent(tools=[get]) as agent:
            t.equal((await t.chat(agent, "Get")).text, "Got it.", "answer")
            t.contains(t.model.requests[1].result_texts[0].replace('\\"', '"'), shown, "what the model read")
            await t.still_works(agent)

    run.__doc__ = f"A host tool's result of type {name} reaches the model."
    scenario(name=f"host_tool_gives_{name}")(run)


_scalar("string", "plain words", "plain words")
_scalar("number", 3.25, "3.25")
_scalar("none", None, "null")
_scalar("list", ["a", {"b": [1, 2]}], '"b"')


@scenario()
async def host_tool_gives_media(t: Trial) -> None:
    """Media a host tool returns reach the model as media, its text as text."""

    def picture() -> Any:
        """Takes a picture."""
        return [t.sdk.types.Image(data=PNG, mime_type="image/png"), "a red dot"]

    t.model.say(answer(call("picture", id="c1")), answer("Nice."))
    async with t.agent(tools=[picture]) as agent:
        t.equal((await t.chat(agent, "Click")).text, "Nice.", "answer")
        t.equal(inline(t.model.requests[1].results[0]), [("image/png", PNG)], "media of the result")
        t.contains(json.dumps(t.model.requests[1].results[0]["response"]), "a red dot", "text of the result")
        await t.still_works(agent)


@scenario(peer_fault="runs the host calls of one answer one after the other", peer_shows="together")
async def host_tools_run_together(t: Trial) -> None:
    """Four host calls of one answer are in the SDK's hands at the same time; results go back in call order."""
    inside: set[int] = set()
    all_in = asyncio.Event()
    alone: list[int] = []

    async def meet(n: int) -> str:
        """Waits for the others."""
        inside.add(n)
        if len(inside) == 4:
            all_in.set()
        try:
            if not alone:
                await asyncio.wait_for(all_in.wait(), 2)
        except TimeoutError:
            alone.append(n)
        # The last to come answers first.
        for _ in range(4 - n):
            await asyncio.sleep(0)
        return f"result {n}"

    t.model.say(answer([call("meet", {"n": n}, id=f"m{n}") for n in range(4)]), answer("Met."))
    async with t.agent(tools=[meet]) as agent:
        t.equal((await t.chat(agent, "Meet")).text, "Met.", "answer")
        t.equal(alone, [], "calls that waited in vain: the four did not run together")
        t.equal([r.get("id") for r in t.model.requests[1].results], ["m0", "m1", "m2", "m3"], "order of the results")
        for n, read in enumerate(t.model.requests[1].result_texts):
            t.contains(read, f"result {n}", "what the model read")
        await t.still_works(agent)


@scenario(peer_fault="runs the host calls of one answer one after the other", peer_shows="took")
async def four_slow_host_tools(t: Trial) -> None:
    """Four host calls of 300 ms each in one answer take less than a second together."""

    async def slow(n: int) -> int:
        """Takes 300 ms."""
        await asyncio.sleep(0.3)
        return n

    t.model.say(answer([call("slow", {"n": n}, id=f"s{n}") for n in range(4)]), answer("Done."))
    async with t.agent(tools=[slow]) as agent:
        clock = asyncio.get_running_loop().time
        before = clock()
        await t.chat(agent, "Go")
        took = clock() - before
        t.check(took < 1.0, f"the turn took {took:.2f} s")


@scenario()
async def host_and_builtin_calls_mixed(t: Trial) -> None:
    """Host and built-in calls of one answer are answered in call order, whichever ends first."""
    path = t.write("a.txt", "alpha\n")

    async def later() -> str:
        """Answers later than a file is read."""
        await asyncio.sleep(0.05)
        return "from the host"

    t.model.say(
        answer([call("later", id="1"), call("view_file", {"AbsolutePath": path}, id="2"), call("later", id="3")]),
        answer("Done."),
    )
    async with t.agent(tools=[later], builtins=("view_file",)) as agent:
        t.equal((await t.chat(agent, "Go")).text, "Done.", "answer")
        t.equal(
            [(r["name"], r.get("id")) for r in t.model.requests[1].results],
            [("later", "1"), ("view_file", "2"), ("later", "3")],
            "order of the results",
        )
        await t.still_works(agent)


@scenario()
async def host_tool_large_result(t: Trial) -> None:
    """A host tool's result of 20 KB reaches the model whole; one of 3 MB breaks nothing (F024)."""
    sizes = iter((20_000, 3_000_000))

    def dump() -> str:
        """Gives a lot."""
        return "x" * next(sizes)

    t.model.say(answer(call("dump", id="1")), answer("Small."), answer(call("dump", id="2")), answer("Large."))
    async with t.agent(tools=[dump]) as agent:
        t.equal((await t.chat(agent, "Dump")).text, "Small.", "first answer")
        t.contains(t.model.requests[1].result_texts[0], "x" * 20_000, "the small result")
        t.equal((await t.chat(agent, "Dump more")).text, "Large.", "second answer")
        t.check("xxx" in t.model.requests[3].result_texts[0], "the large result is there, cut or not")
        await t.still_works(agent)


@scenario()
async def call_without_id(t: Trial) -> None:
    """A call the model gave no id gets one, the same in history and response; two calls get two."""
    seen: list[int] = []

    def note(n: int) -> str:
        """Notes."""
        seen.append(n)
        return f"noted {n}"

    t.model.say(answer([call("note", {"n": 1}), call("note", {"n": 2})]), answer("Noted."))
    async with t.agent(tools=[note]) as agent:
        t.equal((await t.chat(agent, "Note")).text, "Noted.", "answer")
        t.equal(sorted(seen), [1, 2], "calls")
        for n, read in enumerate(t.model.requests[1].result_texts, 1):
            t.contains(read, f"noted {n}", "what the model read")
        await t.still_works(agent)
