"""Processes that a handler or an effect left behind: they end with the worker that started them, or soon after.

A worker leads a session and a process group of its own, so all that it started, and that did not ask for another group,
can be ended in one step that no fork escapes. What did ask for one becomes a child of the spawner (a *child subreaper*)
when the process above it ends: a stranger among the workers, ended when it is seen. Linux only; elsewhere only the
group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections import Counter
from collections.abc import Collection

__all__ = [
    "adopt_orphans",
    "children_of",
    "descendants",
    "end_group",
    "end_sessions",
    "end_strangers",
    "has_children",
    "own_children",
]

_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """From now on whatever descends from this process and loses its parent becomes a child of this process."""
    if _LIBC is not None and _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(code)}")


def end_group(leader: int) -> None:
    """SIGKILL to a worker's process group. ``leader`` is a child that is not reaped: its group cannot be another's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_strangers(known: Collection[int]) -> Counter[int]:
    """Kill and reap children of this process but ``known`` ones and those in their sessions; for a spawner.

    Answers how many were reaped, by their session. What was killed just now is reaped in a later call: SIGCHLD says
    when, and what lost its parent by that is met then.
    """
    met: Counter[int] = Counter()
    for pid in own_children():
        if pid in known:
            continue
        try:
            session = os.getsid(pid)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None:
                met[session] += 1
            elif session not in known:
                os.kill(pid, signal.SIGKILL)  # ours, and not reaped: the pid is still its own
        except (ProcessLookupError, ChildProcessError):
            continue
    return met


def end_sessions(sessions: Collection[int]) -> None:
    """Kill children of this process that are in these sessions, with their groups; for a node whose spawner died.

    All others are left alone: a node may have been started by a script with helpers of its own.
    """
    for pid in own_children():
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            ours = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            if ours and os.getsid(pid) in sessions:
                os.kill(pid, signal.SIGKILL)


def has_children() -> bool:
    """Whether this process has started any that is not reaped: one call of the kernel, whatever their number."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def own_children() -> list[int]:
    """Pids of all children of this process; none where the kernel does not tell."""
    return children_of("self")


def descendants(pid: int, most: int) -> list[int]:
    """Processes below ``pid``, the nearest first; no more are looked for once there are ``most``."""
    found = children_of(pid)
    for each in found:  # grows while it is gone through
        if len(found) >= most:
            break
        found += children_of(each)
    return found[:most]


def children_of(who: int | str) -> list[int]:
    """Pids of the children of a process, of all its threads; none where it has ended, or the kernel does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended, or there is no /proc
        for task in os.listdir(f"/proc/{who}/task"):  # noqa: PTH208  for every end of a worker
            with open(f"/proc/{who}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found += [int(child) for child in file.read().split()]
    return found
