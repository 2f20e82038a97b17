"""Errors of the model's server, and answers that break off or make no sense."""

from __future__ import annotations

import asyncio
from typing import Any

from ..fake_model import CUT, Gate, Turn, answer, call, chunk, error, event, raw
from ..scenario import Reply, Trial, scenario

CLOSES = "closes the session after a model error"


def _fatal(status: int, rpc_status: str, kind: str) -> None:
    async def run(t: Trial) -> None:
        t.model.script = lambda request: error(status, f"scripted failure {status}", rpc_status=rpc_status)
        async with t.agent() as agent:
            reply = await t.try_chat(agent, "Fail")
            expected = t.sdk.connection_error if kind == "connection" else t.sdk.execution_error
            t.check(isinstance(reply.error, expected), f"the turn ended with {reply.error!r}, not {expected.__name__}")
            t.contains(str(reply.error), f"scripted failure {status}", "text of the error")
            t.check(len(t.model.requests) <= 4, f"{len(t.model.requests)} attempts")
            # Otherwise the SDK could hand what is still under way to the next chat.
            await t.idle(1)
            await t.still_works(agent)

    run.__doc__ = (
        f"HTTP {status} ends the turn with the SDK's {kind} error and the server's words; the next turn works."
    )
    scenario(name=f"model_error_{status}", peer_fault=CLOSES, peer_shows="next chat")(run)


_fatal(400, "INVALID_ARGUMENT", "connection")
_fatal(401, "UNAUTHENTICATED", "connection")
_fatal(403, "PERMISSION_DENIED", "connection")
_fatal(404, "NOT_FOUND", "execution")
_fatal(500, "INTERNAL", "execution")


@scenario()
async def busy_server_is_retried(t: Trial) -> None:
    """429 and 503 are retried until the answer comes; the turn is a good one."""
    t.model.say(
        error(429, "slow down", rpc_status="RESOURCE_EXHAUSTED"),
        error(503, "overloaded", rpc_status="UNAVAILABLE"),
        answer("Finally."),
    )
    async with t.agent() as agent:
        reply = await t.chat(agent, "Go")
        t.equal((reply.text, agent.conversation.last_response), ("Finally.", "Finally."), "answer")
        t.equal(len(t.model.requests), 3, "model requests")
        t.equal([r.dialogue for r in t.model.requests], [[("user", "Go")]] * 3, "the same question each time")
        await t.still_works(agent)


@scenario(peer_fault=CLOSES, peer_shows="next chat")
async def retries_are_used_up(t: Trial) -> None:
    """max_retries is the number of repetitions; then the turn ends with an error, and the next one works (F068)."""
    t.model.script = lambda request: error(503, "overloaded for good", rpc_status="UNAVAILABLE")
    async with t.agent(retries={"max_retries": 2, "initial_sleep_duration_ms": 10}) as agent:
        reply = await t.try_chat(agent, "Go")
        t.check(isinstance(reply.error, t.sdk.execution_error), f"the turn ended with {reply.error!r}")
        t.contains(str(reply.error), "overloaded for good", "text of the error")
        t.equal(len(t.model.requests), 3, "model requests")
        await t.still_works(agent)


@scenario(peer_fault="ignores the wait the server asks for", peer_shows="waited")
async def server_names_the_wait(t: Trial) -> None:
    """Retry-After is obeyed, although the configured back-off is shorter (F019)."""
    clock = asyncio.get_running_loop().time
    at: list[float] = []

    def refuse(request: Any) -> Turn:
        at.append(clock())
        return error(429, "slow down", rpc_status="RESOURCE_EXHAUSTED", headers={"Retry-After": "1"})

    def accept(request: Any) -> Turn:
        at.append(clock())
        return answer("Finally.")

    t.model.say(refuse, accept)
    async with t.agent() as agent:
        t.equal((await t.chat(agent, "Go")).text, "Finally.", "answer")
        t.check(0.95 <= at[1] - at[0] < 5, f"waited {at[1] - at[0]:.2f} s")


