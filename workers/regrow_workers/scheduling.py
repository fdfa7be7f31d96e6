"""The priority of other processes and of this one, as the kernel's scheduler has it; every thread, for it counts these.

Two numbers matter. ``nice`` rules among the processes of a container or control group. Where the kernel groups
processes by session (*autogroup*: a plain host, without control groups for the processor), it rules inside the session
only, and each worker leads one: there the session's own number counts.

Anybody may lower what is his. To raise it again takes root, CAP_SYS_NICE or RLIMIT_NICE.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from regrow_workers.process_tree import children_of

__all__ = ["cpu_times", "is_lowered", "lower_family", "raise_family", "raise_own"]


def lower_family(pid: int, nice: int, most: int) -> list[int]:
    """Lower a child process of ours and what it has started; their pids. Empty: this system does not allow it.

    From the top down, a process before its children are asked for: what it forks afterwards inherits the priority.
    ``most`` processes, then nobody further is looked for.
    """
    family = [pid]
    for each in family:  # grows while it is gone through
        if not _lower(each, nice) and each == pid:
            return []
        if len(family) <= most:
            family += children_of(each)
    return family


def raise_family(family: Iterable[int], nice: int) -> None:
    """Where it is allowed: processes that are to end, so that they do not take long over it."""
    with contextlib.suppress(OSError):
        for pid in family:
            _set_nice(pid, lambda own: own > nice, nice)


def raise_own(nice: int) -> bool:
    """Put all threads of this process, and its session, back; False: some of it was not allowed."""
    try:
        _set_nice(os.getpid(), lambda own: own > nice, nice)
        if (_group_nice("self") or 0) > 0:
            _set_group_nice("self", 0)
    except OSError:
        return False
    return True


def is_lowered(pid: int, than: int) -> bool:
    """Whether its priority is below that of ``than`` still; False where it has ended."""
    try:
        return os.getpriority(os.PRIO_PROCESS, pid) > than
    except ProcessLookupError:
        return False


def cpu_times(pid: int) -> tuple[float, float] | None:
    """Seconds that its main thread ran, and seconds that it waited for a processor; None where nobody tells."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return None
    return int(ran) / 1e9, int(waited) / 1e9


def _lower(pid: int, nice: int) -> bool:
    try:
        _set_nice(pid, lambda own: own < nice, nice)
    except PermissionError:  # set-user-id, or a sandbox
        return False
    # Without root the kernel takes one such write in a tenth of a second: the next look tries again.
    with contextlib.suppress(OSError):
        if (_group_nice(str(pid)) or 0) < nice:
            _set_group_nice(str(pid), nice)
    return True


def _set_nice(pid: int, is_wrong: Callable[[int], bool], nice: int) -> None:
    """Of all its threads. Raises PermissionError; whoever has ended does not mind."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:  # it has ended, or there is no /proc
        threads = [str(pid)]
    for thread in threads:
        with contextlib.suppress(ProcessLookupError):
            if is_wrong(os.getpriority(os.PRIO_PROCESS, int(thread))):
                os.setpriority(os.PRIO_PROCESS, int(thread), nice)


def _group_nice(who: str) -> int | None:
    """Of the session's group; None where there are no such groups."""
    try:
        with open(f"/proc/{who}/autogroup", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b" ")[2])
    except (OSError, ValueError):
        return None


def _set_group_nice(who: str, nice: int) -> None:
    with open(f"/proc/{who}/autogroup", "wb", buffering=0) as file:  # noqa: PTH123
        file.write(b"%d" % nice)
