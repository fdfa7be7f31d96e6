"""Timers fire: what the leader does about them, in a thread and over a connection of its own.

1. Ask what is due; 2. decide, pure; 3. one step carries it out, fenced by the reign's token. Nothing is kept between
rounds, so it does not matter who does the next one: a step that was decided on what has changed since does nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from regrow_signals import timers
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.due_timers import decide
from regrow_signals.errors import CorruptKey, NotLeader, StoreError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.timers import Due, Fired, Firing
from regrow_workers import log
from regrow_workers.store_watch import StoreWatch

__all__ = ["LONGEST_WAIT", "Round", "TimerThread", "fire_due"]

_LOG = logging.getLogger(__name__)

DUE_AT_ONCE: Final = 100
TICKS_AT_ONCE: Final = 200
"""Signals that one step may put into mailboxes, about: Redis does nothing else meanwhile."""

LONGEST_WAIT: Final = 1.0
"""Seconds: a bell that was lost with its reader, and a jump of Redis's clock, are made up for after this."""

STANDBY_WAIT: Final = 0.25
BELL_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Round:
    """How many due timers were dealt with, what came of them, and how long until the next is due.

    ``wait_ms`` 0: more are due now; None: there are no others.
    """

    due: int
    fired: Fired
    wait_ms: int | None


def fire_due(connection: Connection, keys: Keys, limits: Limits, token: str) -> Round:
    """One round. Raises ``NotLeader`` where ``token`` is not the leader's, a StoreError when Redis cannot be asked."""
    due: Due = connection.call(timers.due(keys, DUE_AT_ONCE))
    firings = [decide(timer, due.now_ms) for timer in due.timers]
    for firing in firings:
        if firing.why:
            log.event(_LOG, "timer_dropped", level=logging.WARNING, timer=firing.timer.id, reason=firing.why)
    fired = Fired()
    for some in _in_steps(firings):
        fired += connection.call(timers.fire(keys, limits, token, some))
    if len(due.timers) == DUE_AT_ONCE:
        return Round(DUE_AT_ONCE, fired, 0)
    # What recurs may be due again before the others.
    times = [firing.next_ms for firing in firings if firing.next_ms is not None]
    if due.next_ms is not None:
        times.append(due.next_ms)
    return Round(len(due.timers), fired, max(0, min(times) - due.now_ms) if times else None)


def _in_steps(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    step, ticks = list[Firing](), 0
    for firing in firings:
        if step and ticks + len(firing.ticks) > TICKS_AT_ONCE:
            yield step
            step, ticks = [], 0
        step.append(firing)
        ticks += len(firing.ticks)
    if step:
        yield step


class TimerThread(threading.Thread):
    """``token`` tells the reign's token, '' while we do not lead; then nothing is asked of Redis.

    Sleeps until the next timer is due, or the bell tells of an earlier one. The bell is heard by a thread of its own:
    a server ends a wait of its clients some fifty milliseconds late.
    """

    def __init__(
        self, open_connection: Callable[[], Connection], keys: Keys, limits: Limits, token: Callable[[], str]
    ) -> None:
        super().__init__(name="regrow-timers", daemon=True)
        self._open = open_connection
        self._keys = keys
        self._limits = limits
        self._token = token
        self._ended = threading.Event()
        self._rung = threading.Event()

    def end(self) -> None:
        """End soon; nothing is left half done."""
        self._ended.set()
        self._rung.set()

    def run(self) -> None:
        threading.Thread(target=self._repeat, args=(self._listen,), name="regrow-bell", daemon=True).start()
        self._repeat(self._fire)

    def _repeat(self, step: Callable[[Connection, str], None]) -> None:
        watch = StoreWatch(_LOG, threading.current_thread().name)
        with self._open() as connection:
            while not self._ended.is_set():
                token = self._token()
                if not token:
                    self._ended.wait(STANDBY_WAIT)
                    continue
                try:
                    step(connection, token)
                    watch.answered()
                except NotLeader:
                    self._ended.wait(STANDBY_WAIT)
                except CorruptKey as error:
                    log.event(_LOG, "timers_unreadable", level=logging.ERROR, error=str(error))
                    self._ended.wait(5.0)
                except StoreError as error:
                    self._ended.wait(watch.failed(error))

    def _fire(self, connection: Connection, token: str) -> None:
        self._rung.clear()
        done = fire_due(connection, self._keys, self._limits, token)
        wait = LONGEST_WAIT if done.wait_ms is None else min(done.wait_ms / 1000, LONGEST_WAIT)
        if wait > 0:
            self._rung.wait(wait)

    def _listen(self, connection: Connection, token: str) -> None:
        del token
        words = ("BLPOP", self._keys.timer_bell, f"{BELL_SECONDS}")
        if connection.command(Command(words, bool, wait=BELL_SECONDS)):
            self._rung.set()
