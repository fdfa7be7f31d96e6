"""Effects run where you like: in threads, behind another queue, on a machine of your own. Claim, call, tell.

``EffectExecutor`` is a node of its own: it joins, beats, and is declared lost when it beats no more; then what it held
is handed to others, or is in doubt. Each effect is an ``EffectCall``, under the same claim, token and settlement as
those of ``regrow effects``.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from regrow_signals import nodes
from regrow_signals.calls import Call, Command
from regrow_signals.connection import Connection
from regrow_signals.durations import Duration, to_seconds
from regrow_signals.effect_store import RERING_MS, Rung, abandon, announce_limits, ring
from regrow_signals.errors import BadInput, FateUnknown, StoreError, StoreUnavailable
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.effects import settlement
from regrow_workers.effects.calling import (
    Prepared,
    drive,
    limits_of,
    prepare,
    raised,
    returned,
    take,
    tell,
    with_reports,
)
from regrow_workers.effects.effect import Effect, EffectCancelled, EffectContext, registered_effects
from regrow_workers.effects.progress_reports import Reports
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.store_watch import StoreWatch

__all__ = ["EffectCall", "EffectExecutor"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

HEARTBEAT: Final = 0.5
"""Seconds between two beats; ``REGROW_NODE_TIMEOUT`` of the watchdog is 3 by default."""


class EffectCall:
    """One try of an effect in our hands: call ``function(run, **args)`` and tell what came of it, once, in any thread.

    Nobody but you watches over ``timeout`` (seconds): tell ``timed_out()`` when it is over.
    """

    def __init__(self, executor: EffectExecutor, prepared: Prepared, held: Held) -> None:
        self._executor = executor
        self._held = held
        self._reports = Reports(executor.shared, executor.keys, held)
        self._lock = threading.Lock()
        self._told = False
        self.effect: Final[Effect[..., Any]] = prepared.effect
        self.function: Final[Callable[..., Any]] = prepared.effect.function
        self.args: Final[Mapping[str, Any]] = prepared.values
        self.run: Final[EffectContext] = with_reports(prepared.run, self._reports)
        self.timeout: Final = held.timeout_ms / 1000

    def __repr__(self) -> str:
        return f"<call of effect {self._held.name}: {self._held.effect_id}>"

    def call(self) -> bool:
        """Call the function here and tell what came of it, whatever that is; an ``async def`` in a loop of its own."""
        try:
            result = self.effect.call(self.run, self.args)
        except (Exception, EffectCancelled) as error:  # noqa: BLE001  an effect may raise anything
            return self.failed(error)
        return self.done(result)

    def done(self, result: object) -> bool:
        """It returned ``result``. False: our word does not count any more (the effect was taken from us)."""
        return self._tell(returned(self.effect, self._held, result, self._executor.limits))

    def failed(self, error: BaseException | str) -> bool:
        """The try failed: it is tried again while there are retries left, as after an exception. As ``done``."""
        if isinstance(error, str):
            return self._tell(settlement.after_exception(self._held, error))
        return self._tell(raised(self._held, error))

    def timed_out(self) -> bool:
        """The try took longer than its time limit: tried again, or in doubt where that must not be. As ``done``."""
        return self._tell(settlement.after_timeout(self._held))

    def progress(self, value: float | Mapping[str, Any]) -> None:
        """As ``run.progress``."""
        self.run.progress(value)

    def _tell(self, outcome: Settlement) -> bool:
        with self._lock:
            if self._told:
                raise BadInput(f"{self!r}: its outcome was told already")
            self._told = True
        self._reports.end()
        return self._executor.tell(self._held, outcome)


class EffectExecutor:
    """A place where effects run. Use it as a context manager; any number of threads may use it at once.

    ``effects``: those that it can run, all that are defined in this process by default. What it is rung for and does
    not know is given back for a while, for others to run. Whatever is still in hand at the end is handed back.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "regrow",
        effects: Iterable[Effect[..., Any]] | None = None,
        name: str = "own",
        limits: Limits = Limits(),  # noqa: B008  frozen
    ) -> None:
        """``name`` begins the node's id, which is new for each run. ``BadInput`` if it can be none."""
        known = registered_effects().values() if effects is None else effects
        self.limits: Final = limits
        self.keys: Final = Keys(namespace)
        self._effects = {effect.name: effect for effect in known}
        self._name = check_id(name, "executor's name")
        self._url = url
        self.shared: Final = _Shared(Connection.open(url, name=f"regrow:{name}"[:200]))
        self._bell = _Shared(Connection.open(url, name=f"regrow:{name}:bell"[:200]))
        self._ended = threading.Event()
        self._watch = StoreWatch(_LOG, "executor")
        self.node = ""
        """Its node's id; another one after it was declared lost."""
        self._beats = threading.Thread(target=self._beat, name="regrow-executor-beats", daemon=True)

    def __enter__(self) -> Self:
        """Join; waits while Redis is away."""
        self._join()
        self._beats.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hand back what is in hand, and leave. Should Redis be away, the watchdog does it when no beat comes."""
        self._ended.set()
        if self._beats.is_alive():
            self._beats.join()
        try:
            self.shared.call(abandon(self.keys, self.node, None, max_kills=self.limits.max_kills))
            self.shared.call(nodes.node_event(self.keys, self.node, "left"))
        except (StoreUnavailable, FateUnknown) as error:
            log.event(_LOG, "executor_left_untold", level=logging.WARNING, node=self.node, error=str(error))
        self.shared.close()
        self._bell.close()

    def take(self, most: int = 1, *, wait: Duration = 0.5, awaited: bool = False) -> list[EffectCall]:
        """Claim up to ``most`` due effects; waits up to ``wait`` seconds for one.

        ``awaited``: of those that are an ``async def``, which wait in a queue of their own; else of the others.

        For a carrier of your own: ``ring`` here, hand the ids on, and ``claim`` them there.
        """
        return [
            call
            for one in self.ring(most, wait=wait, awaited=awaited)
            if (call := self.claim(one)) is not None
        ]

    def ring(self, most: int = 1, *, wait: Duration = 0.5, awaited: bool = False) -> list[str]:
        """Ids of up to ``most`` due effects. One that nobody claims is told again after 4 seconds."""
        seconds = to_seconds(wait, "wait", zero=True)
        rung = self._ring(most, awaited)
        if not rung.told and seconds > 0:
            if rung.next_ms is not None:
                seconds = min(seconds, rung.next_ms / 1000)
            bell = self.keys.bell_async if awaited else self.keys.bell
            if seconds >= 0.001:
                self._bell_rang(bell, seconds)
            rung = self._ring(most, awaited)
        return [one.effect_id for one in rung.told]

    def claim(self, effect_id: str) -> EffectCall | None:
        """Take this effect; None if it is not to be had (somebody has it, it is over, or waits for room)."""
        op = take(
            self.keys, effect_id, node=self.node, executor=self.node, token=secrets.token_hex(16),
            max_kills=self.limits.max_kills,
        )  # fmt: skip
        taken = drive(op, self._answered)
        if taken is None:
            return None
        claimed, held = taken
        prepared = prepare(self._effects, self._name, claimed, held)
        if isinstance(prepared, Settlement):
            self.tell(held, prepared)
            return None
        return EffectCall(self, prepared, held)

    def tell(self, held: Held, outcome: Settlement) -> bool:
        """``EffectCall`` tells its outcome by this. Waits while Redis is away."""
        return drive(tell(self.keys, held, outcome), self._answered)

    def _ring(self, most: int, awaited: bool) -> Rung:
        return self._answered(ring(self.keys, most, RERING_MS, awaited=awaited))

    def _bell_rang(self, bell: str, seconds: float) -> None:
        try:
            self._bell.command(Command(("BLPOP", bell, f"{seconds:.3f}"), bool, wait=seconds))
        except (StoreUnavailable, FateUnknown) as error:
            self._ended.wait(self._watch.failed(error))

    def _join(self) -> None:
        """Also after a loss, which may be one of Redis's memory: so the limits are told again."""
        self._answered(announce_limits(self.keys, limits_of(self._effects)))
        node = f"{self._name}-{os.getpid()}-{secrets.token_hex(4)}"
        self._answered(
            nodes.join(
                self.keys, node, kind="effects", host=socket.gethostname(), pid=os.getpid(), labels={}, types={},
                version="",
            )
        )  # fmt: skip
        self.node = node

    def _beat(self) -> None:
        with Connection.open(self._url, name=f"regrow:{self._name}:beats"[:200]) as connection:
            while not self._ended.wait(HEARTBEAT):
                try:
                    if not connection.call(nodes.beat(self.keys, self.node, (), load=0)).known:
                        # What it held was given to others: its outcomes will be refused.
                        log.event(_LOG, "executor_was_lost", level=logging.WARNING, node=self.node)
                        self._join()
                except (StoreUnavailable, FateUnknown):
                    continue
                except StoreError as error:  # a damaged key, a missing right: the next beat may fare better
                    log.event(_LOG, "beat_refused", level=logging.ERROR, node=self.node, error=str(error))

    def _answered(self, call: Call[T]) -> T:
        """Ask until Redis answers; refusals are raised. After ``close`` one try."""
        while True:
            try:
                answer = self.shared.call(call)
            except (StoreUnavailable, FateUnknown) as error:
                if self._ended.is_set():
                    raise
                time.sleep(self._watch.failed(error))
            else:
                self._watch.answered()
                return answer


class _Shared:
    """A connection that threads use in turn."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def call(self, call: Call[T]) -> T:
        with self._lock:
            return self._connection.call(call)

    def command(self, command: Command[T]) -> T:
        with self._lock:
            return self._connection.command(command)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
