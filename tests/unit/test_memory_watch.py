"""Who is over ``max_memory``: cheap looks first, at those who work; the others once a second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regrow_workers.memory_limit import MemoryWatch, private_bytes
from regrow_workers.reasons import MEMORY, ExitReason, Knowledge, WorkerExit, explain
from regrow_workers.slots import Phase, Reading

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")


def reading(phase: Phase, said: str = "") -> Reading:
    return Reading(1, phase, 0.0, "", said)


def test_over_the_limit_is_told_with_what_is_held() -> None:
    watch = MemoryWatch()
    watch.begin(10.0)

    held = watch.excess(os.getpid(), reading(Phase.APPLYING), 1)

    assert held > 1 << 20
    assert watch.excess(os.getpid(), reading(Phase.APPLYING), 1 << 40) == 0


def test_who_is_idle_is_looked_at_once_a_second() -> None:
    watch = MemoryWatch()
    looked: list[bool] = []
    for now in (10.0, 10.2, 10.9, 11.1):
        watch.begin(now)
        looked.append(watch.excess(os.getpid(), reading(Phase.IDLE), 1) > 0)

    assert looked == [True, False, False, True]


def test_who_has_no_process_any_more_is_over_nothing() -> None:
    watch = MemoryWatch()
    watch.begin(10.0)

    assert watch.excess(None, reading(Phase.APPLYING), 1) == 0
    assert watch.excess(2**22 + 1, reading(Phase.APPLYING), 1) == 0


def test_private_memory_is_less_than_what_is_mapped() -> None:
    assert 0 < private_bytes(os.getpid()) < 1 << 40


def test_a_memory_error_that_ends_the_worker_is_reported_as_memory() -> None:
    ended = explain(WorkerExit.CRASHED, reading(Phase.CRASHED, MEMORY), Knowledge())

    assert isinstance(ended, ExitReason)
    assert (ended.reason, ended.charge, ended.charged) == ("memory", "attempt", True)
