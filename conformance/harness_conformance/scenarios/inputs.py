"""What reaches the agent: media, triggers, input while it works; several agents beside each other."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from ..fake_model import Gate, Turn, answer, call
from ..scenario import Trial, scenario
from .tools import PNG


def sent(request: Any) -> list[Any]:
    """The parts of the last user content: texts (unwrapped by the caller) and media."""
    return [
        (p["inlineData"]["mimeType"], base64.b64decode(p["inlineData"]["data"])) if "inlineData" in p else p.get("text")
        for p in request.contents[-1]["parts"]
    ]


@scenario()
async def image_input(t: Trial) -> None:
    """An image beside a text reaches the model, byte for byte, and stays in the history."""
    t.model.say(answer("A dot."))
    async with t.agent() as agent:
        reply = await t.chat(agent, ["What is this?", t.sdk.types.Image(data=PNG, mime_type="image/png")])
        t.equal(reply.text, "A dot.", "answer")
        await t.still_works(agent)
    for request in t.model.requests:
        t.equal(
            [d for d in request.dialogue if d[0] in ("user", "media")][:2],
            [("user", "What is this?"), ("media", "image/png")],
            "the question",
        )
        t.equal(
            [base64.b64decode(p["inlineData"]["data"]) for p in request.parts if "inlineData" in p], [PNG], "the image"
        )


@scenario(peer_fault="joins all texts of an input before its media", peer_shows="order")
async def image_between_texts(t: Trial) -> None:
    """Text, image, text reach the model in that order."""
    t.model.say(answer("Yes."))
    async with t.agent() as agent:
        await t.chat(agent, ["Is this", t.sdk.types.Image(data=PNG, mime_type="image/png"), "a dot?"])
        await t.still_works(agent)
    shape = []
    for part in sent(t.model.requests[0]):
        for word in ("Is this", "a dot?"):
            if isinstance(part, str) and word in part:
                shape.append(word)
        if not isinstance(part, str):
            shape.append(part[0])
    t.equal(shape, ["Is this", "image/png", "a dot?"], "order of the parts")


@scenario()
async def document_input(t: Trial) -> None:
    """A document reaches the model as media of its type."""
    t.model.say(answer("Read."))
    async with t.agent() as agent:
        await t.chat(agent, ["Sum up", t.sdk.types.Document(data=b"%PDF-1.4 nothing", mime_type="application/pdf")])
        await t.still_works(agent)
    t.check(("application/pdf", b"%PDF-1.4 nothing") in sent(t.model.requests[0]), "the document is at the model")


async def _trigger(t: Trial) -> tuple[Any, asyncio.Event]:
    go = asyncio.Event()

    async def watch(context: Any) -> None:
        await go.wait()
        await context.send("The build is red.")

    return watch, go


@scenario(
    peer_fault="calls the model twice for one trigger", peer_shows="no answer is scripted|requests", peer_sometimes=True
)
async def trigger_when_idle(t: Trial) -> None:
    """A trigger wakes an idle agent: the model is asked once, with the trigger's words."""
    watch, go = await _trigger(t)
    t.model.say(answer("Hello."), answer("I will look at the build."))
    async with t.agent(triggers=[watch]) as agent:
        await t.chat(agent, "Hi")
        go.set()
        await t.idle(2)
        t.contains(t.model.requests[1].last_said, "The build is red.", "the last words at the model")
        t.equal(t.model.requests[1].dialogue[:2], [("user", "Hi"), ("model", "Hello.")], "what came before")
        # A second request for the same trigger would come before that of this turn.
        await t.still_works(agent)
        t.equal(len(t.model.requests), 3, "model requests")


@scenario()
async def trigger_before_any_input(t: Trial) -> None:
    """A trigger can be the first thing an agent hears."""
    watch, go = await _trigger(t)

    def script(request: Any) -> Turn:
        # How often the model is asked is another scenario's matter.
        return answer("Still here." if request.last_said == "Are you there?" else "On it.")

    t.model.script = script
    async with t.agent(triggers=[watch]) as agent:
        go.set()
        await t.idle(1)
        t.contains(t.model.requests[0].last_said, "The build is red.", "the words at the model")
        reply = await t.chat(agent, "Are you there?")
        t.check(reply.text.endswith("Still here."), f"answer {reply.text!r}")


