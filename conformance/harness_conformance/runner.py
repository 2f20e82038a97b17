"""The command line: runs scenarios in processes of their own and reports."""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from typing import Any

from . import witness

HERE = pathlib.Path(__file__).resolve().parent.parent
# After so many scenarios that had to be ended, the others are not tried any more.
HANGS = 5
# How the reason of such a scenario begins: it was ended from outside, or gave up by itself.
HUNG = ("had to be ended after", "not done after")
# The variable that marks every process of a scenario with the scenario's folder.
MARK = "HARNESS_CONFORMANCE_ROOT"


@dataclasses.dataclass
class Listed:
    """A scenario as the child interpreter lists it (this process may lack the SDK)."""

    name: str
    proves: str
    limit: float
    peer_fault: str | None
    peer_shows: str
    peer_sometimes: bool


@dataclasses.dataclass
class Result:
    """The outcome of one scenario."""

    name: str
    # "pass", "fail" or "skip".
    status: str
    seconds: float
    reason: str = ""
    detail: str = ""
    note: str = ""


def main() -> int:
    arguments = _parser().parse_args()
    versions = tomllib.loads((HERE / "versions.toml").read_text())["version"]
    sdk = arguments.sdk or versions[-1]["sdk"]
    if sdk not in [v["sdk"] for v in versions]:
        print(f"SDK {sdk} is not in conformance/versions.toml", file=sys.stderr)
        return 2
    python = _interpreter(arguments, sdk)
    if python is None:
        print(
            f"no Python with google-antigravity {sdk} at hand: give --python, or let --setup create one in "
            f"{_environment(arguments, sdk)}",
            file=sys.stderr,
        )
        return 2
    scenarios = _listed(python)
    if arguments.only:
        unknown = [o for o in arguments.only if not any(_selected(s.name, [o]) for s in scenarios)]
        if unknown:
            print(f"no scenario is named {', '.join(unknown)}", file=sys.stderr)
            return 2
        scenarios = [s for s in scenarios if _selected(s.name, arguments.only)]
    if arguments.list:
        for item in scenarios:
            fault = f" [peer: {item.peer_fault}]" if item.peer_fault else ""
            print(f"{item.name}: {item.proves}{fault}")
        return 0
    if arguments.harness is None:
        print("--harness is required", file=sys.stderr)
        return 2
    harness = arguments.harness.resolve()
    if not os.access(harness, os.X_OK):
        print(f"{harness} is not an executable file", file=sys.stderr)
        return 2
    results = _run_all(scenarios, python, harness, arguments)
    return _report(results, sdk, harness, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="conformance/run.py", description="Drives a localharness binary with the real Python SDK."
    )
    parser.add_argument("--harness", type=pathlib.Path, help="the binary to drive")
    parser.add_argument("--sdk", help="version of google-antigravity (default: the newest in versions.toml)")
    parser.add_argument("--python", type=pathlib.Path, help="an interpreter that has that SDK")
    parser.add_argument(
        "--environments",
        type=pathlib.Path,
        default=HERE.parent / "target" / "conformance",
        help="folder of virtual environments, one a version (default: target/conformance)",
    )
    parser.add_argument("--setup", action="store_true", help="create the virtual environment if it is missing")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these scenarios; * matches any characters")
    parser.add_argument("--jobs", type=int, default=2, help="scenarios at a time (default 2)")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the results to this file")
    parser.add_argument(
        "--frames",
        type=pathlib.Path,
        metavar="DIR",
        help="keep logs, stderr and WebSocket frames of failed scenarios below this folder",
    )
    parser.add_argument("--root", type=pathlib.Path, help="folder for the scenarios' files (default: /var/tmp)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and what they prove")
    parser.add_argument(
        "--expect-peer",
        action="store_true",
        help="the binary is the closed one: scenarios that name a fault of it must fail",
    )
    return parser


def _selected(name: str, patterns: list[str]) -> bool:
    return any(re.fullmatch(re.escape(p).replace(r"\*", ".*"), name) for p in patterns)


def _environment(arguments: argparse.Namespace, sdk: str) -> pathlib.Path:
    return arguments.environments / f"sdk-{sdk}"


def _interpreter(arguments: argparse.Namespace, sdk: str) -> pathlib.Path | None:
    """The first interpreter that has exactly this SDK."""
    ours = _environment(arguments, sdk) / "bin" / "python"
    for candidate in [arguments.python] if arguments.python else [pathlib.Path(sys.executable), ours]:
        if _version_of(candidate) == sdk:
            return candidate
    if not arguments.setup or arguments.python:
        return None
    subprocess.run([sys.executable, "-m", "venv", ours.parent.parent], check=True)
    subprocess.run([ours, "-m", "pip", "install", "--quiet", f"google-antigravity=={sdk}"], check=True)
    return ours if _version_of(ours) == sdk else None


def _version_of(python: pathlib.Path) -> str | None:
    if not python.exists():
        return None
    asked = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('google-antigravity'))"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else None


def _listed(python: pathlib.Path) -> list[Listed]:
    code = (
        "import dataclasses, json\n"
        "from harness_conformance import scenarios\n"
        "from harness_conformance.scenario import REGISTRY\n"
        "print(json.dumps([[s.name, s.proves, s.limit, s.peer_fault, s.peer_shows, s.peer_sometimes]"
        " for s in REGISTRY.values()]))\n"
    )
    asked = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(HERE)}
    )
    if asked.returncode != 0:
        raise SystemExit(f"the scenarios cannot be loaded:\n{asked.stderr}")
    return [Listed(*row) for row in json.loads(asked.stdout)]


