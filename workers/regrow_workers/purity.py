"""The guard of purity: while a handler runs, what would make a replay come out otherwise is refused, or told.

Two nets, both on the handler's own thread only:

1. An audit hook sees what the interpreter tells of: connecting, opening for writing, processes, environment, files
   removed. It is there for every transition.
2. A profile function sees calls of built-in functions, also those imported by name: clocks, sleeping, chance, threads.
   It makes a handler slower, so in ``warn`` it is there for every hundredth transition.

Imports, reading files and ``logging`` are allowed. Neither sees what native code does by itself, nor a use of a socket
that was open before, nor a thread's own work.
"""

from __future__ import annotations

import _random
import _thread
import datetime
import gc
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Literal, cast

from regrow_signals.errors import ImpureHandler
from regrow_workers import log

__all__ = ["GuardMode", "guard", "guarded"]

GuardMode = Literal["enforce", "warn", "off"]

_LOG = logging.getLogger(__name__)

_EFFECT: Final = "do it in an effect: return some_effect.run(...)"
_NOW: Final = "use ctx.now"
_CHANCE: Final = "use ctx.random"
_THREAD: Final = "a handler computes and returns; for work that takes long return some_effect.run(...)"
_SLEEP: Final = "a handler must not wait; let another signal come later"
_ENVIRONMENT: Final = "what an agent remembers belongs into its State"

_HANDLER: Final = "a handler"

_EVENTS: Final = {
    "socket.connect": ("connecting to {1}", _EFFECT),
    "socket.bind": ("socket.bind", _EFFECT),
    "socket.sendto": ("sending to {1}", _EFFECT),
    "socket.sendmsg": ("sending to {1}", _EFFECT),
    "socket.getaddrinfo": ("looking up host {0}", _EFFECT),
    "socket.gethostbyname": ("looking up host {0}", _EFFECT),
    "subprocess.Popen": ("starting the program {0}", _EFFECT),
    "os.system": ("os.system({0!r})", _EFFECT),
    "os.exec": ("os.exec of {0}", _EFFECT),
    "os.posix_spawn": ("starting the program {0}", _EFFECT),
    "os.fork": ("os.fork()", _EFFECT),
    "os.forkpty": ("os.forkpty()", _EFFECT),
    "os.putenv": ("setting the environment variable {0}", _ENVIRONMENT),
    "os.unsetenv": ("removing the environment variable {0}", _ENVIRONMENT),
    "os.remove": ("removing {0}", _EFFECT),
    "os.rename": ("renaming {0}", _EFFECT),
    "os.mkdir": ("making the folder {0}", _EFFECT),
    "os.rmdir": ("removing the folder {0}", _EFFECT),
    "os.chmod": ("changing the mode of {0}", _EFFECT),
    "os.truncate": ("truncating {0}", _EFFECT),
    "sqlite3.connect": ("opening the database {0}", _EFFECT),
    "builtins.input": ("input()", "let the answer come as a signal"),
}

_CALLS: Final[dict[object, str]] = {
    time.sleep: _SLEEP,
    time.time: _NOW,
    time.time_ns: _NOW,
    time.monotonic: _NOW,
    time.monotonic_ns: _NOW,
    time.perf_counter: _NOW,
    time.perf_counter_ns: _NOW,
    os.urandom: "use ctx.random or ctx.uuid()",
    _thread.start_new_thread: _THREAD,
}
_NAMES: Final = frozenset({
    "sleep", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "urandom",
    "start_new_thread", "now", "utcnow", "today", "random", "getrandbits", "start_joinable_thread",
})  # fmt: skip
"""Names of built-in functions that are looked at more closely; the most calls end here."""

_SHARED: Final = cast("_random.Random", getattr(random, "_inst"))  # noqa: B009  what random.random() and so on use
_JOINABLE: Final = getattr(_thread, "start_joinable_thread", None)
_THROUGH: Final = frozenset({"random", "uuid", "secrets", "threading", "tempfile", "asyncio", "concurrent"})
"""Modules whose functions the author called when one of the built-in ones is reached through them."""

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SAMPLE: Final = 100


