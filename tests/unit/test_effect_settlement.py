"""What is told of a try of an effect, for every way in which it can end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from regrow_signals.errors import FateUnknown
from regrow_workers.effects import settlement
from regrow_workers.effects.calling import raised
from regrow_workers.effects.settlement import Held, Settlement

HELD = Held("b:1-1:0", "charge", "token", 1, 2, 1_000, 60_000, idempotent=True)
LAST = replace(HELD, attempts=3)
ONCE = replace(HELD, idempotent=False)

ENDS: list[Callable[[Held], Settlement]] = [
    lambda held: settlement.after_exception(held, "ValueError: no"),
    settlement.after_timeout,
    lambda held: settlement.after_crash(held, "signal:SIGSEGV"),
    lambda held: raised(held, FateUnknown("asked, and not answered")),
]


@pytest.mark.parametrize("end", ENDS)
def test_failed_try_is_repeated_after_a_pause_and_has_failed_after_the_last(
    end: Callable[[Held], Settlement],
) -> None:
    again = end(HELD)
    assert again.outcome == "retry"
    assert 500 <= again.retry_in_ms <= 1_000

    over = end(LAST)
    assert over.outcome == "failed"
    data = json.loads(over.data)
    assert (data["effect"], data["attempts"]) == ("b:1-1:0", 3)
    assert data["error"] == over.error != ""


def test_effect_that_is_not_idempotent_is_never_tried_again() -> None:
    refused, late, crashed, unknown = (end(ONCE) for end in ENDS)

    assert refused.outcome == "failed"
    assert late.outcome == crashed.outcome == unknown.outcome == "in_doubt"
    assert "asked, and not answered" in unknown.error
    assert json.loads(late.data) == {"effect": "b:1-1:0", "attempts": 1}


def test_done_carries_the_result_as_it_is() -> None:
    assert json.loads(settlement.done(HELD, '{"a":[1]}').data) == {"effect": "b:1-1:0", "result": {"a": [1]}}


def test_unknown_name_is_given_back_for_a_deploys_time_then_fails_naming_what_there_is() -> None:
    tries = [
        settlement.unknown_name(replace(HELD, attempts=n), {"charged": 0}, "shop:tree") for n in range(1, 8)
    ]

    assert [one.outcome for one in tries] == ["retry"] * 6 + ["failed"]
    assert sum(one.retry_in_ms for one in tries) > 60_000
    assert "shop:tree has no effect 'charge'; did you mean 'charged'?" in tries[-1].data


def test_unknown_name_of_an_effect_that_is_not_idempotent_may_wait_too_for_it_was_not_called() -> None:
    assert settlement.unknown_name(ONCE, {}, "shop:tree").outcome == "retry"


def test_held_try_goes_through_a_slots_text() -> None:
    assert Held.from_text(HELD.to_text()) == HELD


@pytest.mark.parametrize("text", ["", "{", "[]", "shutdown", '{"effect_id": "a"}', "\x00"])
def test_other_text_of_a_slot_is_no_held_try(text: str) -> None:
    assert Held.from_text(text) is None
