"""An executor as its node sees it: when it must end, and what becomes of the call that it died in."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from regrow_workers.effects.executor_life import (
    GRACE,
    ExecutorLife,
    held_in,
    must_end_executor,
    settle_for_the_dead,
    started_well,
)
from regrow_workers.effects.settlement import Held
from regrow_workers.lives import Pauses
from regrow_workers.reasons import ExitReason, Killed
from regrow_workers.slots import Phase, Reading, SlotTable

HELD = Held("b:1-1:0", "charge", "token", 1, 2, 1_000, 2_000, idempotent=True)
CALLING = Reading(beats=3, phase=Phase.APPLYING, since=100.0, entry="", said=HELD.to_text())
WAITING = replace(CALLING, phase=Phase.IDLE)


@pytest.fixture
def life() -> Iterator[ExecutorLife]:
    table = SlotTable.create(1)
    slot = table.take()
    assert slot is not None
    made = ExecutorLife(agent="n.1", incarnation=1, node="n", slot=slot, deadline=0.0)
    made.pid, made.forked_at, made.beats_at = 42, 90.0, 99.0
    yield made
    del slot, made
    table.close()


def judged(life: ExecutorLife, reading: Reading, now: float) -> Killed | None:
    return must_end_executor(life, reading, now, start_timeout=10, node_timeout=3, pauses=Pauses())


def test_call_may_take_its_time_limit_and_a_moment_for_its_own_alarm(life: ExecutorLife) -> None:
    assert judged(life, CALLING, 100 + 2 + GRACE - 0.1) is None
    assert judged(life, CALLING, 100 + 2 + GRACE + 0.1) is Killed.DEADLINE


def test_frozen_progress_counter_is_no_reason_in_a_call_and_one_outside_of_it(life: ExecutorLife) -> None:
    long_call = replace(CALLING, said=replace(HELD, timeout_ms=60_000).to_text())

    assert judged(life, long_call, 110) is None
    assert judged(life, WAITING, 110) is Killed.FROZEN


def test_drains_time_bites_in_a_call_too(life: ExecutorLife) -> None:
    life.kill_at = 101.0
    assert judged(life, CALLING, 101.5) is Killed.SHUTDOWN_TIME


def test_what_is_held_is_known_in_a_call_alone() -> None:
    assert held_in(CALLING) == HELD
    assert held_in(WAITING) is None
    assert held_in(replace(CALLING, said="?")) is None


def settled(life: ExecutorLife, reading: Reading, status: int) -> str | None:
    told = settle_for_the_dead(life, reading, status, ExitReason("whatever", "none", False))
    return None if told is None else told[1].outcome


def test_strangers_sigkill_settles_nothing_so_the_effect_is_given_back_uncounted(life: ExecutorLife) -> None:
    assert settled(life, CALLING, -signal.SIGKILL) is None


def test_crash_in_a_call_is_a_try_that_failed_and_outside_of_it_nothing(life: ExecutorLife) -> None:
    assert settled(life, CALLING, -signal.SIGSEGV) == "retry"
    assert settled(life, CALLING, 3) == "retry"
    assert settled(life, WAITING, 3) is None


def test_call_killed_for_its_time_limit_is_settled_by_what_was_seen_then(life: ExecutorLife) -> None:
    life.killed, life.overdue = Killed.DEADLINE, HELD
    # It ended in the last moment, and had begun the next one.
    later = replace(CALLING, said=replace(HELD, effect_id="next").to_text())

    told = settle_for_the_dead(life, later, -signal.SIGKILL, ExitReason("deadline", "attempt", True))

    assert told is not None
    assert told[0].effect_id == HELD.effect_id
    assert told[1].error == "it took longer than its timeout of 2 s"


@pytest.mark.parametrize("why", [Killed.SHUTDOWN_TIME, Killed.DRAINED, Killed.SUPERSEDED, Killed.FROZEN])
def test_call_that_we_killed_for_our_own_reasons_is_given_back(life: ExecutorLife, why: Killed) -> None:
    life.killed = why
    assert settled(life, CALLING, -signal.SIGKILL) is None


@pytest.mark.parametrize(
    ("phase", "now", "well"),
    [
        (Phase.BOOT, 91.0, False),
        (Phase.CRASHED, 91.0, False),
        (Phase.CRASHED, 191.0, True),
        (Phase.IDLE, 90.1, True),
        (Phase.APPLYING, 90.1, True),
    ],
)
def test_only_one_that_never_came_to_wait_puts_off_its_successor(
    life: ExecutorLife, phase: Phase, now: float, well: bool
) -> None:
    assert started_well(life, replace(WAITING, phase=phase), now) is well
