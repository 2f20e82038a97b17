"""Built-in tools: what they do to real files, what the SDK shows, what the model reads."""

from __future__ import annotations

import json
from typing import Any

from ..fake_model import answer, call
from ..scenario import Reply, Trial, scenario

FILES = ("view_file", "create_file", "edit_file")
SEARCH = ("list_directory", "search_directory", "find_file")


async def use(
    t: Trial, builtins: tuple[str, ...], name: str, args: dict[str, Any], **options: Any
) -> tuple[Reply, str]:
    """One turn in which the model makes one call; the turn, and what the model read."""
    t.model.say(answer(call(name, args, id="call-1")), answer("Done."))
    async with t.agent(builtins=builtins, **options) as agent:
        reply = await t.chat(agent, "Do it")
        t.equal(reply.text, "Done.", "answer")
        t.check(name in t.model.requests[0].tools, f"{name} is not declared: {sorted(t.model.requests[0].tools)}")
        t.equal(
            [(r["name"], r.get("id")) for r in t.model.requests[1].results], [(name, "call-1")], "results at the model"
        )
        await t.still_works(agent)
    return reply, t.model.requests[1].result_texts[0]


def ended(t: Trial, step: Any, status: str = "DONE") -> None:
    t.equal((step.source.value, step.status.value), ("MODEL", status), f"end of the step ({step.error})")


@scenario()
async def list_dir(t: Trial) -> None:
    """list_dir shows files with sizes and folders, to the SDK and to the model."""
    t.write("b.txt", "four")
    t.write("empty", "")
    t.write("sub/inner.txt", "x")
    reply, read = await use(t, SEARCH, "list_dir", {"DirectoryPath": str(t.workspace)})
    step = reply.tool("list_directory")
    ended(t, step)
    t.equal(step.tool_calls[0].args["directory_path"], str(t.workspace), "path of the step")
    t.equal(step.tool_calls[0].canonical_path, str(t.workspace), "canonical path of the step")
    results = {
        r["name"]: (r.get("is_directory", False), int(r.get("file_size", 0)))
        for r in step.tool_calls[0].args["results"]
    }
    t.equal(results, {"b.txt": (False, 4), "empty": (False, 0), "sub": (True, 0)}, "results of the step")
    for name in ("b.txt", "empty", "sub"):
        t.contains(read, name, "what the model read")
    t.check("inner.txt" not in read, "the listing is not recursive")


@scenario()
async def view_file(t: Trial) -> None:
    """view_file gives the model the text with line numbers, and the step the range."""
    path = t.write("poem.txt", "roses\nviolets\nsugär\n")
    reply, read = await use(t, FILES, "view_file", {"AbsolutePath": path})
    step = reply.tool("view_file")
    ended(t, step)
    t.equal(step.tool_calls[0].args["file_path"], path, "path of the step")
    for line in ("roses", "violets", "sugär"):
        t.contains(read, line, "what the model read")
    t.matches(read, r"(?m)^\s*1: ?roses$.*^\s*3: ?sugär$", "numbered lines")


@scenario()
async def view_file_range(t: Trial) -> None:
    """view_file with a range gives these lines (both ends included) and no others."""
    path = t.write("long.txt", "".join(f"line {i}.\n" for i in range(1, 101)))
    _, read = await use(t, FILES, "view_file", {"AbsolutePath": path, "StartLine": 40, "EndLine": 42})
    seen = [i for i in range(1, 101) if f"line {i}." in read]
    t.equal(seen, [40, 41, 42], "lines the model read")


@scenario()
async def view_image(t: Trial) -> None:
    """view_file of an image hands the model its bytes."""
    path = t.write("dot.png", PNG)
    reply, _ = await use(t, FILES, "view_file", {"AbsolutePath": path})
    ended(t, reply.tool("view_file"))
    t.equal(inline(t.model.requests[1].results[0]), [("image/png", PNG)], "media of the result")


@scenario()
async def write_to_file(t: Trial) -> None:
    """write_to_file creates a file with its folders; the step carries the diff."""
    path = t.path("new/deep/file.txt")
    reply, _ = await use(
        t,
        FILES,
        "write_to_file",
        {"TargetFile": path, "CodeContent": "one\ntwo\n", "Description": "new file", "Overwrite": False},
    )
    t.equal(t.read("new/deep/file.txt"), "one\ntwo\n", "the file")
    step = reply.tool("edit_file")
    ended(t, step)
    t.equal(step.tool_calls[0].args["file_path"], path, "path of the step")
    t.contains(json.dumps(step.tool_calls[0].args), "one", "diff of the step")


