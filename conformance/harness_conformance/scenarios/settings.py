"""Configuration: what of it reaches the model, and what a harness must refuse."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from ..fake_model import answer
from ..scenario import Failed, Trial, scenario


async def first_request(t: Trial, **options: Any) -> Any:
    t.model.say(answer("Hi."))
    async with t.agent(**options) as agent:
        await t.chat(agent, "Hello")
    return t.model.requests[0]


@scenario()
async def instructions_are_appended(t: Trial) -> None:
    """A string of instructions is added to the system instruction the harness has of its own."""
    request = await first_request(t, instructions="Always answer in rhymes.", builtins=("view_file",))
    t.contains(request.system, "Always answer in rhymes.", "system instruction")
    t.contains(request.system, str(t.workspace), "the workspace is named")
    t.check(len(request.system) > 200, "the harness's own instructions are there as well")


@scenario()
async def instructions_replace_everything(t: Trial) -> None:
    """Custom instructions are the whole system instruction."""
    text = "You are a teapot.\nSay nothing else."
    request = await first_request(t, instructions=t.sdk.types.CustomSystemInstructions(text=text))
    t.contains(request.system, text, "system instruction")
    t.check(len(request.system) < len(text) + 40, f"more than the custom text: {request.system!r}")


@scenario()
async def instructions_with_identity_and_sections(t: Trial) -> None:
    """An identity of its own and titled sections reach the model."""
    types = t.sdk.types
    request = await first_request(
        t,
        instructions=types.TemplatedSystemInstructions(
            identity="You are Ada, a careful engineer.",
            sections=[
                types.SystemInstructionSection(title="house_rules", content="Wipe your feet."),
                types.SystemInstructionSection(content="Be kind."),
            ],
        ),
    )
    for part in ("You are Ada, a careful engineer.", "house_rules", "Wipe your feet.", "Be kind."):
        t.contains(request.system, part, "system instruction")


@scenario()
async def model_options(t: Trial) -> None:
    """Thinking level, output limit and service tier reach the model."""
    request = await first_request(
        t, model_options={"thinking_level": "high", "max_output_tokens": 1234, "service_tier": "flex"}
    )
    config = request.body["generationConfig"]
    t.equal(config["maxOutputTokens"], 1234, "maxOutputTokens")
    t.equal(config["thinkingConfig"]["thinkingLevel"].lower(), "high", "thinkingLevel")
    t.equal(config["thinkingConfig"]["includeThoughts"], True, "includeThoughts")
    t.equal(request.body["serviceTier"].lower(), "flex", "serviceTier")


@scenario()
async def no_model_options(t: Trial) -> None:
    """Options nobody set are not made up."""
    request = await first_request(t)
    config = request.body.get("generationConfig", {})
    t.equal(
        (config.get("thinkingConfig"), request.body.get("serviceTier")), (None, None), "thinkingConfig, serviceTier"
    )


@scenario()
async def http_headers(t: Trial) -> None:
    """Extra headers reach the model's server; the client names itself."""
    request = await first_request(t, http_headers={"X-Team": "blue", "Authorization": "Bearer of news"})
    t.equal(
        (request.headers.get("x-team"), request.headers.get("authorization")), ("blue", "Bearer of news"), "headers"
    )
    t.matches(request.headers.get("user-agent", ""), rf"google-antigravity-sdk/{t.sdk.version} python/", "User-Agent")
    t.equal(request.headers.get("content-type", "").partition(";")[0], "application/json", "Content-Type")


async def refused(t: Trial, reason: str, change: Callable[[Any], None] | None = None, **options: Any) -> None:
    """The agent does not start, says so soon, and gives the reason."""
    # The SDK kills a harness that refuses its configuration.
    t.exit_codes = None
    agent = t.agent(change_config=change, **options)
    try:
        await asyncio.wait_for(agent.__aenter__(), 10)
    except TimeoutError:
        raise Failed("the configuration is neither accepted nor refused within 10 s") from None
    except Exception as error:
        t.matches(str(error), reason, "text of the error")
        return
    await agent.__aexit__(None, None, None)
    raise Failed("the configuration was accepted")


ACCEPTED = "was accepted"


@scenario(peer_fault="accepts a relative workspace", peer_shows=ACCEPTED)
async def relative_workspace_is_refused(t: Trial) -> None:
    """A workspace that is no absolute path is refused at the start, by name."""

    def change(config: Any) -> None:
        config.workspaces[0].filesystem_workspace.directory = "some/where"

    await refused(t, "(?i)workspace.*some/where|some/where.*workspace", change)


@scenario(peer_fault="accepts two host tools of one name", peer_shows=ACCEPTED)
async def duplicate_tools_are_refused(t: Trial) -> None:
    """Two host tools of one name are refused at the start, by name."""

    def lookup() -> str:
        """Looks up."""
        return ""

    def change(config: Any) -> None:
        config.tools.append(copy.deepcopy(config.tools[0]))

    await refused(t, "lookup", change, tools=[lookup])


@scenario(peer_fault="accepts a host tool named like a built-in one", peer_shows=ACCEPTED)
async def tool_named_like_a_builtin_is_refused(t: Trial) -> None:
    """A host tool that is named like an enabled built-in tool is refused at the start, by name."""

    def view_file() -> str:
        """Not the built-in one."""
        return ""

    await refused(t, "view_file", tools=[view_file], builtins=("view_file",))


@scenario(peer_fault="finds an invalid finish schema in the first turn only", peer_shows=ACCEPTED)
async def invalid_finish_schema_is_refused(t: Trial) -> None:
    """A finish schema that is no JSON is refused at the start."""

    def change(config: Any) -> None:
        config.finish_tool_schema_json = "{not json"

    await refused(t, "(?i)finish", change)


@scenario(peer_fault="finds an invalid tool schema in the first turn only", peer_shows=ACCEPTED)
async def invalid_tool_schema_is_refused(t: Trial) -> None:
    """A host tool's schema that is no JSON is refused at the start, naming the tool."""

    def lookup() -> str:
        """Looks up."""
        return ""

    def change(config: Any) -> None:
        config.tools[0].parameters_json_schema = "{not json"

    await refused(t, "lookup", change, tools=[lookup])


@scenario()
async def asking_without_a_way_to_ask_is_refused(t: Trial) -> None:
    """A policy that asks the user, but is not marked as one that can be asked, is refused at the start."""

    def change(config: Any) -> None:
        rule = config.policy_config.rules.add()
        rule.tool, rule.name = "run_command", "ask me"
        rule.decision = (
            config.policy_config.rules[0]
            .DESCRIPTOR.fields_by_name["decision"]
            .enum_type.values_by_name["POLICY_DECISION_ASK_USER"]
            .number
        )
        rule.is_dynamic = False

    await refused(t, "ask me", change, builtins=("run_command",))


@scenario()
async def no_model_is_refused(t: Trial) -> None:
    """A configuration without a text model is refused at the start."""

    def change(config: Any) -> None:
        del config.models[:]

    await refused(t, "(?i)model", change)


@scenario()
async def unknown_conversation_is_refused(t: Trial) -> None:
    """Resuming a conversation that does not exist is refused at the start, by id."""
    await refused(
        t, "0123456789abcdef0123456789abcdef", conversation_id="0123456789abcdef0123456789abcdef", continuation="resume"
    )
