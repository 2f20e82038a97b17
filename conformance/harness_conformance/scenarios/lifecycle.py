"""Processes, files and conversations over their whole life."""

from __future__ import annotations

import asyncio
import os
import time

from .. import fake_model, witness
from ..fake_model import Gate, answer, call, error
from ..scenario import Trial, scenario


@scenario()
async def clean_exit(t: Trial) -> None:
    """Leaving an agent ends its harness at once with exit code 0, and the user's folders are as they were."""
    t.write("mine.txt", "mine\n")
    async with t.agent(builtins=("view_file",)) as agent:
        await t.still_works(agent)
        before = time.monotonic()
    took = time.monotonic() - before
    t.equal([p.returncode for p in t.sdk.processes], [0], "exit codes")
    t.check(took < 3, f"the exit took {took:.1f} s")
    t.equal(witness.files_below(t.workspace), ["mine.txt"], "files in the workspace")
    t.equal(witness.files_below(t.outside), [], "files elsewhere")


@scenario(peer_fault="writes files into the home folder", peer_shows="files in the home folder")
async def home_stays_empty(t: Trial) -> None:
    """A harness that was given folders for its files leaves the home folder alone."""
    t.write("a.txt", "alpha\n")
    t.model.say(
        answer(
            call(
                "run_command", {"CommandLine": "cat a.txt", "Cwd": str(t.workspace), "WaitMsBeforeAsync": 5000}, id="c"
            )
        ),
        answer("Done."),
    )
    async with t.agent(builtins=("run_command",)) as agent:
        await t.chat(agent, "Go")
        await t.still_works(agent)
    t.equal(witness.files_below(t.home), [], "files in the home folder")


@scenario()
async def exit_without_a_turn(t: Trial) -> None:
    """An agent that is left before it was asked anything ends cleanly."""
    async with t.agent():
        pass
    t.equal([p.returncode for p in t.sdk.processes], [0], "exit codes")


@scenario()
async def exit_in_the_middle_of_an_answer(t: Trial) -> None:
    """An agent that is left while its model speaks ends cleanly and drops the request."""
    t.model.say(answer("Well", Gate(), "."))
    async with t.agent() as agent:
        response = await agent.chat("Speak")
        async for _ in response:
            break
    t.equal([p.returncode for p in t.sdk.processes], [0], "exit codes")
    await asyncio.wait_for(t.model.hung_up(1), 3)


@scenario(
    peer_fault="may leave a command that has just started running",
    peer_shows="still run",
    peer_sometimes=True,
)
async def exit_while_a_command_runs(t: Trial) -> None:
    """An agent that is left while a command runs takes the command and its children with it (F013)."""
    pids = t.fifo("pids")
    command = f"sleep 300 & a=$!; echo $$ $a > {pids.path}; wait"
    t.model.say(
        answer(
            call("run_command", {"CommandLine": command, "Cwd": str(t.workspace), "WaitMsBeforeAsync": 10_000}, id="c")
        )
    )
    async with t.agent(builtins=("run_command",)) as agent:
        await agent.chat("Go")
        running = [int(p) for p in (await pids.line()).split()]
    left = await asyncio.to_thread(witness.gone, running, 3.0)
    t.equal([witness.command_line(p) for p in left], [], "processes of the command that still run")


@scenario(peer_fault="hands its own environment's API key to commands", peer_shows="environment of the command")
async def secrets_stay_out_of_commands(t: Trial) -> None:
    """API keys the harness was given, in its configuration or its environment, are not in a command's environment (F038)."""
    os.environ["GEMINI_API_KEY"] = "key-of-the-environment"
    t.model.say(
        answer(
            call(
                "run_command",
                {"CommandLine": "env > env.txt", "Cwd": str(t.workspace), "WaitMsBeforeAsync": 5000},
                id="c",
            )
        ),
        answer("Done."),
    )
    async with t.agent(builtins=("run_command",)) as agent:
        await t.chat(agent, "Go")
        await t.still_works(agent)
    environment = t.read("env.txt")
    t.contains(environment, "PATH=", "environment of the command")
    for secret in ("key-of-the-environment", fake_model.API_KEY):
        t.check(secret not in environment, f"environment of the command holds {secret}")


@scenario()
async def secrets_stay_out_of_files_and_stderr(t: Trial) -> None:
    """The API key is in no file the harness writes and in no line of its stderr, not even after a refused request (F038)."""
    t.model.script = lambda request: error(401, "the key is refused", rpc_status="UNAUTHENTICATED")
    async with t.agent() as agent:
        reply = await t.try_chat(agent, "Go")
        t.check(fake_model.API_KEY not in str(reply.error), "the key is in the error")
    secret = fake_model.API_KEY.encode()
    for folder in ("data", "save", "home", "tmp"):
        for path in (t.root / folder).rglob("*"):
            if path.is_file():
                t.check(secret not in path.read_bytes(), f"the key is in {folder}/{path.name}")
    lines = (t.root / "sdk.log").read_text(errors="replace").splitlines()
    t.equal(
        [line for line in lines if "harness stderr" in line and fake_model.API_KEY in line],
        [],
        "lines of stderr with the key",
    )


