"""Cancelling a turn, at every place a turn can be."""

from __future__ import annotations

import asyncio
from typing import Any

from .. import witness
from ..fake_model import Gate, answer, call, error
from ..scenario import Failed, Reply, Trial, scenario

# Seconds a cancelled turn may take to end.
PROMPT = 5.0


async def cancelled(t: Trial, agent: Any, response: Any) -> Reply:
    """Cancels the turn; it must end soon, as cancelled."""
    await response.cancel()
    try:
        reply = await asyncio.wait_for(t.collect(agent, response), PROMPT)
    except TimeoutError:
        raise Failed(f"the cancelled turn has not ended after {PROMPT:g} s") from None
    t.check(isinstance(reply.error, t.sdk.cancelled_error), f"the cancelled turn ended with {reply.error!r}")
    return reply


async def first_text(response: Any) -> str:
    async for delta in response:
        return delta
    return ""


@scenario()
async def cancel_before_output(t: Trial) -> None:
    """A turn whose model has not said a word is cancelled: the request ends, the next turn works (F023)."""
    t.model.say(answer(Gate(), "Never."))
    async with t.agent() as agent:
        response = await agent.chat("Go")
        await t.model.request(1)
        await cancelled(t, agent, response)
        await asyncio.wait_for(t.model.hung_up(1), PROMPT)
        await t.still_works(agent)
    t.equal(t.model.requests[1].dialogue[0], ("user", "Go"), "the cancelled question stays in the history")


@scenario()
async def cancel_mid_stream(t: Trial) -> None:
    """A turn is cancelled in the middle of its answer: the request ends, the partial text stays in the history."""
    t.model.say(answer("Partial answer", Gate(), " never finished"))
    async with t.agent() as agent:
        response = await agent.chat("Go")
        t.equal(await first_text(response), "Partial answer", "first delta")
        reply = await cancelled(t, agent, response)
        t.equal(reply.text, "Partial answer", "text")
        await asyncio.wait_for(t.model.hung_up(1), PROMPT)
        await t.still_works(agent)
    t.equal(t.model.requests[1].dialogue[:2], [("user", "Go"), ("model", "Partial answer")], "history")


async def cancel_command(t: Trial, children: str) -> None:
    """Cancels a turn while a command runs that has started `children`, which set $a."""
    pids = t.fifo("pids")
    command = f"{children} a=$!; echo $$ $a > {pids.path}; wait"
    t.model.say(
        answer(
            call("run_command", {"CommandLine": command, "Cwd": str(t.workspace), "WaitMsBeforeAsync": 10_000}, id="c")
        )
    )
    async with t.agent(builtins=("run_command",)) as agent:
        response = await agent.chat("Go")
        running = [int(p) for p in (await pids.line()).split()]
        t.check(all(witness.alive(p) for p in running), "the command runs before it is cancelled")
        await cancelled(t, agent, response)
        left = await asyncio.to_thread(witness.gone, running, PROMPT)
        t.equal([witness.command_line(p) for p in left], [], "processes of the command that still run")
        await t.still_works(agent)
    t.equal(t.model.requests[1].dialogue[-2:], [("result", "run_command"), ("user", "Are you there?")], "history")


@scenario(
    peer_fault="a cancel may leave a command that has just started running",
    peer_shows="still run|not ended",
    peer_sometimes=True,
)
async def cancel_mid_command(t: Trial) -> None:
    """A turn is cancelled while a command runs: the command and its children are gone, its call is answered (F002, F023)."""
    await cancel_command(t, "sleep 300 &")


@scenario(
    peer_fault="a child outside the command's session may keep a cancelled turn open",
    peer_shows="still run|not ended",
    peer_sometimes=True,
)
async def cancel_command_in_another_session(t: Trial) -> None:
    """A child that has left the command's session and process group is ended too (F002)."""
    await cancel_command(t, "setsid sleep 300 &")


@scenario(
    peer_fault="a cancel may leave a command that has just started running",
    peer_shows="still run|not ended",
    peer_sometimes=True,
)
async def cancel_stubborn_command(t: Trial) -> None:
    """A child that ignores the polite signals is ended too, and the turn ends all the same (F002)."""
    await cancel_command(t, "(trap '' HUP INT TERM; while true; do sleep 1; done) &")


@scenario()
async def cancel_mid_host_tool(t: Trial) -> None:
    """A turn is cancelled while a host tool runs; its late answer, in the middle of the next turn, does no harm (F023)."""
    started, release, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Takes its time."""
        started.set()
        await release.wait()
        answered.set()
        return "too late"

    gate = Gate()
    t.model.say(answer(call("slow", id="s")), answer("On", gate, "ward."))
    async with t.agent(tools=[slow]) as agent:
        response = await agent.chat("Go")
        await started.wait()
        await cancelled(t, agent, response)
        response = await agent.chat("And now?")
        t.equal(await first_text(response), "On", "first delta of the next turn")
        sent = sum(f["from"] == "sdk" for f in t.sdk.frames)
        release.set()
        await answered.wait()
        await t.sdk.until(lambda: sum(f["from"] == "sdk" for f in t.sdk.frames) > sent)
        gate.open()
        t.equal((await t.collect(agent, response)).text, "Onward.", "text of the next turn")
        await t.still_works(agent)
    t.equal(
        t.model.requests[1].dialogue,
        [("user", "Go"), ("call", "slow", {}), ("result", "slow"), ("user", "And now?")],
        "history",
    )


@scenario()
async def cancel_in_retry_wait(t: Trial) -> None:
    """A turn that waits for its next attempt is cancelled at once (F068)."""
    t.model.say(error(503, "busy", rpc_status="UNAVAILABLE"))
    async with t.agent(retries={"max_retries": 5, "initial_sleep_duration_ms": 60_000}) as agent:
        response = await agent.chat("Go")
        await t.model.answered(1)
        await cancelled(t, agent, response)
        await t.still_works(agent)


@scenario()
async def cancel_with_open_calls(t: Trial) -> None:
    """Of three calls one is done, one runs, one waits when the turn is cancelled: the next request answers all three (F001)."""
    started = asyncio.Event()

    async def quick() -> str:
        """Is quick."""
        return "quick"

    async def stuck() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return ""

    t.model.say(answer([call("quick", id="1"), call("stuck", id="2"), call("quick", id="3")]))
    async with t.agent(tools=[quick, stuck]) as agent:
        response = await agent.chat("Go")
        await started.wait()
        await cancelled(t, agent, response)
        await t.still_works(agent)
    # That each call has its response is checked on every request.
    calls = [d for d in t.model.requests[1].dialogue if d[0] == "call"]
    t.equal([c[1] for c in calls], ["quick", "stuck", "quick"], "calls in the history")


@scenario()
async def cancel_twice(t: Trial) -> None:
    """A second cancel, and one of an idle conversation, change nothing."""
    t.model.say(answer(Gate(), "Never."))
    async with t.agent() as agent:
        response = await agent.chat("Go")
        await t.model.request(1)
        await response.cancel()
        await cancelled(t, agent, response)
        await agent.conversation.cancel()
        await t.still_works(agent)
