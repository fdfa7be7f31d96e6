"""The ``regrow`` program's first lines, before anything is imported that takes time. Imports nothing of regrow's.

1. A service's SIGTERM is held until its handlers stand (``SignalInbox`` lets go of it). Importing everything takes a
   third of a second, more on a busy machine: a SIGTERM in that time would be a death by signal, or, were this process 1
   of a container, be dropped by the kernel, and SIGKILL would come later.
2. A service that a shell runs as one of several steps (``sh -c "cd /srv && regrow worker app:tree"``) is told to end
   when that shell ends: launchers signal the shell, which does not pass it on.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

__all__ = ["HELD", "SERVICES", "command_of", "is_wrapper", "main"]

HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, getattr(signal, "SIGPWR", signal.SIGHUP))
SERVICES = frozenset({"up", "watchdog", "worker", "effects", "metrics"})

_WITH_VALUE = frozenset({"-n", "--namespace", "--redis-url"})
_TYPED_AT = frozenset({"--rcfile", "--init-file"})
_SHELL = re.compile(r"-?(ba|da|a|k|z|busybox )?sh")


def main() -> None:
    """The program."""
    if command_of(sys.argv[1:]) in SERVICES:
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        _tie_to_wrapper()
    # By name: the lowest rooms know nothing of the face above them, but somebody has to be first.
    importlib.import_module("regrow.cli").main()


def command_of(words: Sequence[str]) -> str:
    """The command on a command line; '' where there is none."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def is_wrapper(words: Sequence[str]) -> bool:
    """Is this the command line of a shell that runs a script or a ``-c`` text, not of one that somebody types at?"""
    if not words or not _SHELL.fullmatch(words[0].rpartition("/")[2]):
        return False
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    if any(option in _TYPED_AT or re.fullmatch("-[a-z]*i[a-z]*", option) for option in options):
        return False
    return len(words) > 1 + len(options)


def _tie_to_wrapper() -> None:
    """A signal when the shell that runs us ends. Not for a background job (``&`` in a script): that is to live on."""
    parent = os.getppid()
    if sys.platform != "linux" or parent <= 1 or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    try:
        words = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return
    if is_wrapper(words):
        from regrow_workers.os_signals import (  # ctypes: only where it is needed
            WRAPPER_ENDED,
            die_with_parent,
        )

        die_with_parent(parent, WRAPPER_ENDED)
