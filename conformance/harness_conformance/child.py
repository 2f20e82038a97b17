"""Runs one scenario in this process, which is used for nothing else.

The result goes to `ROOT/result.json`, the log of the SDK (with the harness's stderr) to
`ROOT/sdk.log`, the WebSocket frames to `ROOT/frames.jsonl`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import json
import logging
import os
import pathlib
import time
import traceback
from typing import Any

from . import (
    fake_model,
    scenarios,  # noqa: F401  (fills the registry)
    witness,
)
from . import sdk as sdk_module
from .scenario import REGISTRY, Failed, Scenario, Skipped, Trial

# Seconds between the inner limit, which can say where a scenario hangs, and the outer one.
INNER_MARGIN = 3.0
# Seconds a harness and what it started may take to be gone after the SDK has let go of it.
EXIT_LIMIT = 5.0


def run(name: str, root: pathlib.Path) -> int:
    """Runs the scenario and writes down how it went; the exit code."""
    logging.basicConfig(
        filename=root / "sdk.log", level=logging.DEBUG, format="%(relativeCreated)d %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("websockets").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    adopted = witness.adopt_orphans()
    started = time.monotonic()
    sdk = sdk_module.Sdk()
    found = REGISTRY[name]
    # The SDK blocks its event loop in some places; then this is what tells where.
    faulthandler.dump_traceback_later(found.limit - 1)
    if sdk_module.parse_version(sdk.version) < sdk_module.parse_version(found.since):
        verdict: dict[str, Any] = {"status": "skip", "reason": f"needs SDK {found.since}"}
    else:
        verdict = asyncio.run(_run(found, root, sdk, adopted))
    verdict["seconds"] = round(time.monotonic() - started, 3)
    faulthandler.cancel_dump_traceback_later()
    _finish(root, sdk, verdict)
    return 0 if verdict["status"] != "fail" else 1


def _finish(root: pathlib.Path, sdk: sdk_module.Sdk, verdict: dict[str, Any]) -> None:
    with (root / "frames.jsonl").open("w") as out:
        for frame in sdk.frames:
            out.write(json.dumps(frame, ensure_ascii=False) + "\n")
    (root / "result.json").write_text(json.dumps(verdict))


async def _run(found: Scenario, root: pathlib.Path, sdk: sdk_module.Sdk, adopted: bool) -> dict[str, Any]:
    model = fake_model.FakeModel()
    trial = Trial(root, sdk, model)
    started = time.monotonic()
    body = asyncio.create_task(found.run(trial))
    done, _ = await asyncio.wait({body}, timeout=found.limit - INNER_MARGIN)
    if not done:
        where = io.StringIO()
        body.print_stack(file=where, limit=6)
        # Leaving the agent's context could block for minutes: write the verdict down and go.
        late = {
            "status": "fail",
            "reason": f"not done after {found.limit - INNER_MARGIN:g} s",
            "detail": where.getvalue() + "".join(_model_story(model)),
            "seconds": round(time.monotonic() - started, 3),
        }
        _finish(root, sdk, late)
        witness.kill([p.pid for p in sdk.processes] + witness.descendants(os.getpid()))
        os._exit(1)
    verdict: dict[str, Any] = {"status": "pass", "reason": ""}
    try:
        body.result()
        _afterwards(trial, adopted)
    except Skipped as reason:
        verdict = {"status": "skip", "reason": str(reason)}
    except Failed as reason:
        verdict = {"status": "fail", "reason": str(reason), "detail": traceback.format_exc()}
    except BaseException as error:  # The scenario broke: that is a failure with a name.
        verdict = {"status": "fail", "reason": f"{type(error).__name__}: {error}", "detail": traceback.format_exc()}
    if verdict["status"] != "skip" and model.violations:
        said = f" ({verdict['reason']})" if verdict["reason"] else ""
        verdict |= {"status": "fail", "reason": f"at the model: {'; '.join(model.violations)}{said}"}
    if verdict["status"] == "fail":
        verdict["detail"] = verdict.get("detail", "") + "".join(_model_story(model))
    witness.kill([p.pid for p in sdk.processes if p.poll() is None] + witness.descendants(os.getpid()))
    model.close()
    return verdict


def _afterwards(trial: Trial, adopted: bool) -> None:
    """What must hold after every scenario."""
    if trial.model.left:
        raise Failed(f"{trial.model.left} scripted answers were never asked for")
    running = [p.pid for p in trial.sdk.processes if p.poll() is None]
    if witness.gone(running, EXIT_LIMIT):
        raise Failed(f"the harness still runs {EXIT_LIMIT:g} s after the SDK let go of it")
    codes = [p.wait() for p in trial.sdk.processes]
    if trial.exit_codes is not None and (wrong := [c for c in codes if c not in trial.exit_codes]):
        raise Failed(f"exit codes of the harness: {wrong}")
    if adopted:
        left = witness.gone(witness.descendants(os.getpid()), EXIT_LIMIT)
        if left:
            raise Failed(f"still running after the harness: {[witness.command_line(p) for p in left]}")
    _check_frames(trial)


_ENDED = ("STATE_DONE", "STATE_ERROR", 2, 4)


def _check_frames(trial: Trial) -> None:
    """What holds for the frames of every conversation, whatever it is about.

    Sequence numbers have no gap and time does not go back. Step indexes have no gap. A step
    that has ended stays so. The text of a model step is the sum of its deltas.
    """
    last: dict[int, tuple[int, int]] = {}
    texts: dict[tuple[int, str, int], str] = {}
    ended: set[tuple[int, str, int]] = set()
    indexes: dict[tuple[int, str], set[int]] = {}
    for entry in trial.sdk.frames:
        if entry["from"] != "harness":
            continue
        connection = entry["connection"]
        frame = json.loads(entry["frame"])
        number, at = int(frame.get("seqNum", 0)), int(frame.get("timestampMicros", 0))
        before = last.get(connection, (0, 0))
        if number != before[0] + 1:
            raise Failed(f"seqNum {number} after {before[0]}")
        if at < before[1]:
            raise Failed(f"timestampMicros {at} after {before[1]}")
        last[connection] = (number, at)
        started = frame.get("initializeConversationResponse", {})
        for step in [*started.get("history", []), *([frame["stepUpdate"]] if "stepUpdate" in frame else [])]:
            trajectory, index, state = step.get("trajectoryId", ""), step.get("stepIndex", 0), step.get("state")
            key = (connection, trajectory, index)
            indexes.setdefault((connection, trajectory), set()).add(index)
            if key in ended and state not in _ENDED:
                raise Failed(f"step {index} had ended and is {state} again")
            if state in _ENDED:
                ended.add(key)
        step = frame.get("stepUpdate", {})
        if (
            step.get("source") in ("SOURCE_MODEL", 3)
            and step.get("target") in ("TARGET_USER", 1)
            and step.get("state") in ("STATE_ACTIVE", "STATE_DONE", 1, 2)
            and "finish" not in step
        ):
            key = (connection, step.get("trajectoryId", ""), step.get("stepIndex", 0))
            texts[key] = texts.get(key, "") + step.get("textDelta", "")
            if step.get("text", "") != texts[key]:
                shown = f"{step.get('text', '')[:80]!r} is not the sum of its deltas {texts[key][:80]!r}"
                raise Failed(f"step {key[2]}: text {shown}")
    for (_, trajectory), seen in indexes.items():
        if seen != set(range(len(seen))):
            raise Failed(f"step indexes of {trajectory} have gaps: {sorted(seen)}")


def _model_story(model: fake_model.FakeModel) -> list[str]:
    lines = ["\nrequests at the model:\n"]
    for request in model.requests[:30]:
        lines.append(f"  {request.number}: {request.dialogue[-6:]!r}"[:600] + "\n")
    return lines
