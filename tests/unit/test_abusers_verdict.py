"""The abusers' verdict: it finds what is not as it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from examples.abusers.abuses import Abuse
from examples.abusers.marked import left_over
from examples.abusers.verdict import Latency, Report, Seen, each_table, faults, in_all, table


def deed() -> None:
    """An abuse bears the name of its deed."""


ABUSES = (Abuse(deed, "deadline", (2,), "max_attempts", "the last time: deadline"),)

SEEN = Seen(("deadline", "deadline"), ("max_attempts",), "..., the last time: deadline; ...", (1, 2, 3, 4))
GOOD = Seen((), (), "", (1, 2))


def report(**changes: Any) -> Report:
    fields: dict[str, Any] = {
        "abusers": {"deed": SEEN},
        "good": {"good-01": GOOD},
        "sent_to_good": 2,
        "counted_ends": {"deadline": 2},
        "moved": [],
        "quiet": Latency(1.0, 2.0, 100),
        "busy": Latency(1.5, 5.0, 100),
        "seconds": 5.0,
    }
    return Report(**{**fields, **changes})


def test_a_run_in_which_all_is_as_it_should_be_has_no_fault() -> None:
    assert faults(ABUSES, report()) == []
    assert "p99 2.5 times as long" in table(ABUSES, report())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"abusers": {"deed": replace(SEEN, ends=("frozen", "deadline"))}}, "its lives ended with"),
        ({"abusers": {"deed": replace(SEEN, ends=("deadline",))}}, "its lives ended with"),
        ({"abusers": {"deed": replace(SEEN, letters=())}}, "its dead letters are"),
        ({"abusers": {"deed": replace(SEEN, last_error="boom")}}, "last_error is 'boom'"),
        ({"abusers": {"deed": replace(SEEN, numbers=(1, 2, 4, 3))}}, "it counted"),
        ({"good": {"good-01": replace(GOOD, numbers=(1,))}}, "counted 1 numbers of 2"),
        ({"good": {"good-01": replace(GOOD, ends=("memory",))}}, "was disturbed"),
        ({"counted_ends": {"deadline": 1}}, "metrics: ends by reason"),
        ({"moved": ["watchdog"]}, "watchdog: was started again"),
        ({"left": {7: "sleep"}}, "left running: sleep (7)"),
        ({"left_after_stop": {7: "sleep"}}, "left after the end: sleep (7)"),
    ],
)
def test_each_kind_of_fault_is_found(changes: dict[str, Any], fault: str) -> None:
    found = faults(ABUSES, report(**changes))

    assert any(fault in line for line in found), found


def test_left_over_is_what_is_no_service_no_spawner_no_worker_and_no_spare() -> None:
    processes = {
        1: (0, "regrow"),
        2: (1, "python"),
        3: (2, "regrow-worker"),
        4: (2, "regrow-spare"),
        5: (2, "regrow-worker"),
        6: (3, "sleep"),
        7: (99, "regrow-spare"),
    }

    assert left_over(processes, services=[1], workers=[3]) == {
        5: "regrow-worker",
        6: "sleep",
        7: "regrow-spare",
    }


def test_of_several_rounds_the_medians_count() -> None:
    rounds = [report(busy=Latency(1.5, p99, 100)) for p99 in (5.0, 90.0, 4.0)]

    assert in_all(rounds).startswith("p99 under abuse 2.5 times its quiet value, 5.0 ms beside 2.0 ms")


def test_who_disturbs_most_comes_first() -> None:
    quiet = Latency(1.0, 2.0, 100)

    shown = each_table({"calm": (quiet, Latency(1.0, 3.0, 10)), "wild": (quiet, Latency(9.0, 40.0, 10))})

    assert [line.split()[0] for line in shown.splitlines()] == ["abuser", "wild", "calm"]
    assert "20.0" in shown.splitlines()[1]
