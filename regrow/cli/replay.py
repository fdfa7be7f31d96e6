"""``regrow replay``: an agent's journal run again with the code of today."""

from __future__ import annotations

import json
from typing import Any

import click

from regrow.cli.output import json_option, print_json, stamp
from regrow.cli.session import Session
from regrow_signals import views
from regrow_signals.errors import ApplicationError, NoSuchAgent
from regrow_workers.agent import Agent
from regrow_workers.application import load
from regrow_workers.purity import guard
from regrow_workers.replay import Replayed, ReplayStep, replay

__all__ = ["replay_command"]

#: more than a journal keeps
JOURNAL_COUNT = 100_000


@click.command("replay")
@click.argument("agent")
@click.argument("application", metavar="APP:TREE")
@click.option(
    "--from", "first", type=click.IntRange(min=0), default=0, metavar="VERSION", help="The first to show."
)
@click.option(
    "--to", "last", type=click.IntRange(min=0), default=None, metavar="VERSION", help="The last one."
)
@json_option
@click.pass_obj
def replay_command(  # noqa: PLR0917  click passes them by name
    session: Session, agent: str, application: str, first: int, last: int | None, as_json: bool
) -> int:
    """Run AGENT's journal again, in this process, with the code of APP:TREE. Nothing is sent and nothing is written.

    Exit code 0: all came out as it did; 1: a transition came out otherwise, the version is named.
    """
    record = session.connection.command(views.agent_record(session.keys, agent))
    if not record:
        raise NoSuchAgent(f"no agent {agent} is registered; `regrow tree` shows those there are")
    agent_type = _type_of(record.get("type", ""), application)
    lines = session.connection.command(views.journal(session.keys, agent, count=JOURNAL_COUNT))
    guard.set_mode("enforce")
    found = replay(
        agent_type, record, [line for _, line in lines], agent=agent, first=first, last=last,
        limits=session.settings.limits,
    )  # fmt: skip
    if as_json:
        print_json({
            "agent": agent, "application": application, "differs_at": found.differs_at, "rerun": found.rerun,
            "steps": [_document(step) for step in found.steps],
        })  # fmt: skip
    else:
        for step in found.steps:
            _show(step)
        click.echo(_verdict(agent, application, found))
    return 0 if found.differs_at is None else 1


def _type_of(name: str, application: str) -> type[Agent[Any]]:
    types = load(application).agent_types
    if name not in types:
        raise ApplicationError(f"{application} has no agent type {name!r}; it has {', '.join(sorted(types))}")
    return types[name]


def _verdict(agent: str, application: str, found: Replayed) -> str:
    left_out = len(found.steps) - found.rerun
    more = f"; {left_out} could not be run again" if left_out else ""
    if found.differs_at is not None:
        return f"{agent} comes out otherwise with {application}, from version {found.differs_at} on{more}"
    if not found.steps:
        return f"{agent} has no transition of these versions in its journal"
    return f"{found.rerun} transitions of {agent} came out as they did{more}"


def _show(step: ReplayStep) -> None:
    click.echo(f"{step.version:>6}  {step.type}  {step.signal_id}  {stamp(step.at_ms)}  {_outcome(step)}")
    for name, (old, new) in step.changes().items():
        click.echo(f"          {name}: {_short(old)} -> {_short(new)}")
    for directive in step.directives:
        click.echo(f"          {' '.join(f'{name} {value}' for name, value in directive.items())}")
    if step.error and step.differs:
        click.echo(f"          {step.error.strip().splitlines()[-1][:200]}")


def _outcome(step: ReplayStep) -> str:
    if step.again is None:
        return f"{step.outcome}; not run again: {step.why}"
    if not step.differs:
        return step.outcome
    return f"DIFFERS ({', '.join(step.differs)}): was {step.outcome}, now {step.again}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _document(step: ReplayStep) -> dict[str, object]:
    return {
        "version": step.version, "signal": step.signal_id, "type": step.type, "at_ms": step.at_ms,
        "outcome": step.outcome, "again": step.again, "differs": list(step.differs), "why": step.why or None,
        "error": step.error or None, "directives": list(step.directives),
        "changes": {name: {"from": old, "to": new} for name, (old, new) in step.changes().items()},
        "state": None if step.after is None else json.loads(step.after),
    }  # fmt: skip