class _Guard:
    """The process's guard. ``thread`` is where a handler runs now; 0: none does."""

    def __init__(self) -> None:
        self.mode: GuardMode = "off"
        self.thread = 0
        self._hooked = False
        self._shown = ""
        self._place = _HANDLER
        self._advice = ""
        self._enforced = False
        self._refused: ImpureHandler | None = None
        self._told: set[tuple[str, str]] = set()
        self._count = 0

    def set_mode(self, mode: GuardMode) -> None:
        """For all transitions of this process from now on."""
        self.mode = mode
        if mode != "off":
            self.hook()

    def hook(self) -> None:
        """An audit hook stays for the life of the process; outside of handlers it costs a comparison."""
        if not self._hooked:
            self._hooked = True
            sys.addaudithook(self._on_event)

    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[object, ...],
        shown: str,
        mode: GuardMode,
        *,
        place: str = _HANDLER,
        advice: str = "",
    ) -> Any:
        """Call a handler. Raises ``ImpureHandler`` in ``enforce``, also where the handler swallowed it."""
        if not self._hooked:
            self.hook()
        self._shown, self._refused, self._place, self._advice = shown, None, place, advice
        self._enforced = enforced = mode == "enforce"
        self._count = count = self._count + 1
        closely = (enforced or count % _SAMPLE == 1) and sys.getprofile() is None
        self.thread = _thread.get_ident()
        if closely:
            sys.setprofile(self._on_call)
        try:
            returned = function(*arguments)
        finally:
            if closely:
                sys.setprofile(None)
            self.thread = 0
        if self._refused is not None:
            raise self._refused
        return returned

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.thread or self.thread != _thread.get_ident():
            return
        if event == "open":
            if _for_writing(args):
                self._found(f"opening {args[0]!r} for writing", _EFFECT)
            return
        known = _EVENTS.get(event)
        if known is not None:
            self._found(known[0].format(*args, "", ""), known[1])

    def _on_call(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or called.__name__ not in _NAMES:
            return
        instead = _CALLS.get(called) or _of_object(called)
        if instead is not None and not _is_logging(frame) and not _is_collecting(frame):
            self._found(_name_of(frame, called), instead)

    def _found(self, what: str, instead: str) -> None:
        if _is_importing(_calling(2)):
            return
        instead = self._advice or instead
        message = f"{self._shown}: {what} in {self._place} is refused; {instead}"
        if self._enforced:
            self._refused = self._refused or ImpureHandler(message)
            raise self._refused
        if (self._shown, what) not in self._told and len(self._told) < 1000:
            self._told.add((self._shown, what))
            # Logging writes and looks at clocks: not as a part of the handler.
            thread, self.thread = self.thread, 0
            log.event(
                _LOG,
                "impure_handler",
                level=logging.WARNING,
                handler=self._shown,
                found=what,
                instead=instead,
            )
            self.thread = thread


guard: Final = _Guard()


def guarded(
    function: Callable[..., Any],
    arguments: tuple[object, ...],
    shown: str,
    mode: GuardMode | None = None,
    *,
    place: str = _HANDLER,
    advice: str = "",
) -> Any:
    """Call a handler under the guard; ``mode`` None: the process's.

    For a function that is no handler ``place`` says what it is, and ``advice`` what to do instead.
    """
    mode = mode or guard.mode
    if mode == "off" or guard.thread:
        return function(*arguments)
    return guard.run(function, arguments, shown, mode, place=place, advice=advice)


_calling: Final = cast("Callable[[int], FrameType]", getattr(sys, "_getframe"))  # noqa: B009


def _of_object(called: Any) -> str | None:
    """Methods are made anew at each look: they are told by what they belong to."""
    owner = getattr(called, "__self__", None)
    if owner is _SHARED:
        return _CHANCE
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return _NOW
    return _THREAD if called is _JOINABLE else None


def _for_writing(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    if isinstance(mode, str) and mode:
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITES)


def _name_of(frame: FrameType, called: Any) -> str:
    """The call as its author wrote it: ``uuid.uuid4()``, not the ``os.urandom`` below it."""
    owner = getattr(called, "__self__", None)
    place = owner.__name__ if isinstance(owner, type) else getattr(called, "__module__", None)
    if owner is _SHARED:
        place = "random"
    name = called.__name__ if place in (None, "builtins") else f"{place}.{called.__name__}"
    above: FrameType | None = frame
    while above is not None and _module(above).partition(".")[0] in _THROUGH:
        name = f"{_module(above)}.{above.f_code.co_name}"
        above = above.f_back
    return f"{name.replace('posix.', 'os.')}()"


def _is_logging(frame: FrameType) -> bool:
    return _is_below(frame, "logging")


def _is_importing(frame: FrameType) -> bool:
    """An import may write its bytecode and run what a module does once."""
    return _is_below(frame, "importlib._bootstrap")


def _is_collecting(frame: FrameType) -> bool:
    """The garbage collector may run at any allocation, and who is called back by it is not the handler's doing."""
    called_back = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    above: FrameType | None = frame
    while above is not None:
        if above.f_code in called_back:
            return True
        above = above.f_back
    return False


def _is_below(frame: FrameType, module: str) -> bool:
    above: FrameType | None = frame
    while above is not None:
        if _module(above) == module:
            return True
        above = above.f_back
    return False


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
