"""Timers that a class declares. They are in Redis: no process has to live for the next one to come.

``@every(1, missed="all")``: what came due while nobody could fire timers comes afterwards, all of it.
``@cron(..., tz=..., missed="one")``: of nights that were missed, one report. On the nights when clocks change there is
one as on every other.
"""

from __future__ import annotations

import os
from pathlib import Path

from regrow import (
    Agent,
    Context,
    Done,
    EffectContext,
    Emit,
    Payload,
    Signal,
    State,
    Step,
    Supervisor,
    cron,
    effect,
    every,
    handles,
)

MAILBOX = "REPORTER_MAILBOX"
RECENT = 100


class Sold(Payload, type="till.sold"):
    cents: int


class ReportDue(Payload, type="report.due"):
    pass


@effect(retries=5, backoff=0.1)
def mail(run: EffectContext, due: str, sales: int, cents: int) -> str:
    """A mail is a file here. Its name is made of ``run.id``, so a second try writes the same one again."""
    text = f"{sales} sales, {cents // 100}.{cents % 100:02}, until {due}\n"
    (Path(os.environ[MAILBOX]) / f"{run.id}.txt").write_text(text, encoding="utf-8")
    return text


class Sales(State):
    due: tuple[str, ...] = ()
    """When the last ones were due."""


class Till(Agent[Sales], name="till"):
    @every(1, missed="all")
    def sell(self, sales: Sales, signal: Signal, ctx: Context) -> Step[Sales]:
        after = sales.evolve(due=(*sales.due, str(signal.time))[-RECENT:])
        return after, Emit(Sold(cents=ctx.random.randint(50, 999)), to="reporter")


class Day(State):
    sales: int = 0
    cents: int = 0
    mailed: tuple[str, ...] = ()


class Reporter(Agent[Day], name="reporter"):
    @handles(Sold)
    def sold(self, day: Day, sold: Sold) -> Step[Day]:
        return day.evolve(sales=day.sales + 1, cents=day.cents + sold.cents)

    @cron("30 2 * * *", ReportDue, tz="Europe/Berlin", missed="one")
    def night(self, day: Day, _due: ReportDue, ctx: Context) -> Step[Day]:
        return day.evolve(sales=0, cents=0), mail.run(ctx.signal.time or str(ctx.now), day.sales, day.cents)

    @handles(mail.done)
    def mailed(self, day: Day, done: Done[str]) -> Step[Day]:
        return day.evolve(mailed=(*day.mailed, done.result)[-RECENT:])


tree = Supervisor("shop", [Till.child("till"), Reporter.child("reporter")], max_restarts=100)
