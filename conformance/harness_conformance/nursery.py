"""Forks one process a scenario from a process that has already imported the SDK.

`python -m harness_conformance.nursery` reads one JSON line a scenario, `{"name", "root",
"limit", "environment"}`, runs it in a process of its own, and answers `{"late": bool}`.
Importing the SDK costs over a second; the scenarios share that, and nothing else: this
process never runs a scenario, starts no thread and has no event loop.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time

from . import child, sdk


def main() -> int:
    sdk.preload()
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(order)
        print(json.dumps({"late": not _ends(pid, order["limit"])}), flush=True)
    return 0


def _run(order: dict) -> None:
    """In the new process: takes the scenario's own place in the world, and never returns."""
    code = 1
    try:
        os.setsid()
        root = pathlib.Path(order["root"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(root / "child.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(root / "workspace")
        tempfile.tempdir = None  # Asked for again, with the new TMPDIR.
        code = child.run(order["name"], root)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ends(pid: int, limit: float) -> bool:
    """Waits for the process and reaps it; kills its group and gives False after `limit` seconds."""
    if hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(pid)
        try:
            in_time = bool(select.select([handle], [], [], limit)[0])
        finally:
            os.close(handle)
    else:
        end = time.monotonic() + limit
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < end:
            time.sleep(0.05)
        in_time = time.monotonic() < end
    if not in_time:
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return in_time


if __name__ == "__main__":
    sys.exit(main())
