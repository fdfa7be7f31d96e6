"""``Schedule``, ``Cron`` and ``Cancel`` are values; what they ask of a commit has an id that a repeat has too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from regrow import Cancel, Cron, Schedule
from regrow_signals.errors import BadId, BadInput, BadSetting
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload
from regrow_signals.timers import CancelAppend, TimerAppend
from regrow_workers.delivery import Addressee, Delivery
from regrow_workers.directive_appends import lay_out
from regrow_workers.directives import Directive
from regrow_workers.trace_context import caused_trace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Late(Payload, type="order.late"):
    order: str = "o-1"


schedule: Any = Schedule
cron: Any = Cron
cancel: Any = Cancel


def laid_out(*directives: Directive, **signal: str) -> tuple[list[Any], str]:
    """What a commit is asked for by agent ``shop`` on signal s-1, and the journal's text."""
    fields = {"id": "s-1", "type": "go", "data": "null", **signal}
    appends = lay_out(directives, Delivery(Addressee("shop", "b"), "7-0", fields), Limits())
    assert not appends.emits and not appends.effects
    return list(appends.others), appends.journal


def test_equal_when_they_ask_for_the_same() -> None:
    assert Schedule(Late(), after=5) == Schedule("order.late", {"order": "o-1"}, after=timedelta(seconds=5))
    assert Schedule(Late(), at=NOON) == Schedule(Late(), at=NOON.astimezone(ZoneInfo("Asia/Tokyo")))
    assert Schedule(Late(), after=5) != Schedule(Late(), after=5, tag="t")
    assert Schedule(Late(), after=5) != Schedule(Late(), after=6)
    assert Cron("@daily", Late()) == Cron("@daily", Late(), tag="order.late")
    assert Cron("@daily", Late()) != Cron("@daily", Late(), tz="Europe/Berlin")
    assert Cancel("t") == Cancel("t") != Cancel("u")
    same = {
        Schedule(Late(), after=5),
        Schedule(Late(), after=5.0),
        Cron("@daily", Late()),
        Cron("@daily", Late()),
    }
    assert len({*same, Cancel("t"), Cancel("t")}) == 3


def test_shown_as_they_are_written() -> None:
    assert repr(Schedule("a", after=5, tag="t", to="b")) == "Schedule('a', None, after=5.0, tag='t', to='b')"
    assert repr(Cron("@daily", "a")) == "Cron('@daily', 'a', None, tz='UTC', missed='skip', tag='a')"
    assert repr(Cancel("t")) == "Cancel('t')"


@pytest.mark.parametrize(
    ("args", "keywords", "error", "told"),
    [
        (("a",), {}, BadInput, "Schedule: give either after="),
        (("a",), {"after": 1, "at": NOON}, BadInput, "Schedule: give either after="),
        (("a",), {"after": -1}, BadSetting, "Schedule: after=-1"),
        (("a",), {"after": "soon"}, BadSetting, "Schedule: after='soon'"),
        (("a",), {"at": datetime(2026, 3, 1)}, BadInput, "has no time zone: datetime"),
        (("a",), {"at": 17}, BadInput, "at=17 must be a datetime"),
        (("a",), {"after": 1, "tag": "not ok"}, BadId, "Schedule: tag 'not ok'"),
        (("a",), {"after": 1, "tag": "x#y"}, BadId, "Schedule: tag"),
        (("a",), {"after": 1, "tag": "x" * 101}, BadInput, "tag has 101 characters"),
        (("a",), {"after": 1, "to": "not ok"}, BadId, "Schedule: to 'not ok'"),
        ((5,), {"after": 1}, BadInput, "Schedule: give a Payload"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(
    args: Any, keywords: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        schedule(*args, **keywords)


@pytest.mark.parametrize(
    ("args", "keywords", "told"),
    [
        (("61 * * * *", "a"), {}, "Bad minute"),
        (("@daily", "a"), {"tz": "Nowhere"}, "tz='Nowhere'"),
        (("@daily", "a"), {"missed": "some"}, "missed='some' is none of skip, one, all"),
        (("@daily", "-a"), {}, "Cron: tag"),
    ],
)
def test_a_cron_that_cannot_be_is_refused(args: Any, keywords: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        cron(*args, **keywords)


def test_what_cannot_be_a_tag_cannot_be_cancelled() -> None:
    with pytest.raises(BadId, match="Cancel: tag"):
        cancel("")


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_timer_without_a_tag_is_named_by_birth_acceptance_and_place() -> None:
    trace = caused_trace({"traceparent": TRACE}, "", "b:7-0:1")
    asked, journal = laid_out(
        Cancel("x"), Schedule(Late(), after=5, subject="s"), traceparent=TRACE, hops="3"
    )

    assert asked[0] == CancelAppend("shop#x")
    assert asked[1] == TimerAppend(
        "shop#@b:7-0:1",
        Limits().max_timers,
        {
            "type": "order.late", "data": '{"order":"o-1"}', "subject": "s", **trace,
            "causationid": "s-1", "set": "b:7-0:1", "to": "shop", "kind": "once",
        },
        after_ms=5000,
    )  # fmt: skip
    assert journal == '[{"cancel":"x"},{"timer":"order.late","after_ms":"5000"}]'


def test_a_tag_names_the_timer_among_those_of_its_agent() -> None:
    [asked], journal = laid_out(Schedule(Late(), at=NOON, tag="late", to="desk"))

    assert (asked.timer, asked.due_ms, asked.after_ms) == ("shop#late", round(NOON.timestamp() * 1000), None)
    assert (asked.fields["to"], asked.fields["tag"], asked.fields["set"]) == ("desk", "late", "b:7-0:0")
    assert journal == '[{"timer":"order.late","to":"desk","tag":"late","at_ms":"1772366400000"}]'


def test_cron_has_no_trace_and_no_due_time_yet() -> None:
    cron = Cron("30 7 * * 1-5", Late(), tz="Europe/Berlin", missed="one")

    [asked], journal = laid_out(cron, traceparent=TRACE)

    assert (asked.timer, asked.due_ms, asked.after_ms) == ("shop#order.late", None, None)
    assert asked.fields == {
        "type": "order.late", "data": '{"order":"o-1"}', "causationid": "s-1", "set": "b:7-0:0", "to": "shop",
        "kind": "cron", "expression": "30 7 * * 1-5", "tz": "Europe/Berlin", "missed": "one", "tag": "order.late",
    }  # fmt: skip
    assert journal == (
        '[{"timer":"order.late","tag":"order.late","cron":"30 7 * * 1-5","tz":"Europe/Berlin"}]'
    )
