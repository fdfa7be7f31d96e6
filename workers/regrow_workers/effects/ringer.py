"""The effects node's thread that rings: due effects become doorbells of RQ."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.effect_store import RERING_MS, ring
from regrow_signals.errors import CorruptKey, StoreError
from regrow_signals.keys import Keys
from regrow_workers import log
from regrow_workers.effects.rq_doorbell import Bells
from regrow_workers.store_watch import StoreWatch

__all__ = ["Ringer", "room_for_bells"]

_LOG = logging.getLogger(__name__)

BELLS_PER_EXECUTOR: Final = 16
FEWEST_BELLS: Final = 64
LONGEST_WAIT: Final = 0.5
FULL_PAUSE: Final = 0.02
TIDY_SECONDS: Final = 60.0


class Ringer(threading.Thread):
    """Any number of effects nodes have one each: ``ring`` gives an effect to one of them and moves its due time.

    1. RQ's queue is kept short, ``most`` doorbells: a backlog waits in ``{ns}:effects``, in order of due time, and an
       effect whose turn takes long is rung again only where there is room. So doubles never pile up.
    2. Woken by the bell that a commit or a give-back rings; between bells it looks when the next effect is due, and
       twice a second, for a retry of another node's effect rings no bell.
    """

    def __init__(
        self,
        open_connection: Callable[[], Connection],
        open_bells: Callable[[], Bells],
        keys: Keys,
        executors: int,
    ) -> None:
        super().__init__(name="regrow-ringer", daemon=True)
        self._open = open_connection
        self._open_bells = open_bells
        self._keys = keys
        self._most = max(FEWEST_BELLS, BELLS_PER_EXECUTOR * executors)
        self._ended = threading.Event()
        self._watch = StoreWatch(_LOG, "ringer")
        self._tidy_at = 0.0

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        connection, bells = self._open(), self._open_bells()
        while not self._ended.is_set():
            try:
                pause = self.run_once(connection, bells)
                if pause > 0 and not self._ended.is_set():
                    self._wait_for_bell(connection, pause)
                self._watch.answered()
            except CorruptKey as error:
                log.event(_LOG, "effects_unreadable", level=logging.ERROR, error=str(error))
                self._ended.wait(5.0)
            except StoreError as error:
                self._ended.wait(self._watch.failed(error))
        bells.close()
        connection.close()

    def run_once(self, connection: Connection, bells: Bells) -> float:
        """Ring what is due and has room; seconds until it is worth looking again (0: at once)."""
        if time.monotonic() >= self._tidy_at:
            bells.forget_the_dead()
            self._tidy_at = time.monotonic() + TIDY_SECONDS
        room = room_for_bells(bells.waiting(), self._most)
        if room == 0:
            self._ended.wait(FULL_PAUSE)
            return 0.0
        rung = connection.call(ring(self._keys, room, RERING_MS))
        if rung.told:
            bells.ring(rung.told)
        return LONGEST_WAIT if rung.next_ms is None else min(rung.next_ms / 1000, LONGEST_WAIT)

    def _wait_for_bell(self, connection: Connection, seconds: float) -> None:
        connection.command(Command(("BLPOP", self._keys.bell, f"{seconds:.3f}"), bool, wait=seconds))


def room_for_bells(waiting: int, most: int) -> int:
    """How many more doorbells to hang up. None until half of them were answered, so that they go out in bundles."""
    return most - waiting if waiting <= most // 2 else 0
