"""The cron reporter on a virtual clock: nights on which clocks change, nights that nobody was awake for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples.reporter.__main__ import judge
from examples.reporter.app import MAILBOX, Day, ReportDue, Reporter, Sales, Sold, Till, mail, tree
from regrow import Context, EffectContext, Emit, Signal, Supervisor
from regrow.testing import Harness

HOUR = 3600
# Without the till, which would sell 86,400 times a day.
OFFICE = Supervisor("shop", [Reporter.child("reporter")])


def test_a_sale_is_counted_and_the_report_begins_a_new_day() -> None:
    day, _ = Reporter.cmd(Day(sales=1, cents=500), Sold(cents=250))
    assert (day.sales, day.cents) == (2, 750)

    due = ReportDue()
    ctx = Context.example(Signal.of(due, time="2026-03-29T01:00:00Z"))
    day, directives = Reporter.cmd(day, due, ctx=ctx)

    assert (day.sales, day.cents) == (0, 0)
    assert directives == [mail.run("2026-03-29T01:00:00Z", 2, 750)]


def test_second_try_of_a_mail_is_the_same_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAILBOX, str(tmp_path))

    for _ in range(2):
        mail(EffectContext(id="e-1"), "today", 2, 7_05)

    assert [file.read_text() for file in tmp_path.iterdir()] == ["2 sales, 7.05, until today\n"]


@pytest.mark.parametrize(
    ("begins", "due"),
    [
        # The hour from 2 to 3 is left out: the report comes at its end, 03:00 in Berlin.
        (datetime(2026, 3, 27, 12, tzinfo=UTC), ["28T01:30", "29T01:00", "30T00:30"]),
        # It comes twice: one report, in the first of them.
        (datetime(2026, 10, 23, 12, tzinfo=UTC), ["24T00:30", "25T00:30", "26T01:30"]),
    ],
)
def test_each_night_has_one_report_also_when_clocks_change(
    harness: type[Harness], begins: datetime, due: list[str]
) -> None:
    shop = harness(OFFICE, now=begins)
    for _ in range(3):
        shop.send("reporter", Sold(cents=100))
        shop.advance(12 * HOUR)
        shop.kill("reporter", at="before_commit")
        shop.advance(12 * HOUR)

    reports = shop.effects("reporter")

    assert [str(each.args["due"])[8:16] for each in reports] == due
    assert [each.args["sales"] for each in reports] == [1, 1, 1]


def test_of_nights_on_which_the_reporter_did_not_run_there_is_one_report(harness: type[Harness]) -> None:
    shop = harness(OFFICE, now=datetime(2026, 6, 1, 12, tzinfo=UTC))
    shop.client.terminate_child("shop", "reporter")
    shop.advance(72 * HOUR)
    assert shop.waiting("reporter") == 1

    shop.client.restart_child("shop", "reporter")
    shop.run()

    assert len(shop.effects("reporter")) == 1


def test_till_sells_each_second_and_after_a_kill(harness: type[Harness]) -> None:
    shop = harness(tree)
    shop.advance(2)
    shop.kill("till", at="before_commit")
    shop.advance(3)
    shop.kill_watchdog()
    shop.advance(2)

    assert len(shop.state("till", Till).due) == 7
    assert shop.state("reporter", Reporter).sales == 7


def test_a_sale_goes_to_the_reporter() -> None:
    _, directives = Till.cmd(Sales(), Signal.of("timer.sell", time="2026-03-29T01:00:00Z"))

    [emit] = directives
    assert isinstance(emit, Emit)
    assert (emit.type, emit.to) == ("till.sold", "reporter")


def test_verdict_sees_a_second_without_a_sale() -> None:
    gap = Sales(due=("2026-03-29T01:00:00Z", "2026-03-29T01:00:02Z"))

    findings = judge(gap, Day(sales=3), ["0 sales, 0.00, until t\n"], ["x"])

    assert [finding.holds for finding in findings] == [False] * 4
