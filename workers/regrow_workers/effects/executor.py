"""An executor: the process that calls effects, one at a time, under claim and settle. A child of our spawner.

1. Waits for a doorbell of RQ; claims the effect that it names. Refused: somebody has it, or had it; nothing is done.
2. Notes in its slot what it holds, calls the function under its time limit, tells the outcome in one step.
3. What Redis has not answered is asked again with the same token: claim and settle tell a repeat from a first call.

Should the process die on any line, the node gives back what it held (``executor_roster.py``).
"""

from __future__ import annotations

import logging
import secrets
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from regrow_signals.calls import Call
from regrow_signals.connection import Connection
from regrow_signals.effect_store import ClaimedEffect, announce_limits
from regrow_signals.errors import FateUnknown, StoreUnavailable
from regrow_signals.keys import Keys
from regrow_workers.application import Application
from regrow_workers.effects import settlement
from regrow_workers.effects.async_executor import run_async_executor
from regrow_workers.effects.calling import (
    drive,
    limits_of,
    prepare,
    raised,
    returned,
    take,
    tell,
    with_reports,
)
from regrow_workers.effects.effect import EffectCancelled
from regrow_workers.effects.progress_reports import Reports
from regrow_workers.effects.rq_doorbell import EffectWorker
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.effects.time_limit import TimeLimitExceeded, time_limit
from regrow_workers.fork_copies import leave_if_copied, let_go_in_copies
from regrow_workers.reasons import ASKED, WorkerExit
from regrow_workers.slots import Phase, Slot
from regrow_workers.spawner_link import Message
from regrow_workers.stop_request import StopRequest
from regrow_workers.store_watch import StoreWatch
from regrow_workers.worker_config import WorkerConfig

__all__ = ["Executor", "run_executor"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class _Stopped(BaseException):  # nothing between here and the wait may take it for an error of its own
    """Asked to stop while there was nothing in hand."""


def run_executor(
    config: WorkerConfig, application: Application, message: Message, slot: Slot, stop: StopRequest
) -> WorkerExit:
    """An executor's whole life, after the fork."""
    if message["order"]["calls"] > 1:
        return run_async_executor(config, application, message, slot, stop)
    name: str = message["order"]["executor"]
    connection = Connection.open(config.url, name=f"regrow:{name}"[:200])
    let_go_in_copies(connection.close)
    executor = Executor(
        name=name,
        node=message["node"],
        application=application,
        config=config,
        connection=connection,
        bells=EffectWorker(message["order"]["rq_url"], config.namespace, name),
        slot=slot,
        stop=stop,
    )
    return executor.run()


class Executor:
    """The loop and its steps."""

    def __init__(
        self,
        *,
        name: str,
        node: str,
        application: Application,
        config: WorkerConfig,
        connection: Connection,
        bells: EffectWorker,
        slot: Slot,
        stop: StopRequest,
    ) -> None:
        self._name = name
        self._node = node
        self._application = application
        self._limits = config.limits
        self._keys = Keys(config.namespace)
        self._connection = connection
        self._bells = bells
        self._slot = slot
        self._stop = stop
        self._waiting = False
        self._watch = StoreWatch(_LOG, "executor")
        self._rq_watch = StoreWatch(_LOG, "executor's bells")

    def run(self) -> WorkerExit:
        signal.signal(signal.SIGTERM, self._on_stop)
        try:
            self._answered(announce_limits(self._keys, limits_of(self._application.effects)), self._pause)
            while not self._stop.requested:
                self._slot.note(Phase.IDLE)
                effect_id = self._next_effect()
                if effect_id is not None:
                    self._execute(effect_id)
        except _Stopped:
            pass
        self._bells.leave()
        self._slot.note(Phase.RELEASED, ASKED)
        return WorkerExit.RELEASED

    # Waiting.

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """A wait ends at once; a call goes on to its end. A doorbell that came in this very moment is rung again."""
        del number, frame
        self._stop.requested = True
        if self._waiting:
            self._waiting = False
            raise _Stopped

    def _next_effect(self) -> str | None:
        try:
            found = self._interruptible(lambda: self._bells.next_effect(time.monotonic()))
            self._rq_watch.answered()
        except StoreUnavailable as error:
            self._pause(self._rq_watch.failed(error))
            return None
        return found

    def _pause(self, seconds: float) -> None:
        self._interruptible(lambda: time.sleep(seconds))

    def _interruptible(self, wait: Callable[[], T]) -> T:
        self._waiting = True
        try:
            if self._stop.requested:
                raise _Stopped
            return wait()
        finally:
            self._waiting = False

    # One effect.

    def _execute(self, effect_id: str) -> None:
        self._slot.note(Phase.STORING)
        op = take(
            self._keys, effect_id, node=self._node, executor=self._name, token=secrets.token_hex(16),
            max_kills=self._limits.max_kills,
        )  # fmt: skip
        taken = drive(op, lambda call: self._answered(call, self._pause))
        if taken is None:
            return
        claimed, held = taken
        self._slot.note(Phase.STORING, held.to_text())
        outcome = self._outcome(claimed, held)
        leave_if_copied()
        self._slot.note(Phase.STORING)
        # Not interruptible: what took place has to be told, and a drain that runs out kills.
        drive(tell(self._keys, held, outcome), lambda call: self._answered(call, time.sleep))

    def _outcome(self, claimed: ClaimedEffect, held: Held) -> Settlement:
        """Call the function; whatever it does, short of ending the process, becomes a settlement."""
        prepared = prepare(self._application.effects, self._application.name, claimed, held)
        if isinstance(prepared, Settlement):
            return prepared
        reports = Reports(self._connection, self._keys, held)
        run = with_reports(prepared.run, reports)
        try:
            # The alarm is set before the slot says so: from outside, a call is never older than from inside.
            with time_limit(claimed.timeout_ms / 1000):
                self._slot.begin("")
                result = prepared.effect.call(run, prepared.values)
        except TimeLimitExceeded:
            return settlement.after_timeout(held)
        except (Exception, SystemExit, KeyboardInterrupt, EffectCancelled) as error:  # noqa: BLE001  it may raise anything
            return raised(held, error)
        finally:
            reports.end()
        return returned(prepared.effect, held, result, self._limits)

    def _answered(self, call: Call[T], pause: Callable[[float], object]) -> T:
        """Ask until Redis answers; refusals are raised."""
        while True:
            try:
                answer = self._connection.call(call)
            except (StoreUnavailable, FateUnknown) as error:
                pause(self._watch.failed(error))
            else:
                self._watch.answered()
                return answer
