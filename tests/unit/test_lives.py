"""Which life a node has to end, and which one its next beat may name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_workers.lives import Life, Pauses, is_progressing, must_end
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


def paused(start: float, end: float) -> Pauses:
    pauses = Pauses()
    pauses.note(start, end)
    return pauses


def judged(
    life: Life, seen: Reading, now: float = NOW, pauses: Pauses | None = None, *, stopped: bool = False
) -> Killed | None:
    return must_end(
        life,
        seen,
        now,
        start_timeout=10.0,
        node_timeout=3.0,
        pauses=pauses or Pauses(),
        is_stopped=lambda: stopped,
    )


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.STORING, Phase.RELEASED])
def test_a_life_whose_counter_moves_goes_on_however_long_it_waits(life: Life, phase: Phase) -> None:
    assert judged(life, reading(phase, since=NOW - 900)) is None


def test_a_transition_over_its_deadline_is_ended(life: Life) -> None:
    assert judged(life, reading(Phase.APPLYING, since=NOW - 4.9)) is None
    assert judged(life, reading(Phase.APPLYING, since=NOW - 5.1)) is Killed.DEADLINE


def test_a_state_that_is_read_for_longer_than_the_deadline_is_an_end(life: Life) -> None:
    assert judged(life, reading(Phase.READING, since=NOW - 4.9)) is None
    assert judged(life, reading(Phase.READING, since=NOW - 5.1)) is Killed.DEADLINE
    assert not is_progressing(life, reading(Phase.READING, since=NOW - 5.1), NOW, 1.0, Pauses())


def test_a_life_without_progress_is_ended(life: Life) -> None:
    life.beats_at = NOW - 3.1

    assert judged(life, reading(Phase.IDLE)) is Killed.FROZEN
    assert judged(life, reading(Phase.STORING)) is Killed.FROZEN


def test_native_code_may_keep_the_interpreter_as_long_as_the_deadline_allows(life: Life) -> None:
    life.beats_at = NOW - 4.5

    assert judged(life, reading(Phase.APPLYING, since=NOW - 4.5)) is None
    assert judged(life, reading(Phase.APPLYING, since=NOW - 4.5), stopped=True) is Killed.FROZEN
    assert judged(life, reading(Phase.APPLYING, since=NOW - 5.1)) is Killed.DEADLINE


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


def test_time_that_the_node_lost_itself_counts_against_nobody(life: Life) -> None:
    pauses = paused(NOW - 20, NOW)
    late = reading(Phase.APPLYING, since=NOW - 21)
    life.beats_at = NOW - 20.1

    assert judged(life, late, pauses=pauses) is None
    assert is_progressing(life, late, NOW, heartbeat=1.0, pauses=pauses)
    assert judged(life, late, now=NOW + 3.9, pauses=pauses) is None
    assert judged(life, late, now=NOW + 4.1, pauses=pauses) is Killed.DEADLINE
    assert judged(life, reading(Phase.IDLE), pauses=pauses) is None
    assert judged(life, reading(Phase.IDLE), now=NOW + 3.1, pauses=pauses) is Killed.FROZEN


def test_a_start_is_granted_the_nodes_pause_as_well(life: Life) -> None:
    life.forked_at = NOW - 15

    assert judged(life, reading(Phase.BOOT), pauses=paused(NOW - 10, NOW)) is None
    assert (
        judged(life, reading(Phase.BOOT), now=NOW + 5.1, pauses=paused(NOW - 10, NOW)) is Killed.START_TIMEOUT
    )


def test_a_node_that_is_late_again_and_again_grants_no_more_than_it_lost() -> None:
    pauses = Pauses()
    for start in range(10):
        pauses.note(start, start + 0.5)

    assert pauses.spent(0, 10) == 5.0
    assert pauses.spent(8.25, 10) == pytest.approx(1.75 - 0.25 - 0.5)
    assert pauses.spent(9.5, 9.9) == pytest.approx(0.4)


def test_a_beat_names_who_moves_and_who_is_inside_a_deadline(life: Life) -> None:
    assert is_progressing(life, reading(Phase.IDLE), NOW, heartbeat=1.0, pauses=Pauses())
    life.beats_at = NOW - 2.5
    assert not is_progressing(life, reading(Phase.IDLE), NOW, heartbeat=1.0, pauses=Pauses())
    assert is_progressing(life, reading(Phase.APPLYING, since=NOW - 4), NOW, heartbeat=1.0, pauses=Pauses())
    assert not is_progressing(
        life, reading(Phase.APPLYING, since=NOW - 6), NOW, heartbeat=1.0, pauses=Pauses()
    )
