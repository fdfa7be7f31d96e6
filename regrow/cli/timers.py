"""``regrow timers``: what is to be sent when, and taking one of them away."""

from __future__ import annotations

from typing import Any, cast

import click

from regrow.cli.output import json_option, print_json, stamp, table
from regrow.cli.session import Session
from regrow_signals import views
from regrow_signals.errors import NoSuchAgent, Refused, RegrowError
from regrow_signals.schedules import declared_tags
from regrow_signals.timers import cancel_timer, tag_of, timer_id

__all__ = ["timers_command"]


@click.group("timers")
def timers_command() -> None:
    """Timers and cron: what is to be sent when."""


@timers_command.command("list")
@click.argument("agent", required=False)
@click.option("--count", "-c", default=50, show_default=True, type=click.IntRange(1), help="At most so many.")
@json_option
@click.pass_obj
def list_timers(session: Session, agent: str | None, count: int, as_json: bool) -> None:
    """Timers of AGENT, or of all agents, the next first."""
    ids = _ids(session, agent, count)
    answers: list[Any] = session.connection.pipeline([views.timer_record(session.keys, one) for one in ids])
    for answer in answers:
        if isinstance(answer, RegrowError):
            raise answer
    found = [(one, cast("views.Record", record)) for one, record in zip(ids, answers, strict=True) if record]
    found.sort(key=lambda each: _due(each[1]))
    if as_json:
        print_json([{"timer": one, **record} for one, record in found[:count]])
        return
    if not found:
        click.echo(f"{agent} has no timers" if agent else "no timers are set")
        return
    rows = [
        (record.get("agent", "?"), tag_of(one), stamp(record.get("due_ms")), _rhythm(record),
         record.get("type", "?"), record.get("to", "?"))
        for one, record in found[:count]
    ]  # fmt: skip
    click.echo(table(("agent", "tag", "due", "again", "sends", "to"), rows))


@timers_command.command("cancel")
@click.argument("agent")
@click.argument("tag")
@click.pass_obj
def cancel(session: Session, agent: str, tag: str) -> None:
    """Take the timer TAG of AGENT away, as `list` names it."""
    if not session.connection.call(cancel_timer(session.keys, agent, tag)):
        raise Refused(f"{agent} has no timer {tag}; `regrow timers list {agent}` shows those it has")
    click.echo(f"timer {timer_id(agent, tag)} is cancelled")


def _ids(session: Session, agent: str | None, count: int) -> list[str]:
    if agent is None:
        return session.connection.command(views.timer_ids(session.keys, count=count))
    record = session.connection.command(views.agent_record(session.keys, agent))
    if not record:
        raise NoSuchAgent(f"no agent {agent} is registered; `regrow tree` shows those there are")
    own = session.connection.command(views.own_timer_ids(session.keys, agent))
    return [*(timer_id(agent, tag) for tag in declared_tags(record.get("schedules", ""))), *own]


def _due(record: views.Record) -> int:
    text = record.get("due_ms", "")
    return int(text) if text.isdecimal() else 0


def _rhythm(record: views.Record) -> str:
    declared = ", declared" if record.get("declared") else ""
    if record.get("kind") == "cron":
        return f"{record.get('expression')} {record.get('tz')}, missed={record.get('missed')}{declared}"
    if record.get("kind") == "every":
        return f"every {int(record.get('every_ms') or 0) / 1000:g} s, missed={record.get('missed')}{declared}"
    return "once"
