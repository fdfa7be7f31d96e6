"""Which life a node has to end, and which one its next beat may name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_workers.lives import Life, Pause, is_progressing, must_end
from regrow_workers.reasons import Killed
from regrow_workers.slots import Phase, Reading, SlotTable

NOW = 1000.0


@pytest.fixture
def life() -> Iterator[Life]:
    table = SlotTable.create(1)
    slot = table.take()
    assert slot is not None
    yield Life(
        agent="a",
        incarnation=1,
        node="n",
        slot=slot,
        deadline=5.0,
        pid=7,
        forked_at=NOW - 100,
        beats=9,
        beats_at=NOW - 0.4,
    )
    table.close()


def reading(phase: Phase, since: float = NOW - 0.1, entry: str = "") -> Reading:
    return Reading(beats=9, phase=phase, since=since, entry=entry, said="")


def judged(life: Life, seen: Reading, now: float = NOW, pause: Pause | None = None) -> Killed | None:
    return must_end(life, seen, now, start_timeout=10.0, node_timeout=3.0, pause=pause or Pause())


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.STORING, Phase.RELEASED])
def test_a_life_whose_counter_moves_goes_on_however_long_it_waits(life: Life, phase: Phase) -> None:
    assert judged(life, reading(phase, since=NOW - 900)) is None


def test_a_transition_over_its_deadline_is_ended(life: Life) -> None:
    assert judged(life, reading(Phase.APPLYING, since=NOW - 4.9)) is None
    assert judged(life, reading(Phase.APPLYING, since=NOW - 5.1)) is Killed.DEADLINE


def test_a_state_that_is_read_for_longer_than_the_deadline_is_an_end(life: Life) -> None:
    assert judged(life, reading(Phase.READING, since=NOW - 4.9)) is None
    assert judged(life, reading(Phase.READING, since=NOW - 5.1)) is Killed.DEADLINE
    assert not is_progressing(life, reading(Phase.READING, since=NOW - 5.1), NOW, 1.0)


def test_a_life_without_progress_is_ended_idle_or_not(life: Life) -> None:
    life.beats_at = NOW - 3.1

    assert judged(life, reading(Phase.IDLE)) is Killed.FROZEN
    assert judged(life, reading(Phase.APPLYING)) is Killed.FROZEN


def test_a_start_that_takes_too_long_is_ended_but_not_one_that_waits_for_redis(life: Life) -> None:
    life.forked_at = NOW - 10.1

    assert judged(life, reading(Phase.BOOT)) is Killed.START_TIMEOUT
    assert judged(life, reading(Phase.STORING)) is None


def test_the_shutdown_time_runs_out(life: Life) -> None:
    life.kill_at = NOW

    assert judged(life, reading(Phase.APPLYING)) is Killed.SHUTDOWN_TIME


def test_nobody_is_ended_twice(life: Life) -> None:
    life.killed = Killed.OPERATOR
    life.kill_at = NOW - 1

    assert judged(life, reading(Phase.APPLYING, since=NOW - 50)) is None


def test_a_life_that_is_not_forked_yet_is_not_judged(life: Life) -> None:
    life.forked_at = None

    assert judged(life, reading(Phase.BOOT)) is None


def test_a_nodes_own_pause_grants_the_same_time_to_all(life: Life) -> None:
    pause = Pause(ended_at=NOW - 0.01, length=20.0)
    late = reading(Phase.APPLYING, since=NOW - 21)

    assert judged(life, late, pause=pause) is None
    assert judged(life, late, now=NOW + 5.1, pause=pause) is Killed.DEADLINE


def test_a_short_pause_grants_a_short_time(life: Life) -> None:
    pause = Pause(ended_at=NOW, length=1.0)
    late = reading(Phase.APPLYING, since=NOW - 5.5)

    assert judged(life, late, now=NOW + 0.9, pause=pause) is None
    assert judged(life, late, now=NOW + 1.1, pause=pause) is Killed.DEADLINE


def test_a_beat_names_who_moves_and_who_is_inside_a_deadline(life: Life) -> None:
    assert is_progressing(life, reading(Phase.IDLE), NOW, heartbeat=1.0)
    life.beats_at = NOW - 2.5
    assert not is_progressing(life, reading(Phase.IDLE), NOW, heartbeat=1.0)
    assert is_progressing(life, reading(Phase.APPLYING, since=NOW - 4), NOW, heartbeat=1.0)
    assert not is_progressing(life, reading(Phase.APPLYING, since=NOW - 6), NOW, heartbeat=1.0)