@scenario()
async def overwrite_only_when_asked(t: Trial) -> None:
    """write_to_file leaves an existing file alone without Overwrite, and replaces it with it."""
    path = t.write("kept.txt", "old\n")
    args = {"TargetFile": path, "CodeContent": "new\n", "Description": "d"}
    t.model.say(
        answer(call("write_to_file", args | {"Overwrite": False}, id="a")),
        answer("Refused."),
        answer(call("write_to_file", args | {"Overwrite": True}, id="b")),
        answer("Written."),
    )
    async with t.agent(builtins=FILES) as agent:
        await t.chat(agent, "Write")
        t.equal(t.read("kept.txt"), "old\n", "the file without Overwrite")
        t.matches(t.model.requests[1].result_texts[0], "exist", "what the model read")
        await t.chat(agent, "Overwrite")
        t.equal(t.read("kept.txt"), "new\n", "the file with Overwrite")
        await t.still_works(agent)


@scenario()
async def replace_file_content(t: Trial) -> None:
    """replace_file_content replaces that one place; the model reads what changed."""
    path = t.write("code.py", "a = 1\nb = 2\nc = 3\n")
    reply, read = await use(
        t,
        FILES,
        "replace_file_content",
        {
            "TargetFile": path,
            "TargetContent": "b = 2",
            "ReplacementContent": "b = 22",
            "AllowMultiple": False,
            "StartLine": 1,
            "EndLine": 3,
            "Description": "d",
            "Instruction": "i",
        },
    )
    t.equal(t.read("code.py"), "a = 1\nb = 22\nc = 3\n", "the file")
    step = reply.tool("edit_file")
    ended(t, step)
    t.equal(step.tool_calls[0].args["file_path"], path, "path of the step")
    t.contains(read, "b = 22", "what the model read")


@scenario()
async def edit_keeps_line_ends(t: Trial) -> None:
    """An edit of a file with CRLF, written by the model with LF, keeps CRLF everywhere (F010)."""
    path = t.write("dos.txt", "a\r\nb\r\nc\r\n")
    await use(
        t,
        FILES,
        "replace_file_content",
        {
            "TargetFile": path,
            "TargetContent": "b\nc",
            "ReplacementContent": "B\nc",
            "AllowMultiple": False,
            "StartLine": 1,
            "EndLine": 3,
            "Description": "d",
            "Instruction": "i",
        },
    )
    t.equal(t.read("dos.txt"), "a\r\nB\r\nc\r\n", "the file")


@scenario()
async def edit_target_not_found(t: Trial) -> None:
    """An edit whose target is not there changes nothing and tells the model."""
    path = t.write("code.py", "a = 1\n")
    reply, read = await use(
        t,
        FILES,
        "replace_file_content",
        {
            "TargetFile": path,
            "TargetContent": "zzz",
            "ReplacementContent": "y",
            "AllowMultiple": False,
            "StartLine": 1,
            "EndLine": 1,
            "Description": "d",
            "Instruction": "i",
        },
    )
    t.equal(t.read("code.py"), "a = 1\n", "the file")
    t.check(any(s.status.value == "ERROR" for s in reply.done), f"no step shows the error: {reply.shown()}")
    t.matches(read, "not found|does not occur", "what the model read")


@scenario()
async def edit_target_twice(t: Trial) -> None:
    """An edit whose target is there twice changes nothing and says so (F048)."""
    path = t.write("code.py", "a = 1\nb\na = 1\n")
    _, read = await use(
        t,
        FILES,
        "replace_file_content",
        {
            "TargetFile": path,
            "TargetContent": "a = 1",
            "ReplacementContent": "a = 2",
            "AllowMultiple": False,
            "StartLine": 1,
            "EndLine": 3,
            "Description": "d",
            "Instruction": "i",
        },
    )
    t.equal(t.read("code.py"), "a = 1\nb\na = 1\n", "the file")
    t.matches(read, "unique|2 |twice|times", "what the model read")


@scenario()
async def grep_search(t: Trial) -> None:
    """grep_search gives path, line number and line of every hit, and the number of hits to the step."""
    t.write("a.txt", "needle one\nhay\n")
    t.write("sub/b.txt", "hay\nhay\nneedle two\n")
    reply, _ = await use(
        t, SEARCH, "grep_search", {"SearchPath": str(t.workspace), "Query": "needle", "MatchPerLine": True}
    )
    step = reply.tool("search_directory")
    ended(t, step)
    args = step.tool_calls[0].args
    t.equal((args["directory_path"], args["query"], args["num_results"]), (str(t.workspace), "needle", 2), "the step")
    read = t.model.requests[1].result_texts[0]
    for part in ("a.txt", "needle one", "b.txt", "needle two"):
        t.contains(read, part, "what the model read")
    t.check("hay" not in read, "only hits are shown")