def _run_all(
    scenarios: list[Listed], python: pathlib.Path, harness: pathlib.Path, arguments: argparse.Namespace
) -> list[Result]:
    lock = threading.Lock()
    hung: list[str] = []

    nurseries: queue.SimpleQueue[_Nursery] = queue.SimpleQueue()
    jobs = max(1, min(arguments.jobs, len(scenarios)))
    started = [_Nursery(python) for _ in range(jobs)]
    for nursery in started:
        nurseries.put(nursery)

    def run_and_say(item: Listed) -> Result:
        nursery = nurseries.get()
        try:
            if len(hung) >= HANGS:
                return Result(item.name, "fail", 0, f"not run: {HANGS} scenarios have hung already")
            result = _run(item, nursery, harness, top, arguments.frames)
        finally:
            nurseries.put(nursery)
        if result.reason.startswith(HUNG):
            hung.append(item.name)
        result = _judge(item, result, arguments.expect_peer)
        with lock:
            _say(result)
        return result

    # Not below the system's temporary folder: harnesses count that as part of the workspace.
    parent = arguments.root or next((p for p in (pathlib.Path("/var/tmp"),) if os.access(p, os.W_OK)), None)
    top = pathlib.Path(tempfile.mkdtemp(prefix="harness-conformance-", dir=parent)).resolve()
    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(run_and_say, scenarios))
    finally:
        for nursery in started:
            nursery.close()
        witness.kill(witness.marked(MARK, top))
        shutil.rmtree(top, ignore_errors=True)


class _Nursery:
    """A process that forks scenarios; see the module `nursery`."""

    def __init__(self, python: pathlib.Path) -> None:
        self._process = subprocess.Popen(
            [python, "-m", "harness_conformance.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def run(self, item: Listed, root: pathlib.Path, environment: dict[str, str]) -> bool:
        """Runs a scenario to its end; whether that had to be forced."""
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"name": item.name, "root": str(root), "limit": item.limit, "environment": environment}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["late"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _run(
    item: Listed, nursery: _Nursery, harness: pathlib.Path, top: pathlib.Path, frames: pathlib.Path | None
) -> Result:
    root = top / item.name
    for folder in ("home", "tmp", "workspace", "outside"):
        (root / folder).mkdir(parents=True)
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "ANTIGRAVITY_HARNESS_PATH": str(harness),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
        MARK: str(root),
    }
    started = time.monotonic()
    late = nursery.run(item, root, environment)
    witness.kill(witness.marked(MARK, root))
    seconds = time.monotonic() - started
    result = _read(item, root, seconds, late)
    if result.status == "fail" and frames is not None:
        kept = frames / item.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for name in ("sdk.log", "frames.jsonl", "child.log", "result.json"):
            if (root / name).exists():
                shutil.copy(root / name, kept / name)
        (kept / "stderr.log").write_text(_stderr_of(root / "sdk.log"))
    shutil.rmtree(root, ignore_errors=True)
    return result


def _read(item: Listed, root: pathlib.Path, seconds: float, late: bool) -> Result:
    try:
        verdict: dict[str, Any] = json.loads((root / "result.json").read_text())
    except (OSError, ValueError):
        reason = f"{HUNG[0]} {item.limit:g} s" if late else "the scenario's process broke"
        return Result(item.name, "fail", seconds, reason, (root / "child.log").read_text(errors="replace"))
    if late and verdict["status"] == "pass":
        return Result(item.name, "fail", seconds, f"passed, but its process did not end within {item.limit:g} s")
    return Result(item.name, verdict["status"], seconds, verdict["reason"], verdict.get("detail", ""))


def _stderr_of(log: pathlib.Path) -> str:
    """The harness's stderr, which the SDK logs line by line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(line.partition("harness stderr: ")[2] + "\n" for line in lines if "harness stderr: " in line)


def _judge(item: Listed, result: Result, expect_peer: bool) -> Result:
    """Turns a result on the closed binary around where the scenario names a fault of it."""
    if not expect_peer or item.peer_fault is None or result.status == "skip":
        return result
    if result.status == "pass":
        if item.peer_sometimes:
            return dataclasses.replace(result, note="the fault did not show this time")
        return dataclasses.replace(result, status="fail", reason=f"the peer no longer shows: {item.peer_fault}")
    if not re.search(item.peer_shows, result.reason, re.DOTALL):
        return dataclasses.replace(result, reason=f"fails, but not by the fault {item.peer_fault!r}: {result.reason}")
    return dataclasses.replace(
        result, status="pass", note=f"fails as documented: {item.peer_fault}", reason=result.reason
    )


def _say(result: Result) -> None:
    note = f"  ({result.note})" if result.note else ""
    print(f"{result.status.upper():4} {result.name} {result.seconds:.1f} s{note}", flush=True)
    if result.status == "fail":
        print("     " + result.reason.replace("\n", "\n     "), flush=True)
        for line in result.detail.strip().splitlines()[-25:]:
            print("       " + line, flush=True)
    elif result.status == "skip":
        print("     " + result.reason, flush=True)


def _report(results: list[Result], sdk: str, harness: pathlib.Path, arguments: argparse.Namespace) -> int:
    count = {s: sum(r.status == s for r in results) for s in ("pass", "fail", "skip")}
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps(
                {
                    "sdk": sdk,
                    "harness": str(harness),
                    "expect_peer": arguments.expect_peer,
                    "passed": count["pass"],
                    "failed": count["fail"],
                    "skipped": count["skip"],
                    "scenarios": [dataclasses.asdict(r) for r in results],
                },
                indent=2,
            )
            + "\n"
        )
    skipped = f", {count['skip']} skipped" if count["skip"] else ""
    print(f"conformance: {count['pass']} passed, {count['fail']} failed{skipped}", flush=True)
    return 1 if count["fail"] else 0
