"""Lifecycle hooks."""

from __future__ import annotations

from typing import Any

from ..fake_model import Turn, answer, call
from ..scenario import Trial, scenario


def tool_name(value: Any) -> str:
    return str(getattr(value.name, "value", value.name))


@scenario()
async def pre_tool_hook_denies(t: Trial) -> None:
    """A denied call is not carried out; the model reads the hook's reason; other calls run."""
    ran: list[str] = []

    def launch(target: str) -> str:
        """Launches."""
        ran.append(target)
        return f"launched at {target}"

    def decide(data: Any) -> Any:
        allow = data.args["target"] != "moon"
        return t.sdk.types.HookResult(allow=allow, message="" if allow else "Not the moon.")

    t.model.say(
        answer([call("launch", {"target": "moon"}, id="1"), call("launch", {"target": "sun"}, id="2")]), answer("Done.")
    )
    async with t.agent(tools=[launch], hooks=[t.sdk.hooks.pre_tool_call_decide(decide)]) as agent:
        await t.chat(agent, "Launch")
        t.equal(ran, ["sun"], "calls that ran")
        read = t.model.requests[1].result_texts
        t.contains(read[0], "Not the moon.", "result of the denied call")
        t.contains(read[1], "launched at sun", "result of the allowed call")
        await t.still_works(agent)


@scenario()
async def pre_tool_hook_sees_builtin_calls(t: Trial) -> None:
    """A hook sees built-in tools by their SDK names with the model's arguments, before they run."""
    seen: list[Any] = []

    def decide(data: Any) -> Any:
        seen.append((tool_name(data), data.args, data.id))
        return t.sdk.types.HookResult(allow=True)

    path = t.write("a.txt", "alpha\n")
    t.model.say(
        answer(call("view_file", {"AbsolutePath": path, "toolAction": "Viewing", "toolSummary": "a.txt"}, id="v1")),
        answer("Done."),
    )
    async with t.agent(builtins=("view_file",), hooks=[t.sdk.hooks.pre_tool_call_decide(decide)]) as agent:
        await t.chat(agent, "View")
        t.equal(len(seen), 1, "hook calls")
        name, args, call_id = seen[0]
        t.equal(
            (name, {k: v for k, v in args.items() if k == "AbsolutePath"}),
            ("view_file", {"AbsolutePath": path}),
            "the call",
        )
        t.check(not {"toolAction", "toolSummary"} & set(args), f"arguments that are not the tool's: {sorted(args)}")
        t.equal(call_id, "v1", "id of the call")
        t.contains(t.model.requests[1].result_texts[0], "alpha", "what the model read")
        await t.still_works(agent)


@scenario()
async def pre_tool_hook_changes_arguments(t: Trial) -> None:
    """Changed arguments are what the tool gets; the model's history keeps its own."""
    got: list[Any] = []

    def pay(amount: int, to: str) -> str:
        """Pays."""
        got.append((amount, to))
        return "paid"

    def decide(data: Any) -> Any:
        return t.sdk.types.HookResult(allow=True, modified_args={"amount": 1})

    t.model.say(answer(call("pay", {"amount": 1000, "to": "Eve"}, id="p")), answer("Paid."))
    async with t.agent(tools=[pay], hooks=[t.sdk.hooks.pre_tool_call_decide(decide)]) as agent:
        await t.chat(agent, "Pay")
        t.equal(got, [(1, "Eve")], "calls of the tool")
        t.check(
            ("call", "pay", {"amount": 1000, "to": "Eve"}) in t.model.requests[1].dialogue,
            "the model's call is as it was",
        )
        await t.still_works(agent)


@scenario()
async def pre_tool_hook_raises(t: Trial) -> None:
    """A hook that raises denies the call, and the turn goes on (F022)."""
    ran: list[int] = []

    def work() -> str:
        """Works."""
        ran.append(1)
        return "done"

    def decide(data: Any) -> Any:
        raise RuntimeError("the judge is ill")

    t.model.say(answer(call("work", id="w")), answer("Pity."))
    async with t.agent(tools=[work], hooks=[t.sdk.hooks.pre_tool_call_decide(decide)]) as agent:
        t.equal((await t.chat(agent, "Work")).text, "Pity.", "answer")
        t.equal(ran, [], "calls that ran")
        t.contains(t.model.requests[1].result_texts[0], "the judge is ill", "what the model read")
        await t.still_works(agent)


@scenario()
async def post_tool_hook_sees_the_result(t: Trial) -> None:
    """A hook sees name, call id and result of a host tool."""
    seen: list[Any] = []

    def add(a: int, b: int) -> dict[str, int]:
        """Adds."""
        return {"sum": a + b}

    def inspect(data: Any) -> None:
        seen.append((tool_name(data), data.id, str(data.result), data.error))

    t.model.say(answer(call("add", {"a": 20, "b": 22}, id="a1")), answer("42."))
    async with t.agent(tools=[add], hooks=[t.sdk.hooks.post_tool_call(inspect)]) as agent:
        await t.chat(agent, "Add")
        t.equal(len(seen), 1, "hook calls")
        name, call_id, result, error = seen[0]
        t.equal((name, call_id, error), ("add", "a1", None), "the call")
        t.matches(result, r'"?sum"?\W+42', "the result")
        await t.still_works(agent)


