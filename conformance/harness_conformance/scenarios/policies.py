"""Policies and the limits of the workspace."""

from __future__ import annotations

import os
from typing import Any

from ..fake_model import answer, call
from ..scenario import Trial, scenario

COMMAND = {"CommandLine": "echo ran > ran.txt", "WaitMsBeforeAsync": 5000}


async def try_command(t: Trial, policies: list[Any] | None, **options: Any) -> tuple[bool, str, Any]:
    """The model calls run_command once: whether it ran, what the model read, the turn."""
    t.model.say(answer(call("run_command", COMMAND | {"Cwd": str(t.workspace)}, id="c")), answer("Done."))
    async with t.agent(builtins=("run_command", "view_file"), policies=policies, **options) as agent:
        reply = await t.chat(agent, "Run it")
        t.equal(reply.text, "Done.", "answer")
        await t.still_works(agent)
    return os.path.exists(t.path("ran.txt")), t.model.requests[1].result_texts[0], reply


def denied(t: Trial, outcome: tuple[bool, str, Any], reason: str) -> None:
    ran, read, reply = outcome
    t.equal(ran, False, "whether the command ran")
    t.contains(read, reason, "what the model read")
    t.check(
        any(s.status.value == "ERROR" and reason in s.content + s.error for s in reply.done),
        f"no step shows the refusal: {[(s.status.value, s.content, s.error) for s in reply.done]}",
    )


@scenario()
async def policy_allows(t: Trial) -> None:
    """A tool that a rule allows runs, although everything else is denied."""
    ran, _, _ = await try_command(t, [t.sdk.policy.deny_all(), t.sdk.allow("run_command")])
    t.equal(ran, True, "whether the command ran")


@scenario()
async def policy_denies(t: Trial) -> None:
    """A rule for one tool wins over one for all, whatever their order; the model and the step read the refusal."""
    denied(t, await try_command(t, [t.sdk.allow_all(), t.sdk.deny("run_command", name="no shell")]), "no shell")


@scenario()
async def policy_denies_with_a_reason(t: Trial) -> None:
    """The reason of a rule is what the model reads."""
    outcome = await try_command(
        t, [t.sdk.deny("run_command", reason="The shell is closed on Sundays."), t.sdk.allow_all()]
    )
    denied(t, outcome, "The shell is closed on Sundays.")


@scenario()
async def default_policies_deny_commands(t: Trial) -> None:
    """Without policies of its own an SDK agent denies run_command and nothing else."""
    denied(t, await try_command(t, None), "confirm_run_command")


@scenario()
async def policy_denies_host_tools(t: Trial) -> None:
    """Policies hold for host tools: a denied one is never called."""
    calls: list[str] = []

    def launch(target: str) -> str:
        """Launches."""
        calls.append(target)
        return "launched"

    t.model.say(answer([call("launch", {"target": "moon"}, id="l")]), answer("No."))
    async with t.agent(
        tools=[launch], policies=[t.sdk.deny("launch", reason="No launches today."), t.sdk.allow_all()]
    ) as agent:
        t.equal((await t.chat(agent, "Launch")).text, "No.", "answer")
        t.equal(calls, [], "calls of the denied tool")
        t.contains(t.model.requests[1].result_texts[0], "No launches today.", "what the model read")
        await t.still_works(agent)


async def _ask(t: Trial, verdict: bool) -> None:
    asked: list[Any] = []

    def handler(tool_call: Any) -> bool:
        asked.append((getattr(tool_call.name, "value", tool_call.name), tool_call.args.get("CommandLine")))
        return verdict

    outcome = await try_command(t, [t.sdk.ask("run_command", handler), t.sdk.allow_all()])
    t.equal(asked, [("run_command", COMMAND["CommandLine"])], "questions to the handler")
    if verdict:
        t.equal(outcome[0], True, "whether the command ran")
    else:
        denied(t, outcome, "run_command")


@scenario()
async def policy_asks_yes(t: Trial) -> None:
    """ask_user asks the handler once, with the arguments; on yes the tool runs."""
    await _ask(t, True)


