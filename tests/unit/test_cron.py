"""When cron expressions are due: zones, daylight saving, aliases; and what is no expression."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrow_signals.cron import parse_cron
from regrow_signals.errors import BadInput

BERLIN = "Europe/Berlin"


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def due(expression: str, after: str, count: int = 3, tz: str = BERLIN) -> list[str]:
    """The next times, as the zone's clocks show them."""
    ticks = islice(parse_cron(expression, tz).ticks(ms(after)), count)
    return [datetime.fromtimestamp(tick / 1000, ZoneInfo(tz)).strftime("%d %H:%M%z") for tick in ticks]


def test_an_expression_goes_by_the_clocks_of_its_zone() -> None:
    assert due("30 7 * * *", "2026-01-05T12:00Z", 1) == ["06 07:30+0100"]
    assert due("30 7 * * *", "2026-07-05T12:00Z", 1) == ["06 07:30+0200"]
    assert due("30 7 * * *", "2026-07-05T12:00Z", 1, tz="UTC") == ["06 07:30+0000"]


def test_a_tick_is_after_the_given_instant_never_at_it() -> None:
    hourly = parse_cron("@hourly")

    assert hourly.after(ms("2026-01-01T10:00:00Z")) == ms("2026-01-01T11:00Z")
    assert hourly.after(ms("2026-01-01T10:00:00Z") - 1) == ms("2026-01-01T10:00Z")
    assert hourly.after(ms("2026-01-01T10:00:00Z") + 1) == ms("2026-01-01T11:00Z")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # 02:30 does not exist on the 29th: due when the clocks have jumped, once.
        ("30 2 * * *", ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("0,30 2 * * *", ["28 02:00+0100", "28 02:30+0100", "29 03:00+0200", "30 02:00+0200"]),
        ("0 3 * * *", ["28 03:00+0100", "29 03:00+0200", "30 03:00+0200"]),
    ],
)
def test_the_hour_that_is_left_out_in_spring(expression: str, expected: list[str]) -> None:
    assert due(expression, "2026-03-28T00:00+01:00", len(expected)) == expected


def test_what_goes_by_elapsed_time_knows_no_gap() -> None:
    assert due("*/30 * * * *", "2026-03-29T01:00+01:00", 3) == [
        "29 01:30+0100",
        "29 03:00+0200",
        "29 03:30+0200",
    ]


def test_the_hour_that_comes_twice_in_autumn() -> None:
    assert due("30 2 * * *", "2026-10-24T12:00+02:00", 2) == ["25 02:30+0200", "26 02:30+0100"]
    twice = ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]
    assert due("*/30 * * * *", "2026-10-25T01:30+02:00", 4) == twice


def test_within_the_second_of_the_two_hours_the_first_ones_tick_is_over() -> None:
    assert due("45 2 * * *", "2026-10-25T02:30+01:00", 1) == ["26 02:45+0100"]


@pytest.mark.parametrize(
    ("alias", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 jan *"),
    ],
)
def test_aliases(alias: str, expression: str) -> None:
    now = ms("2026-05-07T09:10Z")
    assert parse_cron(alias).after(now) == parse_cron(expression).after(now)


@pytest.mark.parametrize(
    ("expression", "tz", "told"),
    [
        ("* * * *", "UTC", "has 4 fields, not five"),
        ("* * * * * *", "UTC", "has 6 fields, not five"),
        ("", "UTC", "has 0 fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 0 30 2 *", "UTC", "Bad day-of-month"),
        ("@reboot", "UTC", "no such alias; there are @yearly"),
        ("* " * 200, "UTC", "give five fields"),
        (None, "UTC", "give five fields"),
        ("* * * * *", "Mars/Olympus", "tz='Mars/Olympus' is no time zone"),
        ("* * * * *", "../etc/passwd", "is no time zone"),
        ("* * * * *", None, "is no time zone"),
    ],
)
def test_what_is_no_expression_or_no_zone_is_named(expression: str, tz: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        parse_cron(expression, tz)


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(BadInput, match="no time of this calendar"):
        parse_cron("* * * * *").after(10**17)


minutes = st.sampled_from(["*", "*/7", "0", "30", "15,45", "5-9"])
hours = st.sampled_from(["*", "2", "2,3", "1-3", "*/5"])
days = st.sampled_from(["*", "1", "29", "*/2", "L"])
weekdays = st.sampled_from(["*", "SUN", "1-5"])
instants = st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)).map(
    lambda time: round(time.replace(tzinfo=UTC).timestamp() * 1000)
)


@given(minutes, hours, days, weekdays, st.sampled_from(["UTC", BERLIN, "Australia/Lord_Howe"]), instants)
def test_ticks_rise_and_looking_back_finds_the_last_one(
    minute: str, hour: str, day: str, weekday: str, tz: str, start: int
) -> None:
    expression = parse_cron(f"{minute} {hour} {day} * {weekday}", tz)

    ticks = list(islice(expression.ticks(start), 5))

    assert [start, *ticks] == sorted({start, *ticks})
    assert expression.after(ticks[2]) == ticks[3]
    assert expression.after(ticks[3] - 1) == ticks[3]
    assert expression.before(ticks[3], 1) <= ticks[3]