@scenario()
async def grep_without_hits(t: Trial) -> None:
    """A search without hits is an answer, not an error."""
    t.write("a.txt", "hay\n")
    reply, read = await use(t, SEARCH, "grep_search", {"SearchPath": str(t.workspace), "Query": "needle"})
    ended(t, reply.tool("search_directory"))
    t.matches(read, "(?i)no (results|matches)", "what the model read")


@scenario(
    peer_fault="an invalid regular expression is answered with 'No results found'", peer_shows="what the model read"
)
async def grep_invalid_regex(t: Trial) -> None:
    """An invalid regular expression is an error the model can read, never an empty result."""
    t.write("a.txt", "a(b\n")
    _, read = await use(t, SEARCH, "grep_search", {"SearchPath": str(t.workspace), "Query": "a(b", "IsRegex": True})
    t.matches(read, "(?i)regex|regular expression|parse|unclosed", "what the model read")


@scenario()
async def find_by_name(t: Trial) -> None:
    """find_by_name finds by glob below the folder."""
    for name in ("one.rs", "sub/two.rs", "sub/three.txt"):
        t.write(name, "x")
    reply, read = await use(t, SEARCH, "find_by_name", {"SearchDirectory": str(t.workspace), "Pattern": "*.rs"})
    step = reply.tool("find_file")
    ended(t, step)
    t.equal(step.tool_calls[0].args["directory_path"], str(t.workspace), "path of the step")
    t.contains(read, "one.rs", "what the model read")
    t.contains(read, "two.rs", "what the model read")
    t.check("three.txt" not in read, "only matches are shown")
    t.contains(step.tool_calls[0].args["output"], "one.rs", "output of the step")


@scenario()
async def run_command(t: Trial) -> None:
    """run_command runs in its Cwd; the step has exit code and output, the model reads both."""
    t.write("sub/here.txt", "x")
    reply, read = await use(
        t,
        ("run_command",),
        "run_command",
        {
            "CommandLine": "ls && echo to-stderr >&2 && pwd > ../made.txt",
            "Cwd": t.path("sub"),
            "WaitMsBeforeAsync": 5000,
        },
    )
    step = reply.tool("run_command")
    ended(t, step)
    args = step.tool_calls[0].args
    t.equal(args["command_line"], "ls && echo to-stderr >&2 && pwd > ../made.txt", "command of the step")
    t.equal(args["working_dir"], t.path("sub"), "folder of the step")
    t.equal(args.get("exit_code", 0), 0, "exit code of the step")
    t.equal(args["combined_output"].split(), ["here.txt", "to-stderr"], "output of the step")
    t.contains(read, "here.txt", "what the model read")
    t.contains(read, "to-stderr", "what the model read")
    t.equal(t.read("made.txt"), t.path("sub") + "\n", "the file the command made")


@scenario()
async def run_command_fails(t: Trial) -> None:
    """A command's exit code reaches the step and the model."""
    reply, read = await use(
        t,
        ("run_command",),
        "run_command",
        {"CommandLine": "echo before; exit 7", "Cwd": str(t.workspace), "WaitMsBeforeAsync": 5000},
    )
    t.equal(reply.tool("run_command").tool_calls[0].args["exit_code"], 7, "exit code of the step")
    t.contains(read, "before", "what the model read")
    t.matches(read, r"\b7\b", "exit code the model read")


@scenario()
async def file_is_missing(t: Trial) -> None:
    """A tool that fails is a result the model can read, and the turn goes on."""
    reply, read = await use(t, FILES, "view_file", {"AbsolutePath": t.path("nowhere.txt")})
    t.check(any(s.status.value == "ERROR" for s in reply.done), f"no step shows the error: {reply.shown()}")
    t.matches(read, "(?i)no such file|does not exist|not found|failed to", "what the model read")


@scenario()
async def arguments_of_the_wrong_type(t: Trial) -> None:
    """Arguments that do not fit are refused with a reason, and the turn goes on."""
    path = t.write("a.txt", "x\n")
    _, read = await use(t, FILES, "view_file", {"AbsolutePath": path, "StartLine": {"not": "a number"}})
    t.matches(read, "(?i)invalid|expected|cannot|must be", "what the model read")


@scenario()
async def relative_path(t: Trial) -> None:
    """A relative path is refused with a reason."""
    t.write("a.txt", "x\n")
    _, read = await use(t, FILES, "view_file", {"AbsolutePath": "a.txt"})
    t.contains(read, "absolute", "what the model read")