@scenario()
async def server_names_the_wait_in_the_body(t: Trial) -> None:
    """google.rpc.RetryInfo is obeyed (F019)."""
    clock = asyncio.get_running_loop().time
    at: list[float] = []

    def refuse(request: Any) -> Turn:
        at.append(clock())
        return error(
            503,
            "overloaded",
            rpc_status="UNAVAILABLE",
            details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.2s"}],
        )

    def accept(request: Any) -> Turn:
        at.append(clock())
        return answer("Finally.")

    t.model.say(refuse, accept)
    async with t.agent() as agent:
        t.equal((await t.chat(agent, "Go")).text, "Finally.", "answer")
        t.check(1.1 <= at[1] - at[0] < 5, f"waited {at[1] - at[0]:.2f} s")


@scenario(peer_fault="retries a used-up daily quota", peer_shows="model requests")
async def daily_quota_is_not_retried(t: Trial) -> None:
    """A 429 for the quota of the day is not waited for: it ends the turn."""
    details = [
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {
                    "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                    "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
                    "quotaValue": "50",
                }
            ],
        }
    ]
    t.model.script = lambda request: error(
        429, "quota of the day is used up", rpc_status="RESOURCE_EXHAUSTED", details=details
    )
    async with t.agent() as agent:
        reply = await t.try_chat(agent, "Go")
        t.equal(len(t.model.requests), 1, "model requests")
        t.check(isinstance(reply.error, t.sdk.execution_error), f"the turn ended with {reply.error!r}")
        t.contains(str(reply.error), "quota of the day", "text of the error")
        await t.still_works(agent)


def recovered(t: Trial, agent: Any, reply: Reply, good: str, partial: str = "") -> None:
    """The turn has ended with an error, or with the good answer and nothing glued to it."""
    if reply.error is not None:
        t.check(
            isinstance(reply.error, (t.sdk.execution_error, t.sdk.connection_error)),
            f"the turn ended with {reply.error!r}",
        )
        return
    t.check(len(t.model.requests) > 1, f"nobody noticed: the turn ended well with {reply.text!r}")
    t.equal(agent.conversation.last_response, good, "last response")
    if partial:
        t.check(partial + good not in reply.text, f"two attempts are glued: {reply.text!r}")


@scenario(peer_fault="glues the text of two attempts", peer_shows="glued")
async def cut_in_the_text(t: Trial) -> None:
    """A stream cut in mid-text is asked for again; the two attempts are not glued (F015)."""
    t.model.say(answer("par", CUT), answer("fine"))
    async with t.agent() as agent:
        reply = await t.chat(agent, "Go")
        recovered(t, agent, reply, "fine", "par")
        await t.still_works(agent)


@scenario()
async def cut_before_output(t: Trial) -> None:
    """A stream cut before anything came is asked for again, unseen."""
    t.model.say(raw(CUT), answer("fine"))
    async with t.agent() as agent:
        reply = await t.chat(agent, "Go")
        t.equal((reply.text, agent.conversation.last_response), ("fine", "fine"), "answer")
        t.equal(t.model.requests[1].dialogue, [("user", "Go")], "second request")
        await t.still_works(agent)


@scenario()
async def cut_after_a_call(t: Trial) -> None:
    """A call in a cut answer is carried out once, however the answer is completed."""
    executed: list[int] = []
    gate = Gate()
    loop = asyncio.get_running_loop()

    def charge() -> str:
        """Charges a card."""
        executed.append(1)
        gate.open()
        return "charged"

    def script(request: Any) -> Turn:
        if request.number == 1:
            # A harness may start the call as soon as it is complete, or wait for the end of the answer.
            loop.call_soon_threadsafe(loop.call_later, 0.3, gate.open)
            return answer(call("charge", id="c1"), gate, CUT)
        if any(d == ("result", "charge") for d in request.dialogue):
            return answer("Charged.")
        return answer(call("charge", id=f"c{request.number}"))

    t.model.script = script
    async with t.agent(tools=[charge]) as agent:
        reply = await t.chat(agent, "Charge")
        t.equal(reply.text, "Charged.", "answer")
        t.equal(len(executed), 1, "executions")
        await t.still_works(agent)


