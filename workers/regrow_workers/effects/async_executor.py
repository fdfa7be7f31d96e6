"""The asyncio executor: one process in which many ``async def`` effects wait at once, each under claim and settle.

1. It rings for itself: as many due effects as it has places free, woken by the bell of their queue. No RQ in between.
2. Each is a task: claim, call under its time limit, settle; the same refusals and repeats as everywhere.
3. Should the process die on any line, the node gives back all that it held: what may be repeated is pending again, the
   rest is in doubt. Which of its calls was to blame, nobody can know.
4. A call whose effect was cancelled is cancelled as tasks are, within half a second.
5. The loop shows itself at least once a second. A call that blocks it for ``BLOCKED_SECONDS`` blocks all others too:
   the node ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Call, Command
from regrow_signals.effect_store import RERING_MS, ClaimedEffect, Ring, announce_limits, ring
from regrow_signals.errors import CorruptKey, FateUnknown, StoreError, StoreUnavailable
from regrow_signals.keys import Keys
from regrow_workers import log
from regrow_workers.application import Application
from regrow_workers.effects import settlement
from regrow_workers.effects.calling import (
    Prepared,
    drive_async,
    limits_of,
    prepare,
    raised,
    returned,
    take,
    tell,
    with_reports,
)
from regrow_workers.effects.effect import EffectContext
from regrow_workers.effects.executor_life import GRACE
from regrow_workers.effects.progress_reports import AwaitedReports
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.fork_copies import leave_if_copied
from regrow_workers.reasons import ASKED, WorkerExit
from regrow_workers.slots import Phase, Slot
from regrow_workers.spawner_link import Message
from regrow_workers.stop_request import StopRequest
from regrow_workers.store_watch import StoreWatch
from regrow_workers.worker_config import WorkerConfig

__all__ = ["AsyncExecutor", "run_async_executor"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_WAIT: Final = 0.5
SHOW_SECONDS: Final = 0.5
HEED_SECONDS: Final = 0.5


def run_async_executor(
    config: WorkerConfig, application: Application, message: Message, slot: Slot, stop: StopRequest
) -> WorkerExit:
    """An asyncio executor's whole life, after the fork.

    Should the loop itself fail, its calls are not cancelled but end with the process, and are given back: cancelled,
    they would be told as their own failure.
    """
    executor = AsyncExecutor(
        name=message["order"]["executor"],
        node=message["node"],
        calls=message["order"]["calls"],
        application=application,
        config=config,
        slot=slot,
        stop=stop,
    )
    runner = asyncio.Runner()
    ended = runner.run(executor.run())
    runner.close()
    return ended


class AsyncExecutor:
    """The loop and its tasks. Made inside the process, before its event loop."""

    def __init__(
        self,
        *,
        name: str,
        node: str,
        calls: int,
        application: Application,
        config: WorkerConfig,
        slot: Slot,
        stop: StopRequest,
    ) -> None:
        self._name = name
        self._node = node
        self._places = calls
        self._application = application
        self._config = config
        self._limits = config.limits
        self._keys = Keys(config.namespace)
        self._slot = slot
        self._asked = stop
        self._running: dict[str, asyncio.Task[None]] = {}
        self._calls: dict[str, asyncio.Task[object]] = {}
        self._cancelled: set[str] = set()
        self._watch = StoreWatch(_LOG, "asyncio executor")

    async def run(self) -> WorkerExit:
        """Until SIGTERM, and then to the end of what is in hand: a drain that runs out kills."""
        loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._broken: asyncio.Future[None] = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        if self._asked.requested:  # before the loop could hear of it
            self._stop.set()
        self._bell = AsyncConnection.open(self._config.url, name=f"regrow:{self._name}:bell"[:200])
        self._connection = AsyncConnection.open(self._config.url, name=f"regrow:{self._name}"[:200])
        beside = [asyncio.create_task(self._show()), asyncio.create_task(self._heed())]
        await self._until_stopped(self._work())
        while self._running:
            await self._until_any(self._running.values())
        if self._broken.done():
            self._broken.result()
        for task in beside:
            task.cancel()
        await self._bell.close()
        await self._connection.close()
        self._slot.note(Phase.RELEASED, ASKED)
        return WorkerExit.RELEASED

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        await self._until_any((task, stop))
        stop.cancel()
        if task.done():
            task.result()
        task.cancel()

    async def _until_any(self, tasks: Iterable[asyncio.Future[Any]]) -> None:
        """Until one of them is done. Raises what a call could not be settled for: then this process is of no use."""
        await asyncio.wait((*tasks, self._broken), return_when=asyncio.FIRST_COMPLETED)
        if self._broken.done():
            self._broken.result()

    async def _show(self) -> None:
        """To the node: that the loop goes round, and how many calls are in hand."""
        while True:
            self._slot.note(Phase.IDLE, str(len(self._running)))
            await asyncio.sleep(SHOW_SECONDS)

    # Taking.

    async def _work(self) -> None:
        await self._answered(announce_limits(self._keys, limits_of(self._application.effects)))
        await self._take()

    async def _take(self) -> None:
        """One round after the other: not before all of a round are claimed, or refused, is it known what has room."""
        while True:
            try:
                found = await self._ring()
            except CorruptKey as error:
                log.event(_LOG, "effects_unreadable", level=logging.ERROR, error=str(error))
                await asyncio.sleep(5.0)
            except StoreError as error:
                await asyncio.sleep(self._watch.failed(error))
            else:
                self._watch.answered()
                claims = [self._begin(one.effect_id) for one in found]
                if claims:
                    await self._until_any((asyncio.gather(*claims),))

    async def _ring(self) -> list[Ring]:
        """What is due and has a place here; waits a while if there is nothing."""
        free = self._places - len(self._running)
        if free <= 0:
            await self._until_any(self._running.values())
            return []
        rung = await self._bell.call(ring(self._keys, free, RERING_MS, awaited=True))
        found = [one for one in rung.told if one.effect_id not in self._running]
        wait = LONGEST_WAIT if rung.next_ms is None else min(rung.next_ms / 1000, LONGEST_WAIT)
        if not found and wait > 0:
            pop = ("BLPOP", self._keys.bell_async, f"{wait:.3f}")
            await self._bell.command(Command(pop, bool, wait=wait))
        return found

    def _begin(self, effect_id: str) -> asyncio.Future[None]:
        """What comes back is done when the effect is claimed, or its task is over."""
        claimed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._execute(effect_id, claimed), name=effect_id)
        self._running[effect_id] = task
        task.add_done_callback(self._over)
        task.add_done_callback(lambda _: None if claimed.done() else claimed.set_result(None))
        return claimed

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task.get_name(), None)
        if self._broken.done():
            return
        if task.cancelled():
            self._broken.set_exception(
                RuntimeError(f"{task.get_name()}: its task was cancelled, and nothing told")
            )
        elif (error := task.exception()) is not None:
            self._broken.set_exception(error)

    # One effect.

    async def _execute(self, effect_id: str, taken: asyncio.Future[None]) -> None:
        leave_if_copied()
        if self._stop.is_set():  # not claimed yet: it is rung for again elsewhere
            return
        op = take(
            self._keys, effect_id, node=self._node, executor=self._name, token=secrets.token_hex(16),
            max_kills=self._limits.max_kills,
        )  # fmt: skip
        found = await drive_async(op, self._answered)
        if found is None:
            return
        if not taken.done():  # a stop cancels who waits for it
            taken.set_result(None)
        claimed, held = found
        outcome = await self._outcome(claimed, held)
        leave_if_copied()
        await drive_async(tell(self._keys, held, outcome), self._answered)

    async def _outcome(self, claimed: ClaimedEffect, held: Held) -> Settlement:
        """Call the function; whatever it does, short of ending the process, becomes a settlement."""
        prepared = prepare(self._application.effects, self._application.name, claimed, held)
        if isinstance(prepared, Settlement):
            return prepared
        reports = AwaitedReports(self._connection, self._keys, held, self._cancel)
        run = with_reports(prepared.run, reports)
        call = asyncio.create_task(_called(prepared, run), name=f"{held.effect_id} itself")
        self._calls[held.effect_id] = call
        try:
            return await self._ended(call, prepared, held)
        finally:
            reports.end()
            self._calls.pop(held.effect_id, None)
            self._cancelled.discard(held.effect_id)

    async def _ended(self, call: asyncio.Task[object], prepared: Prepared, held: Held) -> Settlement:
        done, _ = await asyncio.wait((call,), timeout=held.timeout_ms / 1000)
        if not done:
            call.cancel()
            done, _ = await asyncio.wait((call,), timeout=GRACE)
            if not done:
                # It holds on to what it was told to let go; only the end of the process ends it.
                raise RuntimeError(f"{held.name} goes on {GRACE:g} s after its time is up: {held.effect_id}")
            return settlement.after_timeout(held)
        if call.cancelled():
            if held.effect_id in self._cancelled:
                return settlement.cancelled()
            return raised(held, asyncio.CancelledError("it cancelled itself"))
        error = call.exception()
        if error is not None:
            return raised(held, error)
        return returned(prepared.effect, held, call.result(), self._limits)

    # Cancelled by their agents.

    async def _heed(self) -> None:
        """Stop the calls that were cancelled since the last look."""
        while True:
            await asyncio.sleep(HEED_SECONDS)
            if not self._calls:
                continue
            command = Command(("SMEMBERS", self._keys.cancelling), list[str])
            with contextlib.suppress(
                StoreError, CorruptKey
            ):  # what keeps on going wrong is told by the taking
                for effect_id in await self._connection.command(command):
                    self._cancel(effect_id)

    def _cancel(self, effect_id: str) -> None:
        call = self._calls.get(effect_id)
        if call is not None and effect_id not in self._cancelled:
            self._cancelled.add(effect_id)
            call.cancel()

    async def _answered(self, call: Call[T]) -> T:
        """Ask until Redis answers; refusals are raised."""
        while True:
            try:
                answer = await self._connection.call(call)
            except (StoreUnavailable, FateUnknown) as error:
                await asyncio.sleep(self._watch.failed(error))
            else:
                self._watch.answered()
                return answer


async def _called(prepared: Prepared, run: EffectContext) -> object:
    function: Callable[..., Any] = prepared.effect.function
    try:
        if prepared.effect.awaited:
            return await function(run, **prepared.values)
        # It was an async def when it was ordered.
        return await asyncio.to_thread(function, run, **prepared.values)
    except (SystemExit, KeyboardInterrupt) as error:
        # As a task's own end these two would end the loop.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