@scenario()
async def unknown_tool(t: Trial) -> None:
    """A call of a tool that does not exist is answered, by name, and the turn goes on."""
    t.model.say(answer(call("no_such_tool", {"x": 1}, id="u")), answer("Sorry."))
    async with t.agent(builtins=FILES) as agent:
        reply = await t.chat(agent, "Do it")
        t.equal(reply.text, "Sorry.", "answer")
        t.equal([(r["name"], r.get("id")) for r in t.model.requests[1].results], [("no_such_tool", "u")], "results")
        t.contains(t.model.requests[1].result_texts[0], "no_such_tool", "what the model read")
        await t.still_works(agent)


@scenario(peer_fault="ends the session after five bad calls in a row", peer_shows="the next chat|raised")
async def unknown_tool_for_ever(t: Trial) -> None:
    """A model that calls an unknown tool again and again is stopped, and the conversation survives."""

    def script(request: Any) -> Any:
        if len(t.model.requests) > 40:
            t.model.violations.append("the loop is not bounded")
            return answer("Stop.")
        return answer(call("no_such_tool", {"n": request.number}, id=f"u{request.number}"))

    t.model.script = script
    async with t.agent(builtins=FILES, output_retries=3) as agent:
        reply = await t.try_chat(agent, "Do it")
        t.check(reply.error is not None, "the turn must end with an error")
        await t.still_works(agent)


@scenario()
async def calls_of_one_answer_in_order(t: Trial) -> None:
    """Several calls in one answer, one of them wrong: each is answered, in call order (F001)."""
    path = t.write("a.txt", "alpha\n")
    t.model.say(
        answer(
            [
                call("view_file", {"AbsolutePath": path}, id="1"),
                call(
                    "write_to_file",
                    {"TargetFile": t.path("b.txt"), "CodeContent": "beta\n", "Description": "d", "Overwrite": False},
                    id="2",
                ),
                call("view_file", {"AbsolutePath": t.path("missing.txt")}, id="3"),
                call("view_file", {"AbsolutePath": t.path("b.txt")}, id="4"),
            ]
        ),
        answer("Done."),
    )
    async with t.agent(builtins=FILES) as agent:
        await t.chat(agent, "Do all")
        results = t.model.requests[1].results
        t.equal([r.get("id") for r in results], ["1", "2", "3", "4"], "results")
        read = t.model.requests[1].result_texts
        t.contains(read[0], "alpha", "first result")
        t.contains(read[3], "beta", "the read after the write sees it")
        await t.still_works(agent)


@scenario(peer_fault="drops the calls behind an invalid one", peer_shows="results")
async def call_behind_an_invalid_one(t: Trial) -> None:
    """A call behind an invalid one is carried out and answered all the same (F001)."""
    path = t.write("a.txt", "alpha\n")
    t.model.say(
        answer(
            [
                call("view_file", {"AbsolutePath": path}, id="1"),
                call("no_such_tool", {}, id="2"),
                call("view_file", {"AbsolutePath": path}, id="3"),
            ]
        ),
        answer("Done."),
    )
    async with t.agent(builtins=FILES) as agent:
        await t.chat(agent, "Do all")
        t.equal([r.get("id") for r in t.model.requests[1].results], ["1", "2", "3"], "results")
        t.contains(t.model.requests[1].result_texts[2], "alpha", "third result")
        await t.still_works(agent)


@scenario()
async def only_enabled_tools_are_declared(t: Trial) -> None:
    """The model is offered the enabled built-in tools and the host tools, and nothing else."""

    def lookup(key: str, times: int = 1) -> str:
        """Looks a key up."""
        return key * times

    t.model.say(answer("Hi."))
    async with t.agent(builtins=("view_file", "run_command"), tools=[lookup]) as agent:
        await t.chat(agent, "Hello")
    declared = t.model.requests[0].tools
    t.equal(set(declared) - {"manage_task"}, {"view_file", "run_command", "lookup"}, "declared tools")
    schema = declared["lookup"].get("parametersJsonSchema") or declared["lookup"]["parameters"]
    t.equal(declared["lookup"]["description"], "Looks a key up.", "description of the host tool")
    t.equal({"key", "times"} <= set(schema["properties"]), True, "parameters of the host tool")
    t.check("key" in schema["required"] and "times" not in schema["required"], f"required: {schema['required']}")


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00"
    "05000 1ff89993d1d0000000049454e44ae426082".replace(" ", "")
)


def inline(part: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The media in a function response."""
    import base64

    return [
        (p["inlineData"]["mimeType"], base64.b64decode(p["inlineData"]["data"]))
        for p in part.get("parts", [])
        if "inlineData" in p
    ]
