"""What a scenario needs of the SDK, in one place, so that another version is another adapter.

Scenarios name built-in tools, policies and hooks through this module only. It also taps
the two ends the SDK holds of a harness: the process and the WebSocket.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import pathlib
import subprocess
import time
import types as std_types
from collections.abc import Callable, Sequence
from typing import Any

from . import fake_model

# Retries as quick as a test can bear, for every agent that does not say otherwise.
QUICK_RETRIES = {"max_retries": 3, "initial_sleep_duration_ms": 10, "exponential_multiplier": 1.0}


def installed_version() -> str:
    return importlib.metadata.version("google-antigravity")


def parse_version(value: str) -> tuple[int, ...]:
    return tuple(int(p) for p in value.split("."))


def preload() -> None:
    """Imports what `Sdk` will use, and what the SDK would import at its first use."""
    for name in (
        *_MODULES.values(),
        "google.antigravity.connections.local.event_processor",
        "websockets.asyncio.client",
    ):
        importlib.import_module(name)


_MODULES = {
    "antigravity": "google.antigravity",
    "types": "google.antigravity.types",
    "models": "google.antigravity.models",
    "policy": "google.antigravity.hooks.policy",
    "hooks": "google.antigravity.hooks.hooks",
    "_connection": "google.antigravity.connections.local.local_connection",
    "_config": "google.antigravity.connections.local.local_connection_config",
}


class Sdk:
    """The installed SDK, with taps on the harness processes and their sockets."""

    def __init__(self) -> None:
        self.version = installed_version()
        self.antigravity: Any
        self.types: Any
        self.models: Any
        self.policy: Any
        self.hooks: Any
        self._connection: Any
        self._config: Any
        for attribute, name in _MODULES.items():
            setattr(self, attribute, importlib.import_module(name))
        # Every harness process the SDK has started, in order.
        self.processes: list[subprocess.Popen[bytes]] = []
        # Every frame: {"at": seconds, "connection": n, "from": "sdk" | "harness", "frame": text}.
        self.frames: list[dict[str, Any]] = []
        self._frame_waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._started = time.monotonic()
        self._connections = 0
        self._tap_processes()
        self._tap_sockets()

    def _tap_processes(self) -> None:
        processes = self.processes

        class Recorded(subprocess.Popen):  # type: ignore[type-arg]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                processes.append(self)

        shim = std_types.SimpleNamespace(
            **{n: getattr(subprocess, n) for n in dir(subprocess) if not n.startswith("__")}
        )
        shim.Popen = Recorded
        self._connection.subprocess = shim

    def _tap_sockets(self) -> None:
        websockets = self._connection.websockets
        connect = websockets.connect

        async def tapped(*args: Any, **kwargs: Any) -> Any:
            socket = await connect(*args, **kwargs)
            self._connections += 1
            number = self._connections
            send, recv = socket.send, socket.recv

            def note(origin: str, frame: Any) -> None:
                if isinstance(frame, bytes):
                    frame = frame.decode(errors="replace")
                self.frames.append(
                    {
                        "at": round(time.monotonic() - self._started, 4),
                        "connection": number,
                        "from": origin,
                        "frame": frame,
                    }
                )
                due = [(p, w) for p, w in self._frame_waiters if w.done() or p()]
                self._frame_waiters = [x for x in self._frame_waiters if x not in due]
                for _, waiter in due:
                    if not waiter.done():
                        waiter.set_result(None)

            async def tapped_send(message: Any, *a: Any, **k: Any) -> Any:
                note("sdk", message)
                return await send(message, *a, **k)

            async def tapped_recv(*a: Any, **k: Any) -> Any:
                message = await recv(*a, **k)
                note("harness", message)
                return message

            socket.send, socket.recv = tapped_send, tapped_recv
            return socket

        self._connection.websockets = std_types.SimpleNamespace(
            **{n: getattr(websockets, n) for n in ("ConnectionClosed", "WebSocketException")}, connect=tapped
        )

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Waits until `predicate`, looked at after every frame, holds."""
        if not predicate():
            waiter = asyncio.get_running_loop().create_future()
            self._frame_waiters.append((predicate, waiter))
            await waiter
            # The frame has been seen here before the SDK's own reader has handled it.
            await asyncio.sleep(0)

    # Errors, as the SDK raises them.

    @property
    def execution_error(self) -> type[BaseException]:
        return self.types.AntigravityExecutionError

    @property
    def connection_error(self) -> type[BaseException]:
        return self.types.AntigravityConnectionError

    @property
    def cancelled_error(self) -> type[BaseException]:
        return self.types.AntigravityCancelledError

    # Policies.

    def allow_all(self) -> Any:
        return self.policy.allow_all()

    def deny(self, tool: str, **options: Any) -> Any:
        return self.policy.deny(tool, **options)

    def allow(self, tool: str, **options: Any) -> Any:
        return self.policy.allow(tool, **options)

    def ask(self, tool: str, handler: Callable[..., Any], **options: Any) -> Any:
        return self.policy.ask_user(tool, handler=handler, **options)

    def agent(
        self,
        url: str,
        root: pathlib.Path,
        workspace: pathlib.Path,
        *,
        builtins: Sequence[str] = (),
        tools: Sequence[Callable[..., Any]] = (),
        policies: Sequence[Any] | None = None,
        hooks: Sequence[Any] = (),
        triggers: Sequence[Any] = (),
        interactive: bool = False,
        response_schema: Any = None,
        instructions: Any = None,
        model_options: dict[str, Any] | None = None,
        http_headers: dict[str, str] | None = None,
        retries: dict[str, Any] | None = None,
        output_retries: int | None = None,
        conversation_id: str | None = None,
        continuation: str | None = None,
        save_dir: pathlib.Path | None = None,
        change_config: Callable[[Any], None] | None = None,
    ) -> Any:
        """An `Agent` that talks to the scripted model.

        Args:
          url: Base URL of the model server.
          root: The scenario's folder; storage goes below it.
          workspace: The only workspace.
          builtins: Names of built-in tools, as the SDK spells them; none by default.
          tools: Host tools.
          policies: None leaves the SDK's default policies in place; () is `allow_all`.
          hooks: Hook objects.
          triggers: Trigger functions.
          interactive: Whether the agent may ask its user questions.
          response_schema: Schema of the structured answer.
          instructions: System instructions, a string or an SDK object.
          model_options: Fields of the SDK's `GeminiModelOptions`.
          http_headers: Extra headers of model requests.
          retries: Fields of the SDK's `ModelAPIRetryConfig`; `QUICK_RETRIES` by default.
          output_retries: `max_retries` of the SDK's `ModelOutputRetryConfig`.
          conversation_id: Id of a conversation to create or resume.
          continuation: "resume", "create_or_resume" or "create_only".
          save_dir: Folder conversations are kept in.
          change_config: Called with the `HarnessConfig` message before it is sent, for what the
            public configuration cannot express.
        """
        types = self.types
        capabilities = types.CapabilitiesConfig(
            enable_subagents=False,
            enabled_tools=[types.BuiltinTools(b) for b in builtins],
            agent_behavior=types.AgentBehavior.INTERACTIVE if interactive else types.AgentBehavior.AUTONOMOUS,
        )
        endpoint = self.models.GeminiAPIEndpoint(
            base_url=url,
            api_key=fake_model.API_KEY,
            http_headers=http_headers,
            options=self.models.GeminiModelOptions(**model_options) if model_options else None,
        )
        options: dict[str, Any] = {}
        if policies is None or list(policies):
            if policies is not None:
                options["policies"] = list(policies)
        else:
            options["policies"] = [self.allow_all()]
        if response_schema is not None:
            options["response_schema"] = response_schema
        if instructions is not None:
            options["system_instructions"] = instructions
        if conversation_id is not None:
            options["conversation_id"] = conversation_id
        if continuation is not None:
            options["session_continuation_mode"] = types.SessionContinuationMode(continuation)
        config = self._config.LocalAgentConfig(
            model=types.ModelTarget(name=fake_model.MODEL, types=[types.ModelType.TEXT], endpoint=endpoint),
            api_key=fake_model.API_KEY,
            capabilities=capabilities,
            tools=list(tools),
            hooks=list(hooks),
            triggers=list(triggers),
            workspaces=[str(workspace)],
            app_data_dir=str(root / "data"),
            save_dir=str(save_dir or root / "save"),
            retry_config=types.RetryConfig(
                api_retry=types.ModelAPIRetryConfig(**(QUICK_RETRIES if retries is None else retries)),
                model_output_retry=(
                    None if output_retries is None else types.ModelOutputRetryConfig(max_retries=output_retries)
                ),
            ),
            **options,
        )
        agent = self.antigravity.Agent(config)
        if change_config is not None:
            _change_config(agent, change_config)
        return agent


def _change_config(agent: Any, change: Callable[[Any], None]) -> None:
    create = agent._config.create_strategy

    def create_changed(**kwargs: Any) -> Any:
        strategy = create(**kwargs)
        build = strategy._build_harness_config

        def build_changed() -> Any:
            config = build()
            change(config)
            return config

        strategy._build_harness_config = build_changed
        return strategy

    # The configuration is a pydantic model, which takes no new attributes by assignment.
    object.__setattr__(agent._config, "create_strategy", create_changed)
