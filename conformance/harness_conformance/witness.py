"""Looks at the machine instead of believing what a process says about itself. Linux only."""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Makes orphaned descendants of this process its children, so that none gets out of sight."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def command_line(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def descendants(root: int) -> list[int]:
    """Running descendants of a process, itself not counted."""
    children: dict[int, list[int]] = {}
    for entry in _processes():
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(entry)
    found: list[int] = []
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), []):
            found.append(pid)
            todo.append(pid)
    return [p for p in found if alive(p)]


def gone(pids: list[int], limit: float) -> list[int]:
    """Waits until none of the processes runs; gives those that still do after `limit` seconds."""
    end = time.monotonic() + limit
    while (left := [p for p in pids if alive(p)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def marked(variable: str, folder: pathlib.Path) -> list[int]:
    """Processes whose environment names this folder, or one below it, in `variable`."""
    exactly = f"{variable}={folder}".encode()
    below = exactly + b"/"
    found = []
    for pid in _processes():
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(entry == exactly or entry.startswith(below) for entry in environment):
            found.append(pid)
    return [p for p in found if p != os.getpid()]


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def files_below(folder: pathlib.Path) -> list[str]:
    """Every file and folder below it, relative, sorted."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def _processes() -> list[int]:
    try:
        return [int(e) for e in os.listdir("/proc") if e.isdigit()]
    except OSError:
        return []
