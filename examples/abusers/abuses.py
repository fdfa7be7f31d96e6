"""Every way a handler can misbehave, as a function, with what regrow is to make of it.

None of these is refused by a guard: the agents run with ``guard="off"``. A deed that returns lets its signal be
applied; most do not come so far.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, Unpack

from regrow_workers.agent_limits import LimitWords

__all__ = ["ABUSES", "MEMORY", "Abuse"]

MIB = 1 << 20
MEMORY = 96 * MIB
"""What an abuser may hold."""

_kept: list[object] = []


def endless_loop() -> NoReturn:
    while True:
        pass


def sleep() -> None:
    time.sleep(3600)


def swallow_everything() -> NoReturn:
    """No exception gets out of it, and no polite request in."""
    while True:
        try:
            while True:
                pass
        except BaseException:  # noqa: BLE001, S112
            continue


def native_spin() -> None:
    """One call of native code that keeps the interpreter's lock: nothing else in the process runs."""
    print(pow(7, 10**9, 10**900 + 7) and 3 ** (10**9))


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def memory_bomb() -> NoReturn:
    while True:
        _kept.append(bytearray(b"x") * (4 * MIB))


def memory_jump() -> None:
    """Four gigabytes at once."""
    _kept.append(bytearray(4096 * MIB))


def memory_shared() -> NoReturn:
    """Memory that could be shared, and is not: the kernel counts it elsewhere."""
    while True:
        block = mmap.mmap(-1, 4 * MIB)
        block.write(b"x" * (4 * MIB))
        _kept.append(block)


def memory_of_children() -> None:
    """Each of four processes holds a part of it."""
    for _ in range(4):
        if os.fork() == 0:
            block = bytearray(b"x") * (40 * MIB)
            time.sleep(3600)
            del block
    time.sleep(3600)


def slow_leak() -> None:
    """A little with each signal, and not at once; sent many times."""
    time.sleep(0.02)
    _kept.append(bytearray(b"x") * (6 * MIB))


def segfault() -> None:
    ctypes.string_at(0)


def abort() -> NoReturn:
    os.abort()


def fork_bomb() -> None:
    """Twenty processes that spin, each in a group of its own."""
    for _ in range(20):
        if os.fork() == 0:
            os.setpgid(0, 0)
            endless_loop()
    time.sleep(3600)


def daemons() -> NoReturn:
    """Processes that have cut every tie: sessions of their own, parents that are gone. Then the worker dies."""
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
    os._exit(5)


def descriptor_leak() -> NoReturn:
    while True:
        _kept.append(os.open(os.devnull, os.O_RDONLY))


def os_exit() -> NoReturn:
    os._exit(3)


def sys_exit() -> NoReturn:
    sys.exit(4)


def recursion() -> NoReturn:
    recursion()


def huge_state() -> str:
    """What a deed returns goes into the state: too much."""
    return "x" * (2 * MIB)


def bad_repr() -> NoReturn:
    """What it raises can be neither shown nor compared."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        __repr__ = __str__

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

        __hash__ = Exception.__hash__

    raise Unspeakable from Unspeakable()


def prints() -> None:
    """A gigabyte, a megabyte at a time."""
    megabyte = "x" * MIB
    for _ in range(1024):
        print(megabyte)


def closes_descriptors() -> None:
    os.closerange(0, 11)


def signal_handlers() -> None:
    """Its own for SIGTERM and SIGALRM, the others ignored; and an alarm, for ever again."""

    def shrug(number: int, frame: object) -> None:
        del number, frame

    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, shrug)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)


def threads() -> None:
    """Not daemons: an interpreter that ends would wait for them."""
    for _ in range(5):
        threading.Thread(target=_never_ends).start()


def kills_its_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _never_ends() -> None:
    while True:
        time.sleep(0.1)


@dataclass(frozen=True)
class Abuse:
    """One deed, and what is to come of it."""

    deed: Callable[[], str | None]
    reason: str = ""
    """With which each life ends that it ends; empty: it ends none."""
    lives: tuple[int, ...] = (0,)
    """How many it may end."""
    letter: str = ""
    """Reason of its signal's dead letter; empty: its signal is applied."""
    error: str = ""
    """What the agent's ``last_error`` says of it."""
    times: int = 1
    """How often it is told to do it."""
    limits: LimitWords = field(default_factory=LimitWords)

    @property
    def name(self) -> str:
        return self.deed.__name__.replace("_", "-")


def _dies(deed: Callable[[], str | None], reason: str, **limits: Unpack[LimitWords]) -> Abuse:
    """Its process dies of it, twice; then the signal is a dead letter."""
    return Abuse(deed, reason, (2,), "max_attempts", f"the last time: {reason}", limits=limits)


def _raises(deed: Callable[[], str | None], error: str) -> Abuse:
    """An exception: one life, and the signal is a dead letter at once."""
    return Abuse(deed, f"exception:{error}", (1,), "exception", error)


LOST = "exception:DescriptorsLost: a handler closed descriptors that are the worker's own"

ABUSES = (
    _dies(endless_loop, "deadline", deadline=1),
    _dies(sleep, "deadline", deadline=1),
    _dies(swallow_everything, "deadline", deadline=1),
    _dies(native_spin, "deadline", deadline=1),
    _dies(stopped, "deadline", deadline=1),
    _dies(memory_bomb, "memory"),
    _dies(memory_jump, "memory"),
    _dies(memory_shared, "memory"),
    _dies(memory_of_children, "memory"),
    Abuse(slow_leak, "memory", (1, 2, 3), error="max_memory is", times=40),
    _dies(segfault, "signal:SIGSEGV"),
    _dies(abort, "signal:SIGABRT"),
    _dies(fork_bomb, "processes"),
    _dies(daemons, "exit:5"),
    _raises(descriptor_leak, "OSError: [Errno 24] Too many open files: '/dev/null'"),
    # Where it was one of a batch the first life is charged to nobody, and the next one takes signals one by one.
    Abuse(closes_descriptors, LOST, (2, 3), "max_attempts", f"the last time: {LOST}"),
    _dies(os_exit, "exit:3"),
    _dies(sys_exit, "exit:4"),
    _raises(recursion, "RecursionError: maximum recursion depth exceeded"),
    _raises(bad_repr, "bad_repr.<locals>.Unspeakable: (its text cannot be made)"),
    Abuse(huge_state, letter="state_too_large"),
    Abuse(prints),
    Abuse(signal_handlers),
    Abuse(threads),
    Abuse(kills_its_group, "signal:SIGKILL", (2,), "max_kills", "the last time: signal:SIGKILL"),
)