def _nonsense(
    name: str, proves: str, turn: Turn, *, partial: str = "", fault: str | None = None, shows: str = ""
) -> None:
    async def run(t: Trial) -> None:
        t.model.script = lambda request: turn if request.number == 1 else answer("fine")
        async with t.agent() as agent:
            reply = await t.try_chat(agent, "Go")
            recovered(t, agent, reply, "fine", partial)
            await t.still_works(agent)

    run.__doc__ = proves
    scenario(name=name, peer_fault=fault, peer_shows=shows)(run)


_nonsense(
    "malformed_chunk",
    "A chunk that is no JSON is a failed attempt, not the end of the conversation.",
    raw(event(chunk([{"text": "par"}])), b'data: {"candidates": [{"content"\n\n'),
    partial="par",
    fault=CLOSES,
    shows="next chat",
)
_nonsense(
    "error_inside_a_stream",
    "An error object in a stream is a failed attempt, not the end of the conversation.",
    raw(event({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})),
)
_nonsense(
    "finish_safety_with_text",
    "SAFETY with text is noticed: asked again or an error, nothing glued.",
    answer("part ", finish="SAFETY"),
    partial="part ",
    fault="glues the text of two attempts",
    shows="glued",
)
_nonsense("finish_safety_without_content", "SAFETY without content is noticed.", answer(finish="SAFETY"))
_nonsense(
    "finish_safety_after_text",
    "SAFETY in a last chunk without content is noticed, though text came before it.",
    answer("part ", finish="SAFETY", finish_alone=True),
    partial="part ",
    fault="ignores a finish reason in a chunk without content",
    shows="noticed",
)
_nonsense(
    "finish_max_tokens_with_text",
    "MAX_TOKENS with text is noticed: asked again or an error, nothing glued.",
    answer("part ", finish="MAX_TOKENS"),
    partial="part ",
    fault="glues the text of two attempts",
    shows="glued",
)
_nonsense("finish_max_tokens_without_content", "MAX_TOKENS without content is noticed.", answer(finish="MAX_TOKENS"))
_nonsense(
    "finish_max_tokens_after_text",
    "MAX_TOKENS in a last chunk without content is noticed.",
    answer("part ", finish="MAX_TOKENS", finish_alone=True),
    partial="part ",
    fault="ignores a finish reason in a chunk without content",
    shows="noticed",
)
_nonsense(
    "finish_malformed_call",
    "MALFORMED_FUNCTION_CALL without content is asked again, never an empty success (F016).",
    answer(finish="MALFORMED_FUNCTION_CALL"),
)
_nonsense(
    "finish_malformed_call_no_parts",
    "MALFORMED_FUNCTION_CALL with content but no parts is asked again (F016).",
    raw(event({"candidates": [{"content": {"role": "model"}, "finishReason": "MALFORMED_FUNCTION_CALL"}]})),
)
_nonsense("prompt_blocked", "A blocked prompt is noticed.", raw(event({"promptFeedback": {"blockReason": "SAFETY"}})))


@scenario(peer_fault="asks for ever when answers are empty", peer_shows="not bounded")
async def empty_answers_are_bounded(t: Trial) -> None:
    """A model that answers nothing, again and again, ends the turn with an error after a few attempts; the next turn works."""

    def script(request: Any) -> Turn:
        if request.number > 20:
            t.model.violations.append("the attempts are not bounded")
            return answer("Stop.")
        return answer()

    t.model.script = script
    async with t.agent() as agent:
        reply = await t.try_chat(agent, "Go")
        t.check(reply.error is not None, f"an empty success: {reply.text!r}")
        await t.still_works(agent)