@scenario(peer_fault="calls the model twice for one trigger", peer_shows="requests", peer_sometimes=True)
async def trigger_while_running(t: Trial) -> None:
    """A trigger that comes in the middle of a turn is delivered once, after the answer, by one more request."""
    watch, go = await _trigger(t)
    gate = Gate()

    def script(request: Any) -> Turn:
        if request.number == 1:
            return answer("Working", gate, " done.")
        return answer("Still here." if "Are you there?" in request.last_said else "Seen.")

    t.model.script = script
    async with t.agent(triggers=[watch]) as agent:
        response = await agent.chat("Work")
        async for _ in response:
            break
        frames = sum(f["from"] == "sdk" for f in t.sdk.frames)
        go.set()
        await t.sdk.until(lambda: sum(f["from"] == "sdk" for f in t.sdk.frames) > frames)
        gate.open()
        await t.model.answered(2)
        await t.idle(1)
        await t.collect(agent, response)
        reply = await t.chat(agent, "Are you there?")
        t.check(reply.text.endswith("Still here."), f"answer {reply.text!r}")
        heard = [
            r.number
            for r in t.model.requests
            if any(d[0] == "user" and "The build is red." in d[1] for d in r.dialogue)
        ]
        t.equal(heard, [2, 3], "requests that know of the trigger")
        t.equal(len(t.model.requests), 3, "model requests")


@scenario()
async def input_while_running(t: Trial) -> None:
    """Input sent into a running turn waits for its answer and is then answered once."""
    gate = Gate()
    t.model.say(answer("One", gate, "."), answer("Two."))
    async with t.agent() as agent:
        response = await agent.chat("First")
        async for _ in response:
            break
        await agent.conversation.connection.send("Second")
        gate.open()
        await t.idle(1)
        t.equal(len(t.model.requests), 2, "model requests")
        t.equal(
            t.model.requests[1].dialogue, [("user", "First"), ("model", "One."), ("user", "Second")], "second request"
        )
        await t.collect(agent, response)
        t.equal(agent.conversation.last_response, "Two.", "last response")
        await t.still_works(agent)


@scenario()
async def input_while_a_tool_runs(t: Trial) -> None:
    """Input sent while a tool runs is in the model's next request, behind the tool's result."""
    started, release = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Takes its time."""
        started.set()
        await release.wait()
        return "done"

    t.model.say(answer(call("slow", id="s")), answer("Both."))
    async with t.agent(tools=[slow]) as agent:
        response = await agent.chat("First")
        await started.wait()
        await agent.conversation.connection.send("Second")
        release.set()
        await t.idle(1)
        t.equal(len(t.model.requests), 2, "model requests")
        t.equal(
            t.model.requests[1].dialogue,
            [("user", "First"), ("call", "slow", {}), ("result", "slow"), ("user", "Second")],
            "second request",
        )
        await t.collect(agent, response)
        await t.still_works(agent)


@scenario()
async def slash_command(t: Trial) -> None:
    """A slash command is part of what the user says."""
    t.model.say(answer("A plan."))
    async with t.agent(interactive=True) as agent:
        command = t.sdk.types.SlashCommand(name=t.sdk.types.BuiltinSlashCommandName.PLAN)
        t.equal((await t.chat(agent, [command, "Build a house"])).text, "A plan.", "answer")
        await t.still_works(agent)
    said = " ".join(d[1] for d in t.model.requests[0].dialogue if d[0] == "user")
    t.contains(said, "/plan", "user text")
    t.contains(said, "Build a house", "user text")


@scenario()
async def two_agents_at_once(t: Trial) -> None:
    """Two agents, two harness processes: their turns overlap, and neither sees the other's history."""
    gates = {"a": Gate(), "b": Gate()}

    def script(request: Any) -> Turn:
        who, number = request.last_said.split()
        return answer(f"{who}{number} ", gates[who], "done.") if number == "1" else answer(f"{who}{number} done.")

    t.model.script = script
    async with t.agent() as a, t.agent() as b:
        t.equal(len({p.pid for p in t.sdk.processes}), 2, "harness processes")
        one = {"a": await a.chat("a 1"), "b": await b.chat("b 1")}
        await t.model.request(2)
        gates["b"].open()
        t.equal((await t.collect(b, one["b"])).text, "b1 done.", "first answer of b, which came second")
        gates["a"].open()
        t.equal((await t.collect(a, one["a"])).text, "a1 done.", "first answer of a")
        replies = await asyncio.gather(t.chat(a, "a 2"), t.chat(b, "b 2"))
        t.equal([r.text for r in replies], ["a2 done.", "b2 done."], "second answers")
        t.check(a.conversation_id != b.conversation_id, "the conversations have ids of their own")
    for who in "ab":
        last = [r for r in t.model.requests if r.last_said == f"{who} 2"]
        t.equal(
            [r.dialogue for r in last],
            [[("user", f"{who} 1"), ("model", f"{who}1 done."), ("user", f"{who} 2")]],
            f"history of {who}",
        )


@scenario()
async def two_agents_one_after_the_other(t: Trial) -> None:
    """A second agent in the same folders starts with an empty history."""
    t.model.say(answer("One."), answer("Two."))
    ids = []
    for question, expected in (("First", "One."), ("Second", "Two.")):
        async with t.agent() as agent:
            t.equal((await t.chat(agent, question)).text, expected, "answer")
            ids.append(agent.conversation_id)
    t.equal(len(set(ids)), 2, "conversation ids")
    t.equal([r.dialogue for r in t.model.requests], [[("user", "First")], [("user", "Second")]], "histories")
