"""``run.progress(...)`` on its way to Redis: at most ten a second, and never the reason why a call fails.

What a report is answered says whether the effect was cancelled, or is not ours any more: then the call is to stop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Call
from regrow_signals.effect_progress import report_progress
from regrow_signals.effect_store import EffectClaimed
from regrow_signals.errors import CorruptKey, StoreError
from regrow_signals.keys import Keys
from regrow_workers import log
from regrow_workers.effects.effect import EffectCancelled
from regrow_workers.effects.settlement import Held

if TYPE_CHECKING:
    import asyncio

__all__ = ["INTERVAL", "AwaitedReports", "Reports"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

INTERVAL: Final = 0.1
"""Seconds between two reports of one call; what comes in between is passed over, or told with the next."""

AWAY_PAUSE: Final = 5.0
"""While Redis does not answer, a call is not held up for each report."""


class Caller(Protocol):
    """A connection, or one that threads share."""

    def call(self, call: Call[T], /) -> T: ...


class Reports:
    """Of one call that runs in this thread, or in threads of its own: sent while the call waits."""

    def __init__(self, connection: Caller, keys: Keys, held: Held) -> None:
        self._connection = connection
        self._keys = keys
        self._held = held
        self._lock = threading.Lock()
        self._next = 0.0
        self._over = False

    def __call__(self, text: str) -> None:
        """Raises ``EffectCancelled`` where the call is to stop."""
        with self._lock:
            now = time.monotonic()
            if self._over or now < self._next:
                return
            self._next = now + INTERVAL
            try:
                stop = self._connection.call(
                    report_progress(self._keys, self._held.effect_id, self._held.token, text)
                )
            except EffectClaimed as error:
                raise EffectCancelled(str(error)) from None
            except (StoreError, CorruptKey) as error:
                self._next = time.monotonic() + AWAY_PAUSE
                _untold(self._held, error)
                return
        if stop:
            raise EffectCancelled(f"effect {self._held.effect_id} was cancelled")

    def end(self) -> None:
        """The call is over: a thread that it left behind reports nothing any more."""
        with self._lock:
            self._over = True


class AwaitedReports:
    """Of one call in an event loop: noted at once, sent by a task beside it, the last one always."""

    def __init__(
        self, connection: AsyncConnection, keys: Keys, held: Held, stop: Callable[[str], None]
    ) -> None:
        """``stop`` is told the effect's id when the call is to stop."""
        import asyncio

        self._connection = connection
        self._keys = keys
        self._held = held
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._latest: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False

    def __call__(self, text: str) -> None:
        self._latest = text
        self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """The call is over. What is on its way gets there: to cancel it would cost the loop's connection its socket."""
        self._over = True

    def _wake(self) -> None:
        if self._task is None and not self._over:
            self._task = self._loop.create_task(self._send())
            self._task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _untold(self._held, error)

    async def _send(self) -> None:
        import asyncio

        while not self._over and (text := self._latest) is not None:
            self._latest = None
            pause = INTERVAL
            try:
                call = report_progress(self._keys, self._held.effect_id, self._held.token, text)
                stop = await self._connection.call(call)
                if stop and not self._over:
                    self._stop(self._held.effect_id)
            except EffectClaimed:
                if not self._over:  # another try of it may be in hand here
                    self._stop(self._held.effect_id)
            except (StoreError, CorruptKey) as error:
                pause = AWAY_PAUSE
                _untold(self._held, error)
            await asyncio.sleep(pause)


def _untold(held: Held, error: BaseException) -> None:
    log.event(
        _LOG,
        "progress_untold",
        level=logging.DEBUG,
        effect=held.name,
        effect_id=held.effect_id,
        error=str(error),
    )