@scenario(peer_fault="gives hooks the summary of a built-in tool's call instead of its result", peer_shows="the result")
async def post_tool_hook_sees_builtin_results(t: Trial) -> None:
    """A hook sees what a built-in tool gave."""
    seen: list[Any] = []
    path = t.write("a.txt", "alpha\n")

    def inspect(data: Any) -> None:
        seen.append((tool_name(data), str(data.result)))

    t.model.say(answer(call("view_file", {"AbsolutePath": path, "toolSummary": "the file"}, id="v")), answer("Done."))
    async with t.agent(builtins=("view_file",), hooks=[t.sdk.hooks.post_tool_call(inspect)]) as agent:
        await t.chat(agent, "View")
        t.equal([s[0] for s in seen], ["view_file"], "hook calls")
        t.contains(seen[0][1], "alpha", "the result at the hook")
        await t.still_works(agent)


@scenario(peer_fault="counts steps for hooks in numbers of its own", peer_shows="step id")
async def hooks_name_the_steps(t: Trial) -> None:
    """The step id a hook gets is the id of the step the SDK shows."""
    seen: list[str] = []
    path = t.write("a.txt", "alpha\n")

    def decide(data: Any) -> Any:
        seen.append(data.step_id)
        return t.sdk.types.HookResult(allow=True)

    def inspect(data: Any) -> None:
        seen.append(data.step_id)

    hooks = [t.sdk.hooks.pre_tool_call_decide(decide), t.sdk.hooks.post_tool_call(inspect)]
    async with t.agent(builtins=("view_file",), hooks=hooks) as agent:
        for number in range(2):
            # An answer without text: then the call is the step right behind the user's.
            t.model.say(answer(call("view_file", {"AbsolutePath": path}, id=f"v{number}")), answer("Done."))
            reply = await t.chat(agent, "View")
            t.equal(seen, [reply.tool("view_file").id] * 2, "step id at the hooks")
            seen.clear()
        await t.still_works(agent)


@scenario()
async def tool_error_hook_words_the_error(t: Trial) -> None:
    """What the hook returns is what the model reads of a failed tool."""
    seen: list[str] = []

    def recover(data: Any) -> str:
        seen.append(data.tool_name)
        return "Ask the librarian."

    t.model.say(answer(call("view_file", {"AbsolutePath": t.path("missing.txt")}, id="v")), answer("I will."))
    async with t.agent(builtins=("view_file",), hooks=[t.sdk.hooks.on_tool_error(recover)]) as agent:
        await t.chat(agent, "View")
        t.equal(seen, ["view_file"], "hook calls")
        t.contains(t.model.requests[1].result_texts[0], "Ask the librarian.", "what the model read")
        await t.still_works(agent)


@scenario()
async def tool_error_hook_for_host_tools(t: Trial) -> None:
    """The error of a host tool passes the hook as well."""

    def explode() -> str:
        """Fails."""
        raise ValueError("boom")

    seen: list[str] = []

    def recover(data: Any) -> None:
        seen.append(f"{data.tool_name}: {data}")

    t.model.say(answer(call("explode", id="e")), answer("Oh."))
    async with t.agent(tools=[explode], hooks=[t.sdk.hooks.on_tool_error(recover)]) as agent:
        await t.chat(agent, "Go")
        t.equal(len(seen), 1, "hook calls")
        t.matches(seen[0], "^explode: .*boom", "what the hook saw")
        t.contains(t.model.requests[1].result_texts[0], "boom", "what the model read")
        await t.still_works(agent)


@scenario()
async def pre_turn_hook(t: Trial) -> None:
    """A hook sees the prompt of each turn; one it denies never reaches the model and shows no step; the next turn works."""
    seen: list[Any] = []

    def decide(data: Any) -> Any:
        seen.append(data)
        return t.sdk.types.HookResult(allow=data != "Forbidden", message="Closed today.")

    async with t.agent(hooks=[t.sdk.hooks.pre_turn(decide)]) as agent:
        reply = await t.try_chat(agent, "Forbidden")
        t.check(isinstance(reply.error, t.sdk.execution_error), f"the turn ended with {reply.error!r}")
        t.contains(str(reply.error), "Closed today.", "text of the error")
        t.equal((len(t.model.requests), reply.steps), (0, []), "requests and steps of the denied turn")
        await t.still_works(agent)
    t.equal(seen, ["Forbidden", "Are you there?"], "prompts at the hook")
    t.equal(t.model.requests[0].dialogue, [("user", "Are you there?")], "the denied prompt is not in the history")


