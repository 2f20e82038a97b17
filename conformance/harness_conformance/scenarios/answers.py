"""Structured answers and questions to the user."""

from __future__ import annotations

from typing import Any

from ..fake_model import answer, call
from ..scenario import Trial, scenario

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["city", "score"],
}


@scenario()
async def structured_output(t: Trial) -> None:
    """The finish tool carries the schema; a valid call of it ends the turn with that object, and the next turn works."""
    t.model.say(answer(call("finish", {"city": "Zürich", "score": 7}, id="f")))
    async with t.agent(response_schema=SCHEMA) as agent:
        reply = await t.chat(agent, "Rate")
        t.equal(await reply.response.structured_output(), {"city": "Zürich", "score": 7}, "structured output")
        t.equal(len(t.model.requests), 1, "model requests")
        declared = t.model.requests[0].tools["finish"]
        schema = declared.get("parametersJsonSchema") or declared["parameters"]
        t.equal(
            (set(schema["properties"]), set(schema["required"])),
            ({"city", "score"}, {"city", "score"}),
            "schema of finish",
        )
        t.equal(reply.done[-1].type.value, "FINISH", "type of the last step")
        await t.still_works(agent)


@scenario()
async def structured_output_invalid_at_first(t: Trial) -> None:
    """A finish call that breaks the schema goes back to the model with the reason; the repaired one counts (F053)."""
    t.model.say(
        answer(call("finish", {"city": "Bern", "score": "high"}, id="f1")),
        answer(call("finish", {"city": "Bern", "score": 3}, id="f2")),
    )
    async with t.agent(response_schema=SCHEMA) as agent:
        reply = await t.chat(agent, "Rate")
        t.equal(await reply.response.structured_output(), {"city": "Bern", "score": 3}, "structured output")
        t.equal([(r["name"], r.get("id")) for r in t.model.requests[1].results], [("finish", "f1")], "results")
        t.matches(t.model.requests[1].result_texts[0], "score", "the reason the model read")
        await t.still_works(agent)


@scenario()
async def structured_output_after_tools(t: Trial) -> None:
    """Tools can be used before finish, and text beside it is kept apart from the object."""

    def lookup(city: str) -> int:
        """Looks the score up."""
        return len(city)

    t.model.say(
        answer("Looking. ", call("lookup", {"city": "Chur"}, id="l")),
        answer([{"text": "Found."}, call("finish", {"city": "Chur", "score": 4}, id="f")]),
    )
    async with t.agent(tools=[lookup], response_schema=SCHEMA) as agent:
        reply = await t.chat(agent, "Rate")
        t.equal(await reply.response.structured_output(), {"city": "Chur", "score": 4}, "structured output")
        t.contains(t.model.requests[1].result_texts[0], "4", "what the model read")
        await t.still_works(agent)


@scenario()
async def structured_output_missing(t: Trial) -> None:
    """A model that only talks ends the turn with its text and without an object."""
    t.model.say(answer("I would rather not."))
    async with t.agent(response_schema=SCHEMA) as agent:
        reply = await t.chat(agent, "Rate")
        t.equal(reply.text, "I would rather not.", "text")
        t.equal(await reply.response.structured_output(), None, "structured output")
        await t.still_works(agent)


QUESTIONS = {
    "questions": [
        {"question": "Which colour?", "options": ["red", "blue"], "is_multi_select": False},
        {"question": "Which sizes?", "options": ["S", "M", "L"], "is_multi_select": True},
    ]
}


async def ask(t: Trial, responses: list[Any] | None, *, interactive: bool = True) -> tuple[list[Any], str]:
    """The model asks two questions: what the handler saw, what the model read."""
    seen: list[Any] = []

    async def handle(data: Any) -> Any:
        seen.append([(q.question, [o.text for o in q.options]) for q in data.questions])
        return t.sdk.types.QuestionHookResult(responses=responses)

    hooks = [] if responses is None else [t.sdk.hooks.on_interaction(handle)]
    t.model.say(answer(call("ask_question", QUESTIONS, id="q")), answer("Thanks."))
    async with t.agent(builtins=("ask_question",), hooks=hooks, interactive=interactive) as agent:
        t.equal((await t.chat(agent, "Ask me")).text, "Thanks.", "answer")
        await t.still_works(agent)
    return seen, t.model.requests[1].result_texts[0]


ASKED = [[("Which colour?", ["red", "blue"]), ("Which sizes?", ["S", "M", "L"])]]


@scenario()
async def question_is_answered(t: Trial) -> None:
    """ask_question reaches the handler as asked; the choices reach the model by their texts."""
    response = t.sdk.types.QuestionResponse
    seen, read = await ask(t, [response(selected_option_ids=["2"]), response(selected_option_ids=["1", "3"])])
    t.equal(seen, ASKED, "questions at the handler")
    t.contains(read, "blue", "first answer")
    t.check("red" not in read, f"an option that was not chosen: {read}")
    t.matches(read, r"S\b.*\bL\b", "second answer")


@scenario()
async def question_is_answered_freely(t: Trial) -> None:
    """A free answer reaches the model in its own words, beside a skipped one."""
    response = t.sdk.types.QuestionResponse
    seen, read = await ask(t, [response(freeform_response="Rather ochre."), response(skipped=True)])
    t.equal(seen, ASKED, "questions at the handler")
    t.contains(read, "Rather ochre.", "first answer")
    t.matches(read, "(?i)skip", "second answer")


@scenario()
async def question_without_a_handler(t: Trial) -> None:
    """A question nobody handles is skipped; the turn goes on."""
    _, read = await ask(t, None)
    t.matches(read, "(?i)skip|unanswered|no answer|cancel", "what the model read")


@scenario()
async def question_of_an_autonomous_agent(t: Trial) -> None:
    """An autonomous agent asks nobody: the model is told so at once."""
    response = t.sdk.types.QuestionResponse
    seen, read = await ask(t, [response(skipped=True), response(skipped=True)], interactive=False)
    t.equal(seen, [], "questions at the handler")
    t.matches(read, "(?i)cancel|not interactive|no user|autonomous|unavailable", "what the model read")