@scenario()
async def conversation_is_resumed(t: Trial) -> None:
    """A new process resumes a conversation: the SDK gets its steps and usage, the model its whole history."""

    def lookup(key: str) -> str:
        """Looks up."""
        return f"value of {key}"

    t.model.say(answer("Looking. ", call("lookup", {"key": "k"}, id="l")), answer("Found."))
    async with t.agent(tools=[lookup]) as agent:
        await t.chat(agent, "Look k up")
        conversation, steps = agent.conversation_id, t.model.requests[1].dialogue
        last = max(s.step_index for s in agent.conversation.history)
    async with t.agent(tools=[lookup], conversation_id=conversation, continuation="resume") as agent:
        history = [(s.step_index, s.source.value, s.status.value) for s in agent.conversation.history]
        t.equal(
            history,
            [(0, "USER", "DONE"), (1, "MODEL", "DONE"), (2, "MODEL", "DONE"), (3, "MODEL", "DONE")],
            "restored steps",
        )
        t.equal(agent.conversation.last_response, "Found.", "last response")
        t.equal(agent.conversation.total_usage.total_token_count, 30, "usage so far")
        reply = await t.still_works(agent)
        t.equal((reply.done[0].step_index, agent.conversation_id), (last + 1, conversation), "step number and id go on")
        t.equal(agent.conversation.total_usage.total_token_count, 45, "usage goes on")
    t.equal(t.model.requests[2].dialogue, [*steps, ("model", "Found."), ("user", "Are you there?")], "history")


@scenario()
async def conversation_survives_a_kill(t: Trial) -> None:
    """Turns that were finished when the harness was killed are there when the conversation is resumed (F009)."""
    t.model.say(answer("One."))
    agent = t.agent()
    await agent.__aenter__()
    await t.chat(agent, "First")
    conversation = agent.conversation_id
    t.sdk.processes[0].kill()
    t.exit_codes = {0, -9}
    try:
        await agent.__aexit__(None, None, None)
    except t.sdk.execution_error:
        pass  # The SDK reports the exit code.
    async with t.agent(conversation_id=conversation, continuation="resume") as agent:
        t.equal([s.content for s in agent.conversation.history], ["First", "One."], "restored steps")
        await t.still_works(agent)
    t.equal(t.model.requests[1].dialogue, [("user", "First"), ("model", "One."), ("user", "Are you there?")], "history")


@scenario()
async def kill_with_an_open_call(t: Trial) -> None:
    """A call that was under way when the harness was killed is closed on resume; the history is one the model accepts (F045)."""
    started = asyncio.Event()

    async def stuck() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return ""

    t.model.say(answer(call("stuck", id="s")))
    agent = t.agent(tools=[stuck])
    await agent.__aenter__()
    await agent.chat("Go")
    await started.wait()
    conversation = agent.conversation_id
    t.sdk.processes[0].kill()
    t.exit_codes = {0, -9}
    try:
        await agent.__aexit__(None, None, None)
    except t.sdk.execution_error:
        pass
    async with t.agent(tools=[stuck], conversation_id=conversation, continuation="resume") as agent:
        t.equal(
            [(s.step_index, s.source.value) for s in agent.conversation.history][:1], [(0, "USER")], "restored steps"
        )
        await t.still_works(agent)
    t.equal(
        t.model.requests[1].dialogue,
        [("user", "Go"), ("call", "stuck", {}), ("result", "stuck"), ("user", "Are you there?")],
        "history",
    )


@scenario()
async def create_only_refuses_what_exists(t: Trial) -> None:
    """A conversation id of the client's choice is kept; creating it a second time is refused."""
    wanted = "c0ffee00c0ffee00c0ffee00c0ffee00"
    t.model.say(answer("One."))
    async with t.agent(conversation_id=wanted, continuation="create_only") as agent:
        await t.chat(agent, "First")
        t.equal(agent.conversation_id, wanted, "conversation id")
    t.exit_codes = None
    try:
        async with t.agent(conversation_id=wanted, continuation="create_only"):
            pass
    except Exception as refusal:
        t.contains(str(refusal), wanted, "text of the error")
    else:
        t.check(False, "the conversation was created twice")
    async with t.agent(conversation_id=wanted, continuation="create_or_resume") as agent:
        await t.still_works(agent)
    t.equal(t.model.requests[1].dialogue[0], ("user", "First"), "the history is still there")
