"""The registry of scenarios, and what a scenario is handed: a `Trial`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Callable, Coroutine
from typing import Any

from . import fake_model
from . import sdk as sdk_module

# Seconds a scenario may take, on a machine that is busy. Most take well below one.
DEFAULT_LIMIT = 30.0


class Failed(Exception):
    """What was expected and what was seen."""


class Skipped(Exception):
    """Why a scenario cannot run here."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A registered scenario."""

    name: str
    run: Callable[[Trial], Coroutine[Any, Any, None]]
    # First SDK version that has what the scenario needs.
    since: str
    # Seconds until the scenario is ended and counts as failed.
    limit: float
    # The documented fault of the closed binary that makes it fail there.
    peer_fault: str | None
    # Must be found in the reason of the failure, so that it fails for that fault.
    peer_shows: str
    # A race: the closed binary shows the fault in some runs only.
    peer_sometimes: bool

    @property
    def proves(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


REGISTRY: dict[str, Scenario] = {}


def scenario(
    *,
    since: str = "0.1.17",
    limit: float = DEFAULT_LIMIT,
    peer_fault: str | None = None,
    peer_shows: str = "",
    peer_sometimes: bool = False,
    name: str | None = None,
) -> Callable[[Callable[[Trial], Coroutine[Any, Any, None]]], Callable[[Trial], Coroutine[Any, Any, None]]]:
    """Registers a scenario under the function's name (or `name`)."""

    def register(run: Callable[[Trial], Coroutine[Any, Any, None]]) -> Callable[[Trial], Coroutine[Any, Any, None]]:
        key = name or run.__name__
        if key in REGISTRY:
            raise ValueError(f"two scenarios are named {key}")
        if not run.__doc__:
            raise ValueError(f"scenario {key} does not say what it proves")
        REGISTRY[key] = Scenario(key, run, since, limit, peer_fault, peer_shows, peer_sometimes)
        return run

    return register


@dataclasses.dataclass
class Reply:
    """What one `chat()` gave."""

    # Joined text deltas, which is what `ChatResponse.text()` returns.
    text: str
    thoughts: str
    chunks: list[Any]
    # Step updates of this turn, as the SDK put them into the history.
    steps: list[Any]
    error: BaseException | None
    response: Any

    @property
    def done(self) -> list[Any]:
        """The last update of every step, in order of the steps."""
        last: dict[tuple[str, int], Any] = {}
        for step in self.steps:
            # Host calls are also shown by a made-up update of the SDK, whose id is the call's.
            if step.id == f"{step.trajectory_id}:{step.step_index}":
                last[(step.trajectory_id, step.step_index)] = step
        return list(last.values())

    def tool(self, name: str) -> Any:
        """The last update of the only step of that tool."""
        found = [
            s
            for s in self.done
            if s.tool_calls and str(getattr(s.tool_calls[0].name, "value", s.tool_calls[0].name)) == name
        ]
        if len(found) != 1:
            raise Failed(f"{len(found)} steps of tool {name}, expected one: {self.shown()}")
        return found[0]

    def shown(self) -> list[tuple[Any, ...]]:
        return [(s.step_index, s.source.value, s.status.value, s.content[:80]) for s in self.done]


class Trial:
    """One run of one scenario."""

    def __init__(self, root: pathlib.Path, sdk: sdk_module.Sdk, model: fake_model.FakeModel) -> None:
        self.root = root
        self.sdk = sdk
        self.model = model
        self.workspace = root / "workspace"
        self.home = root / "home"
        # A folder that no policy counts as part of the workspace.
        self.outside = root / "outside"
        # Exit codes of the harness that are right for this scenario; None accepts any.
        self.exit_codes: set[int] | None = {0}

    def agent(self, **options: Any) -> Any:
        """An agent with `allow_all`, unless `policies` says otherwise; see `sdk.Sdk.agent`."""
        options.setdefault("policies", ())
        self.model.expects_tools = bool(
            options.get("builtins") or options.get("tools") or options.get("response_schema")
        )
        return self.sdk.agent(self.model.url, self.root, self.workspace, **options)

    def path(self, name: str) -> str:
        """Absolute path of a file in the workspace."""
        return str(self.workspace / name)

    def write(self, name: str, content: str | bytes) -> str:
        target = self.workspace / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(target)

    def read(self, name: str) -> str:
        return (self.workspace / name).read_bytes().decode()

    async def chat(self, agent: Any, prompt: Any) -> Reply:
        """One turn that must end well."""
        reply = await self.try_chat(agent, prompt)
        if reply.error is not None:
            raise Failed(f"chat({_short(prompt)}) raised {reply.error!r}") from reply.error
        return reply

    async def try_chat(self, agent: Any, prompt: Any) -> Reply:
        """One turn, whose error is given back."""
        start = len(agent.conversation.history)
        try:
            response = await agent.chat(prompt)
        except Exception as error:  # A dead session already fails here.
            return Reply("", "", [], [], error, None)
        return await self.collect(agent, response, start)

    async def collect(self, agent: Any, response: Any, start: int = 0) -> Reply:
        """Reads a `ChatResponse` to its end."""
        chunks: list[Any] = []
        failure: BaseException | None = None
        try:
            async for chunk in response.chunks:
                chunks.append(chunk)
        except self.sdk.cancelled_error as error:
            failure = error
        except Exception as error:  # What the SDK raises is part of the reply.
            failure = error
        return Reply(
            text="".join(c.text for c in chunks if type(c).__name__ == "Text"),
            thoughts="".join(c.text for c in chunks if type(c).__name__ == "Thought"),
            chunks=chunks,
            steps=agent.conversation.history[start:],
            error=failure,
            response=response,
        )

    @property
    def idles(self) -> int:
        """How often a harness has said that a conversation is idle."""
        states = [e["trajectoryStateUpdate"].get("state") for e in self.events if "trajectoryStateUpdate" in e]
        return sum(s in ("STATE_FULLY_IDLE", 2) for s in states)

    async def idle(self, times: int) -> None:
        """Waits until the conversation has been idle that often."""
        await self.sdk.until(lambda: self.idles >= times)

    def fifo(self, name: str) -> Fifo:
        """A named pipe in the workspace, for commands to report to."""
        return Fifo(self.path(name))

    async def still_works(self, agent: Any) -> Reply:
        """One more plain turn, which shows that the conversation has survived."""
        self.model.script = None
        seen = len(self.model.requests)
        self.model.say(fake_model.answer("Still here."))
        reply = await self.try_chat(agent, "Are you there?")
        if reply.error is not None:
            raise Failed(f"the next chat raised {reply.error!r}")
        self.equal(reply.text, "Still here.", "text of the next chat")
        self.equal(len(self.model.requests), seen + 1, "model requests of the next chat")
        self.equal(self.model.requests[-1].last_said, "Are you there?", "the next question at the model")
        return reply

    def check(self, condition: Any, what: str) -> None:
        if not condition:
            raise Failed(what)

    def equal(self, seen: Any, expected: Any, what: str) -> None:
        if seen != expected:
            raise Failed(f"{what}: expected {_short(expected)}, saw {_short(seen)}")

    def contains(self, whole: str, part: str, what: str) -> None:
        if part not in whole:
            raise Failed(f"{what}: {_short(part)} is not in {_short(whole)}")

    def matches(self, whole: str, pattern: str, what: str) -> None:
        if not re.search(pattern, whole, re.DOTALL):
            raise Failed(f"{what}: {_short(whole)} does not match {pattern!r}")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the harness has sent, parsed."""
        return [json.loads(f["frame"]) for f in self.sdk.frames if f["from"] == "harness"]


class Fifo:
    """A named pipe whose lines the scenario awaits."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.mkfifo(path)
        # Opened for both directions, so that there is always a writer and never an end.
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._read = b""

    async def line(self, limit: float = 10.0) -> str:
        """The next line, without its end."""
        loop = asyncio.get_running_loop()

        async def wait() -> str:
            while b"\n" not in self._read:
                readable = asyncio.Event()
                loop.add_reader(self._handle, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self._handle)
                self._read += os.read(self._handle, 65536)
            line, _, self._read = self._read.partition(b"\n")
            return line.decode()

        return await asyncio.wait_for(wait(), limit)


def _short(value: Any, limit: int = 400) -> str:
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[:limit]}… ({len(shown)} characters)"
