"""Plain turns: text, deltas, thoughts, usage."""

from __future__ import annotations

import json

from ..fake_model import Gate, Raw, answer, call, chunk, event, text, thought
from ..scenario import Trial, scenario


@scenario()
async def chat_two_turns(t: Trial) -> None:
    """Two turns: the steps the SDK shows, and the whole history at the model in the second request."""
    t.model.say(answer("Hi there."), answer("Bye."))
    async with t.agent() as agent:
        one = await t.chat(agent, "Hello")
        two = await t.chat(agent, "Good bye")
        t.equal([one.text, two.text], ["Hi there.", "Bye."], "answers")
        t.equal(agent.conversation.last_response, "Bye.", "last response")
        seen = [
            (s.step_index, s.source.value, s.target.value, s.status.value, s.content)
            for r in (one, two)
            for s in r.done
        ]
        t.equal(
            [s[:2] + s[3:] for s in seen],
            [
                (0, "USER", "DONE", "Hello"),
                (1, "MODEL", "DONE", "Hi there."),
                (2, "USER", "DONE", "Good bye"),
                (3, "MODEL", "DONE", "Bye."),
            ],
            "steps",
        )
        t.check(all(s[2] == "TARGET_USER" for s in seen if s[1] == "MODEL"), "answers are for the user")
        t.matches(agent.conversation_id, r"^[0-9a-zA-Z-]{32,}$", "conversation id")
        t.equal({s.trajectory_id for s in one.done + two.done}, {agent.conversation_id}, "trajectory ids")
    t.equal(t.model.requests[0].dialogue, [("user", "Hello")], "first request")
    t.equal(
        t.model.requests[1].dialogue,
        [("user", "Hello"), ("model", "Hi there."), ("user", "Good bye")],
        "second request",
    )


@scenario()
async def deltas_stream_live(t: Trial) -> None:
    """Deltas come while the model is still writing, and joined they are the text; so is the cumulative text."""
    gate, second = Gate(), Gate()
    t.model.say(answer("One ", gate, "two ", "drei ✓ ", second, "vier."))
    async with t.agent() as agent:
        response = await agent.chat("Count")
        seen = ""
        async for delta in response:
            seen += delta
            if seen == "One ":
                gate.open()
            if seen == "One two drei ✓ ":
                second.open()
        t.equal(seen, "One two drei ✓ vier.", "joined deltas")
        t.equal(await response.text(), seen, "text()")
        t.equal(agent.conversation.last_response, seen, "last response")
        cumulative = ""
        for step in agent.conversation.history:
            if step.source.value == "MODEL":
                cumulative += step.content_delta
                t.equal(step.content, cumulative, "cumulative text of an update")
        await t.still_works(agent)


@scenario()
async def thoughts_and_signatures(t: Trial) -> None:
    """Thoughts reach the SDK apart from the text, and signatures go back to the model byte for byte."""
    signatures = {"call": "AbC+/w==", "text": "c2lnbmF0dXJlIG9mIHRoZSB0ZXh0"}

    def look(where: str) -> str:
        """Looks somewhere."""
        return f"nothing in {where}"

    t.model.say(
        answer(
            thought("Let me "),
            thought("think."),
            [text("Looking."), call("look", {"where": "x"}, id="c1", signature=signatures["call"])],
        ),
        answer(thought("Enough."), text("Nothing.", signature=signatures["text"])),
    )
    async with t.agent(tools=[look]) as agent:
        reply = await t.chat(agent, "Look")
        t.equal(reply.thoughts, "Let me think.Enough.", "thoughts")
        t.equal(reply.text, "Looking.Nothing.", "text")
        t.equal([s.thinking for s in reply.done if s.thinking], ["Let me think.", "Enough."], "thinking of the steps")
        await t.still_works(agent)
    for request in t.model.requests[1:]:
        calls = [p for p in request.parts if "functionCall" in p]
        t.equal([p.get("thoughtSignature") for p in calls], [signatures["call"]], "signature of the call")
    final = [p for p in t.model.requests[2].parts if p.get("text") == "Nothing."]
    t.equal([p.get("thoughtSignature") for p in final], [signatures["text"]], "signature of the text")


