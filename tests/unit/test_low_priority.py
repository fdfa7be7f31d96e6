"""When a worker's priority is lowered, and what time is given back to it for that: pure."""

from __future__ import annotations

import mmap

import pytest

from regrow_workers.lives import Pauses
from regrow_workers.low_priority import MOST_LOST, Waited, is_long, look_every, time_lost
from regrow_workers.slots import Phase, Slot


@pytest.mark.parametrize(
    ("phase", "since", "after", "long"),
    [
        (Phase.APPLYING, 99.0, 0.05, True),
        (Phase.APPLYING, 99.5, 0.5, True),
        (Phase.APPLYING, 99.97, 0.05, False),
        (Phase.READING, 99.0, 0.05, True),
        (Phase.IDLE, 0.0, 0.05, False),
        (Phase.STORING, 0.0, 0.05, False),
        (Phase.BOOT, 0.0, 0.05, False),
        (Phase.APPLYING, 0.0, 0.0, False),
    ],
)
def test_only_a_long_run_of_the_users_code_lowers(
    phase: Phase, since: float, after: float, long: bool
) -> None:
    assert is_long(phase, since, 100.0, after) is long


@pytest.mark.parametrize(
    ("after", "lives", "every"),
    [(0.05, 1, 0.025), (0.05, 45, 0.025), (0.05, 100, 0.04), (0.05, 4096, 0.2), (2.0, 1, 0.2)],
)
def test_many_lives_are_looked_at_less_often_but_never_less_than_the_node_does_anyway(
    after: float, lives: int, every: float
) -> None:
    assert look_every(after, lives, 0.2) == pytest.approx(every)


@pytest.mark.parametrize(
    ("wall", "ran", "waited", "runnable", "lost"),
    [
        pytest.param(4.0, 1.0, 0.5, True, 3.0, id="runnable: whatever it did not run"),
        pytest.param(4.0, 4.0, 0.0, True, 0.0, id="alone on its processor"),
        pytest.param(4.0, 0.1, 0.0, False, 0.0, id="asleep in its transition"),
        pytest.param(4.0, 0.1, 1.5, False, 1.5, id="reading a file just now"),
        pytest.param(90.0, 1.0, 0.0, True, 5.0 * MOST_LOST, id="bounded"),
        pytest.param(0.1, 0.2, 0.0, True, 0.0, id="clocks that disagree by a tick"),
    ],
)
def test_time_without_a_processor_is_lost(
    wall: float, ran: float, waited: float, runnable: bool, lost: float
) -> None:
    found = time_lost(wall=wall, ran=ran, waited=waited, runnable=runnable, deadline=5.0)

    assert found == pytest.approx(lost)


@pytest.mark.parametrize(
    ("wall", "ran", "waited", "runnable", "lost"),
    [
        pytest.param(90.0, 1.0, 0.0, True, 89.0, id="starved: nothing but what it ran counts"),
        pytest.param(90.0, 1.0, 70.0, False, 70.0, id="asleep now, starved before"),
        pytest.param(90.0, 90.0, 0.0, True, 0.0, id="an endless upcast"),
        pytest.param(90.0, 0.0, 0.0, False, 0.0, id="one that sleeps"),
    ],
)
def test_who_reads_its_state_gets_all_of_that_back(
    wall: float, ran: float, waited: float, runnable: bool, lost: float
) -> None:
    found = time_lost(wall=wall, ran=ran, waited=waited, runnable=runnable, deadline=5.0, reading=True)

    assert found == pytest.approx(lost)


def test_what_a_life_lost_comes_on_top_of_the_nodes_own_pauses() -> None:
    pauses = Pauses()
    pauses.note(11.0, 12.0)

    assert Waited(pauses, 3.0).spent(10.0, 20.0) == 6.0


def test_a_slot_keeps_how_often_its_process_was_lowered_through_everything_but_a_new_process() -> None:
    slot = Slot(mmap.mmap(-1, mmap.PAGESIZE), 1)
    slot.clear(Phase.BOOT)
    slot.note_lowered()
    slot.begin("1-0")
    slot.note(Phase.STORING, "said")
    slot.hold("x" * 300)
    slot.note_lowered()

    assert (slot.lowered, slot.read().said, slot.glance()[0]) == (2, "said", Phase.STORING)
    slot.clear(Phase.BOOT)
    assert slot.lowered == 0
