"""When a worker's process is worn: after so many signals, or once it has grown so much."""

from __future__ import annotations

import pytest

from regrow import Agent, State
from regrow.errors import BadDefinition
from regrow_workers import wear
from regrow_workers.wear import Wear


class Nothing(State):
    pass


class Idle(Agent[Nothing], name="wear-idle"):
    pass


def test_without_a_bound_nothing_wears_out() -> None:
    assert Wear({}).is_spent(10**9) == ""


def test_signals_are_counted_from_where_this_process_began() -> None:
    worn = Wear({"max_signals": "10"})

    assert [bool(worn.is_spent(version)) for version in (100, 105, 109, 110)] == [False, False, False, True]


def test_growth_is_told_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    held = 50
    monkeypatch.setattr(wear, "own_bytes", lambda: held)
    monkeypatch.setattr(wear, "_LOOK_EVERY", 0.0)
    worn = Wear({"max_growth": "100"})

    assert worn.is_spent(0) == ""
    held = 149
    assert worn.is_spent(1) == ""
    held = 150
    assert worn.is_spent(2) == "max_growth: 100 bytes"


def test_a_child_spec_takes_both() -> None:
    spec = Idle.child("a", max_signals=5, max_growth="10MiB")

    assert (spec.max_signals, spec.max_growth) == (5, 10 << 20)
    with pytest.raises(BadDefinition, match="max_signals: 0"):
        Idle.child("a", max_signals=0)