@scenario(
    peer_fault="asks again when a model ends its turn after its tools without a word", peer_shows="request|answers"
)
async def nothing_to_add_after_tools(t: Trial) -> None:
    """STOP without parts after tool work is a normal end: no further request, no repeated call (F017)."""
    calls: list[int] = []

    def work() -> str:
        """Works."""
        calls.append(1)
        return "done"

    t.model.say(answer(call("work", id="w")), answer())
    async with t.agent(tools=[work]) as agent:
        reply = await t.chat(agent, "Work")
        t.equal((reply.text, len(calls), len(t.model.requests)), ("", 1, 2), "text, calls, requests")
        await t.still_works(agent)


def _accepted(name: str, proves: str, turn: Turn, *, fault: str | None = None, expected: str = "Grüße: fine.") -> None:
    async def run(t: Trial) -> None:
        t.model.say(turn)
        async with t.agent() as agent:
            reply = await t.chat(agent, "Go")
            t.equal((reply.text, agent.conversation.last_response), (expected, expected), "answer")
            t.equal(len(t.model.requests), 1, "model requests")
            await t.still_works(agent)

    run.__doc__ = proves
    scenario(name=name, peer_fault=fault, peer_shows="raised" if fault else "")(run)


_TWO = [chunk([{"text": "Grüße: "}]), chunk([{"text": "fine."}], finish="STOP")]
_BYTES = b"".join(event(c) for c in _TWO)

_accepted(
    "sse_comments",
    "Comment lines in a stream are skipped (F067).",
    raw(b": keepalive\n\n", event(_TWO[0]), b": keepalive\n\n", event(_TWO[1])),
    fault="cannot read comment lines",
)
_accepted(
    "sse_event_lines",
    "Lines with event, id and retry are accepted (F067).",
    raw(*(b"event: message\nid: 7\nretry: 10\n" + event(c) for c in _TWO)),
    fault="cannot read event lines",
)
_accepted(
    "sse_done", "A closing [DONE] is accepted (F067).", raw(_BYTES, b"data: [DONE]\n\n"), fault="cannot read [DONE]"
)
_accepted("sse_crlf", "Lines may end in CRLF (F067).", raw(*(event(c, "\r\n\r\n") for c in _TWO)))
_accepted(
    "sse_split_anywhere",
    "Events may be split anywhere, also inside a character (F067).",
    raw(*(_BYTES[i : i + 7] for i in range(0, len(_BYTES), 7))),
)
_accepted("sse_no_final_newline", "The last event counts without a newline after it (F067).", raw(_BYTES.rstrip(b"\n")))


@scenario()
async def error_text_without_json(t: Trial) -> None:
    """An error whose body is no JSON is shown with that body, not with a parser's complaint."""
    t.model.script = lambda request: Turn([], status=400, body=b"<html>proxy says no</html>")
    async with t.agent() as agent:
        reply = await t.try_chat(agent, "Go")
        t.check(isinstance(reply.error, t.sdk.connection_error), f"the turn ended with {reply.error!r}")
        t.contains(str(reply.error), "proxy says no", "text of the error")


@scenario()
async def silent_model_can_be_waited_for(t: Trial) -> None:
    """A model that pauses in mid-answer is waited for, and what came before is shown meanwhile."""
    gate = Gate()
    t.model.say(answer("Thinking about it", gate, "... done."))
    async with t.agent() as agent:
        response = await agent.chat("Go")
        async for delta in response:
            t.equal(delta, "Thinking about it", "first delta")
            break
        await asyncio.sleep(1.0)
        gate.open()
        t.equal((await t.collect(agent, response)).text, "Thinking about it... done.", "text")
        await t.still_works(agent)
