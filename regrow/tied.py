"""Runs a program that ends with its parent: ``python -I -S tied.py PARENT_PID SIGNAL PROGRAM ARGS...``.

A script, not a module: it starts in some 20 ms, imports nothing of regrow, and becomes PROGRAM by exec, so the pid
stays. Safer than ``preexec_fn``, which runs between fork and exec of a process that may have threads. Linux asks the
kernel (PR_SET_PDEATHSIG, which survives exec); elsewhere this process stays in front of PROGRAM and watches its parent.
"""

from __future__ import annotations

import os
import sys

PR_SET_PDEATHSIG = 1
WATCH_SECONDS = 0.2


def main() -> None:
    parent, number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform != "linux":
        sys.exit(watch(parent, number, command))
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before the kernel was asked, and would never be reported
        sys.exit(f"parent {parent} is gone already")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def watch(parent: int, number: int, command: list[str]) -> int:
    """Without PDEATHSIG: pass signals on, and end PROGRAM when the parent is another one than at the start."""
    import signal
    import subprocess

    child = subprocess.Popen(command)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda got, _frame: child.send_signal(got))
    while True:
        try:
            code = child.wait(WATCH_SECONDS)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                child.send_signal(number)


if __name__ == "__main__":
    main()