@scenario()
async def policy_asks_no(t: Trial) -> None:
    """ask_user asks the handler once, with the arguments; on no the tool does not run."""
    await _ask(t, False)


@scenario()
async def policy_with_a_condition(t: Trial) -> None:
    """A rule with a condition holds only where the condition does; otherwise the next rule decides."""
    deny = t.sdk.deny("run_command", when=lambda args: "secret" in args["CommandLine"], reason="That is secret.")
    command = {"Cwd": str(t.workspace), "WaitMsBeforeAsync": 5000}
    t.model.say(
        answer(
            [
                call("run_command", command | {"CommandLine": "echo open > open.txt"}, id="1"),
                call("run_command", command | {"CommandLine": "echo secret > secret.txt"}, id="2"),
            ]
        ),
        answer("Done."),
    )
    async with t.agent(builtins=("run_command",), policies=[deny, t.sdk.allow_all()]) as agent:
        await t.chat(agent, "Run both")
        t.equal(sorted(os.listdir(t.workspace)), ["open.txt"], "files")
        t.contains(t.model.requests[1].result_texts[1], "That is secret.", "what the model read")
        await t.still_works(agent)


def _outside(t: Trial) -> str:
    path = t.outside / "secret.txt"
    path.write_text("the secret\n")
    return str(path)


async def _view(t: Trial, path: str, policies: list[Any] | None) -> str:
    t.model.say(answer(call("view_file", {"AbsolutePath": path}, id="v")), answer("Done."))
    async with t.agent(builtins=("view_file", "create_file", "edit_file"), policies=policies) as agent:
        await t.chat(agent, "Read")
        await t.still_works(agent)
    return t.model.requests[1].result_texts[0]


@scenario()
async def read_outside_the_workspace_is_refused(t: Trial) -> None:
    """With the default policies a file outside the workspace cannot be read (F020)."""
    read = await _view(t, _outside(t), None)
    t.check("the secret" not in read, "the file was read")
    t.matches(read, "(?i)outside|denied|workspace", "what the model read")


@scenario()
async def read_through_a_link_is_refused(t: Trial) -> None:
    """A link in the workspace that leads out of it is outside; so is a path with `..` (F021)."""
    os.symlink(_outside(t), t.path("link.txt"))
    t.model.say(
        answer(
            [
                call("view_file", {"AbsolutePath": t.path("link.txt")}, id="1"),
                call("view_file", {"AbsolutePath": t.path("../outside/secret.txt")}, id="2"),
            ]
        ),
        answer("Done."),
    )
    async with t.agent(builtins=("view_file",), policies=None) as agent:
        await t.chat(agent, "Read")
        for read in t.model.requests[1].result_texts:
            t.check("the secret" not in read, "the file was read")
        await t.still_works(agent)


@scenario()
async def write_through_a_link_is_refused(t: Trial) -> None:
    """A write through a link, also a dangling one, does not leave the workspace (F021)."""
    os.symlink(_outside(t), t.path("there.txt"))
    os.symlink(t.outside / "not-yet.txt", t.path("dangling.txt"))
    args = {"CodeContent": "mine\n", "Description": "d", "Overwrite": True}
    t.model.say(
        answer(
            [
                call("write_to_file", args | {"TargetFile": t.path("there.txt")}, id="1"),
                call("write_to_file", args | {"TargetFile": t.path("dangling.txt")}, id="2"),
            ]
        ),
        answer("Done."),
    )
    async with t.agent(builtins=("view_file", "create_file", "edit_file"), policies=None) as agent:
        await t.chat(agent, "Write")
        t.equal((t.outside / "secret.txt").read_text(), "the secret\n", "the file outside")
        t.equal(sorted(os.listdir(t.outside)), ["secret.txt"], "files outside")
        await t.still_works(agent)


@scenario(since="0.1.19")
async def allow_all_lifts_the_containment(t: Trial) -> None:
    """With allow_all the SDK switches the containment off, and a file outside is readable."""
    t.contains(await _view(t, _outside(t), [t.sdk.allow_all()]), "the secret", "what the model read")