@scenario()
async def usage_totals(t: Trial) -> None:
    """Usage in a stream is cumulative: the last value of a call counts, and calls add up (F018)."""

    def usage(prompt: int, out: int, thoughts: int, cached: int) -> dict[str, int]:
        return {
            "promptTokenCount": prompt,
            "candidatesTokenCount": out,
            "thoughtsTokenCount": thoughts,
            "cachedContentTokenCount": cached,
            "totalTokenCount": prompt + out + thoughts,
        }

    def shown(value: object) -> tuple[object, ...]:
        return tuple(
            getattr(value, f"{n}_token_count") for n in ("prompt", "candidates", "thoughts", "cached_content", "total")
        )

    def nothing() -> str:
        """Does nothing."""
        return "done"

    early = [Raw(event(chunk([{"text": f"{i} "}], usage=usage(100, i, 2 * i, 80)))) for i in range(1, 4)]
    t.model.say(
        answer(*early, call("nothing", id="n1"), usage=usage(100, 5, 25, 80)),
        answer("Done.", usage=usage(150, 7, 0, 0)),
        answer("Again.", usage=usage(200, 3, 1, 0)),
    )
    async with t.agent(tools=[nothing]) as agent:
        reply = await t.chat(agent, "Go")
        t.equal(shown(agent.conversation.total_usage), (250, 12, 25, 80, 287), "usage after the first turn")
        t.equal(shown(reply.response.usage_metadata), (250, 12, 25, 80, 287), "usage of the first turn")
        second = await t.chat(agent, "More")
        t.equal(shown(agent.conversation.total_usage), (450, 15, 26, 80, 491), "usage after the second turn")
        t.equal(shown(second.response.usage_metadata), (200, 3, 1, 0, 204), "usage of the second turn")
        t.equal(
            {k: shown(v) for k, v in agent.conversation.trajectory_usages.items()},
            {agent.conversation_id: (450, 15, 26, 80, 491)},
            "usage by trajectory",
        )


@scenario()
async def usage_only_last_chunk(t: Trial) -> None:
    """Finish reason and usage count whatever the shape of the last chunks (F066)."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    t.model.say(answer("Text.", finish_alone=True, usage=usage))
    async with t.agent() as agent:
        reply = await t.chat(agent, "Go")
        t.equal(reply.text, "Text.", "text")
        t.equal(agent.conversation.total_usage.total_token_count, 13, "total usage")
        await t.still_works(agent)


@scenario()
async def answer_of_one_megabyte(t: Trial) -> None:
    """A long answer arrives whole, in deltas and in the cumulative text."""
    pieces = [f"{i:05d} " + "äbc" * 5_460 + "\n" for i in range(64)]
    whole = "".join(pieces)
    t.check(len(whole.encode()) > 1_000_000, "the answer is over a megabyte")
    t.model.say(answer(*pieces))
    async with t.agent() as agent:
        reply = await t.chat(agent, "Write a lot")
        t.equal(reply.text == whole, True, "joined deltas are the answer")
        t.equal(agent.conversation.last_response == whole, True, "last response is the answer")
        await t.still_works(agent)
    t.equal(("model", whole) in t.model.requests[1].dialogue, True, "the answer is in the history")


@scenario(peer_fault="cuts user input at about 200 KB", peer_shows=r"of 1860889 characters")
async def long_input(t: Trial) -> None:
    """Two megabytes of user text reach the model unharmed."""
    prompt = "\n".join(f'{i} – line with ünïcödé and "quotes" \\ and tabs\t.' for i in range(36_000))
    t.check(len(prompt.encode()) > 2_000_000, "the input is over two megabytes")
    t.model.say(answer("Read."))
    async with t.agent() as agent:
        reply = await t.chat(agent, prompt)
        t.equal(reply.text, "Read.", "text")
        await t.still_works(agent)
    said = t.model.requests[0].last_said
    t.check(said == prompt, f"the model got {len(said)} of {len(prompt)} characters, ending {said[-200:]!r}")


@scenario()
async def several_text_parts(t: Trial) -> None:
    """Text parts of one prompt reach the model as that text, in order."""
    t.model.say(answer("Read."))
    async with t.agent() as agent:
        await t.chat(agent, ["First. ", "Second."])
    said = "".join(d[1] for d in t.model.requests[0].dialogue if d[0] == "user")
    t.equal(said, "First. Second.", "user text")


@scenario()
async def frames_are_well_formed(t: Trial) -> None:
    """A turn on the wire: the reply to the configuration, RUNNING, the steps, usage, FULLY_IDLE, no gap in numbers."""
    t.model.say(answer("Hi."))
    async with t.agent() as agent:
        await t.chat(agent, "Hello")
        conversation = agent.conversation_id
    events = t.events
    kinds = [next(k for k in e if k not in ("seqNum", "timestampMicros")) for e in events]
    t.equal(kinds[0], "initializeConversationResponse", "first event")
    t.equal(events[0]["initializeConversationResponse"]["cascadeId"], conversation, "cascade id")
    states = [e["trajectoryStateUpdate"].get("state") for e in events if "trajectoryStateUpdate" in e]
    t.check(states in (["STATE_RUNNING", "STATE_FULLY_IDLE"], [1, 2]), f"states are {states}")
    t.equal((kinds[1], kinds[-1]), ("trajectoryStateUpdate", "trajectoryStateUpdate"), "what encloses the turn")
    t.check("usageUpdate" in kinds, "usage was reported")
    t.equal([int(e["seqNum"]) for e in events], list(range(1, len(events) + 1)), "sequence numbers")
    times = [int(e["timestampMicros"]) for e in events]
    t.equal(times, sorted(times), "timestamps")
    t.check("error" not in json.dumps(events[-1]), f"the last event has an error: {events[-1]}")