@scenario(peer_fault="closes the session when a pre-turn hook fails", peer_shows="silently|next chat")
async def pre_turn_hook_raises(t: Trial) -> None:
    """A hook that raises ends its turn with an error that names it, and only its turn (F022)."""
    ill = [True]

    def decide(data: Any) -> Any:
        if ill[0]:
            raise RuntimeError("the judge is ill")
        return t.sdk.types.HookResult(allow=True)

    async with t.agent(hooks=[t.sdk.hooks.pre_turn(decide)]) as agent:
        reply = await t.try_chat(agent, "Hello")
        t.check(reply.error is not None, "the turn ended silently")
        t.contains(str(reply.error), "the judge is ill", "text of the error")
        ill[0] = False
        await t.still_works(agent)


@scenario()
async def post_turn_hook(t: Trial) -> None:
    """A hook gets the text of each finished turn, once."""
    seen: list[str] = []

    def inspect(data: Any) -> None:
        seen.append(data)

    t.model.say(answer("One."), answer("Two."))
    async with t.agent(hooks=[t.sdk.hooks.post_turn(inspect)]) as agent:
        await t.chat(agent, "First")
        await t.chat(agent, "Second")
        await t.still_works(agent)
    t.equal(seen, ["One.", "Two.", "Still here."], "texts at the hook")


@scenario()
async def session_hooks(t: Trial) -> None:
    """Session start comes before the first turn, session end when the agent is left, each once."""
    seen: list[str] = []

    def start() -> None:
        seen.append(f"start, {len(t.model.requests)} requests")

    def end() -> None:
        seen.append(f"end, {len(t.model.requests)} requests")

    t.model.say(answer("One."))
    async with t.agent(hooks=[t.sdk.hooks.on_session_start(start), t.sdk.hooks.on_session_end(end)]) as agent:
        await t.chat(agent, "First")
        await t.still_works(agent)
        t.equal(seen, ["start, 0 requests"], "hook calls before the end")
    t.equal(seen, ["start, 0 requests", "end, 2 requests"], "hook calls")


@scenario()
async def stop_hook_continues_once(t: Trial) -> None:
    """A stop hook sends the model on with its reason; when it lets go, the turn ends."""
    seen: list[Any] = []

    def stop(data: Any) -> Any:
        seen.append((data.response_text, data.continuation_count))
        if data.continuation_count == 0:
            return t.sdk.types.StopHookResult(
                decision=t.sdk.types.StopDecision.CONTINUE, reason="You forgot the tests."
            )
        return t.sdk.types.StopHookResult()

    t.model.say(answer("Done. "), answer("Tested."))
    async with t.agent(hooks=[t.sdk.hooks.stop(stop)]) as agent:
        reply = await t.chat(agent, "Work")
        t.equal(reply.text, "Done. Tested.", "answers of the turn")
        t.equal(seen, [("Done. ", 0), ("Tested.", 1)], "hook calls")
        t.contains(t.model.requests[1].last_said, "You forgot the tests.", "last words at the model")
        t.equal(t.idles, 1, "times the conversation was idle")


@scenario(peer_fault="lets a stop hook go on for ever", peer_shows="not bounded")
async def stop_hook_is_bounded(t: Trial) -> None:
    """A stop hook that never lets go is overruled in the end; the next turn works."""

    def stop(data: Any) -> Any:
        return t.sdk.types.StopHookResult(
            decision=t.sdk.types.StopDecision.ALLOW_STOP if calm[0] else t.sdk.types.StopDecision.CONTINUE,
            reason="More.",
        )

    calm = [False]

    def script(request: Any) -> Turn:
        if request.number > 50:
            t.model.violations.append("the continuations are not bounded")
            calm[0] = True
        return answer("More and more.")

    t.model.script = script
    async with t.agent(hooks=[t.sdk.hooks.stop(stop)]) as agent:
        await t.try_chat(agent, "Work")
        t.check(len(t.model.requests) > 1, "the hook was heard at all")
        calm[0] = True
        await t.still_works(agent)


@scenario()
async def order_of_hooks(t: Trial) -> None:
    """The order of one turn: session start, pre-turn, pre-tool, the tool, post-tool, stop, post-turn."""
    order: list[str] = []

    def work() -> str:
        """Works."""
        order.append("tool")
        return "done"

    def note(what: str, result: Any = None) -> Any:
        def hook(data: Any) -> Any:
            order.append(what)
            return result

        return hook

    hooks, types = t.sdk.hooks, t.sdk.types
    t.model.say(answer(call("work", id="w")), answer("Done."))
    async with t.agent(
        tools=[work],
        hooks=[
            hooks.on_session_start(lambda: order.append("session start")),
            hooks.pre_turn(note("pre-turn", types.HookResult())),
            hooks.pre_tool_call_decide(note("pre-tool", types.HookResult())),
            hooks.post_tool_call(note("post-tool")),
            hooks.stop(note("stop", types.StopHookResult())),
            hooks.post_turn(note("post-turn")),
        ],
    ) as agent:
        await t.chat(agent, "Work")
        t.equal(order, ["session start", "pre-turn", "pre-tool", "tool", "post-tool", "stop", "post-turn"], "order")
