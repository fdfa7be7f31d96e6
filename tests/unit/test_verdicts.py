"""Who is late, and above all who is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regrow_supervisor.verdicts import AnsweredTime, BeatWatch, StartWatch, late_nodes


def test_time_counts_between_answers() -> None:
    time = AnsweredTime(cap_ms=500)

    assert [time.answered(now) for now in (1000, 1250, 1500)] == [0, 250, 500]


def test_a_frozen_store_or_leader_counts_one_capped_interval() -> None:
    time = AnsweredTime(cap_ms=500)
    time.answered(0)

    assert time.answered(60_000) == 500


def test_an_interval_with_a_failed_poll_counts_nothing() -> None:
    time = AnsweredTime(cap_ms=500)
    time.answered(0)
    time.failed()

    assert time.answered(400) == 0
    assert time.answered(600) == 200


def test_a_clock_that_goes_backwards_counts_nothing() -> None:
    time = AnsweredTime(cap_ms=500)
    time.answered(1000)

    assert time.answered(900) == 0


@given(st.lists(st.one_of(st.none(), st.integers(0, 100_000)), max_size=50))
def test_answered_time_never_exceeds_the_cap_per_answer(steps: list[int | None]) -> None:
    time, now, answers = AnsweredTime(cap_ms=250), 0, 0
    for step in steps:
        if step is None:
            time.failed()
            continue
        now += step
        before = time.elapsed_ms
        assert 0 <= time.answered(now) - before <= 250
        answers += 1
    assert time.elapsed_ms <= 250 * max(answers - 1, 0)


def test_a_beat_that_changes_is_never_late() -> None:
    watch: BeatWatch[str] = BeatWatch()
    for tick in range(10):
        watch.observe(["a"], {"a": str(tick)}, tick * 1000)

        assert watch.late(3000, tick * 1000) == []


def test_a_beat_unchanged_for_more_than_the_timeout_is_late() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a", "b"], {"a": "1", "b": "1"}, 0)
    watch.observe(["a", "b"], {"a": "1", "b": "2"}, 3000)

    assert watch.late(3000, 3000) == []
    assert watch.late(3000, 3001) == ["a"]


def test_a_score_that_goes_back_is_a_change() -> None:
    """Redis went back in time, or its host's clock did: whoever beats lives."""
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a"], {"a": "900"}, 0)
    watch.observe(["a"], {"a": "100"}, 2900)

    assert watch.late(3000, 5000) == []


def test_one_without_any_beat_has_a_full_timeout() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe([], {}, 10_000)
    watch.observe(["a"], {}, 20_000)

    assert watch.late(3000, 23_000) == []
    assert watch.late(3000, 23_001) == ["a"]


def test_who_is_no_longer_expected_is_forgotten() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a"], {"a": "1"}, 0)
    watch.observe([], {"a": "1"}, 1000)
    watch.observe(["a"], {"a": "1"}, 9000)

    assert watch.late(3000, 9500) == []


def test_a_restart_of_the_watch_gives_everybody_a_full_timeout() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a"], {"a": "1"}, 0)
    watch.restart(2900)

    assert watch.late(3000, 5900) == []
    assert watch.late(3000, 5901) == ["a"]


def test_one_late_node_of_two_is_lost() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a", "b"], {"a": "1", "b": "1"}, 0)
    watch.observe(["a", "b"], {"a": "1", "b": "9"}, 3100)

    assert late_nodes(watch, 3000, 3100) == ["a"]


def test_all_nodes_late_at_once_get_one_timeout_more() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a", "b"], {"a": "1", "b": "1"}, 0)

    assert late_nodes(watch, 3000, 5999) == []
    assert late_nodes(watch, 3000, 6001) == ["a", "b"]


def test_no_nodes_are_not_all_nodes() -> None:
    assert late_nodes(BeatWatch(), 3000, 99_999) == []


def test_silence_is_told_before_it_is_late() -> None:
    watch: BeatWatch[str] = BeatWatch()
    watch.observe(["a"], {"a": "1"}, 0)

    assert watch.silent_ms("a", 1700) == 1700
    assert watch.silent_ms("stranger", 1700) == 0


def test_a_start_order_is_late_only_after_its_own_time() -> None:
    starts: StartWatch[tuple[str, int]] = StartWatch()
    starts.observe([("a", 1)], 0)
    starts.observe([("a", 1), ("b", 1)], 6000)

    assert starts.late(10_000, 10_000) == []
    assert starts.late(10_000, 10_001) == [("a", 1)]


def test_a_new_incarnation_begins_a_new_start_time() -> None:
    starts: StartWatch[tuple[str, int]] = StartWatch()
    starts.observe([("a", 1)], 0)
    starts.observe([("a", 2)], 9000)

    assert starts.late(10_000, 12_000) == []


def test_starts_on_a_node_under_another_verdict_are_left_out() -> None:
    starts: StartWatch[tuple[str, int]] = StartWatch()
    starts.observe([("a", 1), ("b", 1)], 0)

    assert starts.late(10_000, 11_000, lambda key: key[0] != "a") == [("b", 1)]


def test_starts_get_a_full_time_after_a_takeover() -> None:
    starts: StartWatch[tuple[str, int]] = StartWatch()
    starts.observe([("a", 1)], 0)
    starts.restart(9000)

    assert starts.late(10_000, 18_000) == []
