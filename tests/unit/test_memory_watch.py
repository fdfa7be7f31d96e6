"""Who is over ``max_memory``: cheap looks first, at those who work; the others once a second."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regrow_workers.memory_limit import MemoryWatch, excess, private_bytes
from regrow_workers.process_tree import descendants
from regrow_workers.reasons import MEMORY, ExitReason, Knowledge, WorkerExit, explain
from regrow_workers.slots import Phase, Reading

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")


def reading(phase: Phase, said: str = "") -> Reading:
    return Reading(1, phase, 0.0, "", said)


def test_over_the_limit_is_told_with_what_is_held() -> None:
    assert excess([os.getpid()], 1) > 1 << 20
    assert excess([os.getpid()], 1 << 40) == 0


def test_memory_that_could_be_shared_counts_as_long_as_nobody_shares_it() -> None:
    before = private_bytes(os.getpid())
    with mmap.mmap(-1, 32 << 20) as shared:
        shared.write(b"x" * (32 << 20))

        # A little less: whatever else this process gave back meanwhile.
        assert excess([os.getpid()], before + (16 << 20)) >= before + (31 << 20)


def test_what_a_process_started_counts_as_its_own() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        below = descendants(os.getpid(), 5)

        assert child.pid in below
        # Both while it lives: pages of the interpreter are private only as long as nobody else has mapped them.
        assert excess([os.getpid(), *below], 1) > excess([os.getpid()], 1)
        child.communicate(b"\n")


def test_who_is_idle_is_looked_at_once_a_second_unless_it_has_started_something() -> None:
    watch = MemoryWatch()
    looked: list[bool] = []
    for now in (10.0, 10.2, 10.9, 11.1):
        watch.begin(now)
        looked.append(watch.is_due(reading(Phase.IDLE)))
    watch.begin(11.2)

    assert looked == [True, False, False, True]
    assert watch.is_due(reading(Phase.APPLYING))
    assert watch.is_due(replace(reading(Phase.IDLE), has_children=True))


def test_who_has_no_process_any_more_is_over_nothing() -> None:
    assert excess([2**22 + 1], 1) == 0


def test_private_memory_is_less_than_what_is_mapped() -> None:
    assert 0 < private_bytes(os.getpid()) < 1 << 40


def test_a_memory_error_that_ends_the_worker_is_reported_as_memory() -> None:
    ended = explain(WorkerExit.CRASHED, reading(Phase.CRASHED, MEMORY), Knowledge())

    assert isinstance(ended, ExitReason)
    assert (ended.reason, ended.charge, ended.charged) == ("memory", "attempt", True)
