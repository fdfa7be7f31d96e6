"""``regrow state``, ``tree`` and ``events``: what Redis holds, for people and for machines. Nothing is changed."""

from __future__ import annotations

import json
from typing import Any

import click

from regrow.cli.output import ago, json_option, parse_json, print_json, stamp
from regrow.cli.session import Session
from regrow.past_state import past_state
from regrow.tree_view import LISTED, Branch, Budget, Leaf, Sums, read_tree
from regrow_signals import views
from regrow_signals.errors import NoSuchAgent

__all__ = ["events_command", "state_command", "tree_command"]

#: entries read at once while events are followed
FOLLOW_COUNT = 100

#: more than a journal keeps
JOURNAL_COUNT = 100_000


@click.command("state")
@click.argument("agent")
@click.option(
    "--at", type=click.IntRange(min=0), default=None, metavar="VERSION", help="As it was at a version."
)
@json_option
@click.pass_obj
def state_command(session: Session, agent: str, at: int | None, as_json: bool) -> None:
    """The last committed state of AGENT, and where it stands."""
    if at is not None:
        _show_past(session, agent, at, as_json)
        return
    record, backlog, dead = session.connection.pipeline(
        [
            views.agent_record(session.keys, agent),
            views.mailbox_length(session.keys, agent),
            views.dead_length(session.keys, agent),
        ]
    )
    for answer in (record, backlog, dead):
        if isinstance(answer, Exception):
            raise answer
    if not record:
        raise NoSuchAgent(f"no agent {agent} is registered; `regrow tree` shows those there are")
    document = {
        "agent": agent,
        "type": record.get("type"),
        "status": record.get("status"),
        "version": int(record.get("version") or 0),
        "incarnation": int(record.get("incarnation") or 0),
        "node": record.get("node"),
        "backlog": backlog,
        "dead": dead,
        "last_error": record.get("last_error") or None,
        "state": parse_json(record.get("state") or record.get("init")),
    }
    if as_json:
        print_json(document)
        return
    click.echo(
        f"{agent} ({document['type']}) is {document['status']}, version {document['version']}, incarnation "
        f"{document['incarnation']}; {backlog} waiting, {dead} dead"
    )
    click.echo(json.dumps(document["state"], indent=2, ensure_ascii=False))
    if document["last_error"]:
        click.echo(f"last error:\n{document['last_error']}")


def _show_past(session: Session, agent: str, version: int, as_json: bool) -> None:
    record = session.connection.command(views.agent_record(session.keys, agent))
    if not record:
        raise NoSuchAgent(f"no agent {agent} is registered; `regrow tree` shows those there are")
    lines = session.connection.command(views.journal(session.keys, agent, count=JOURNAL_COUNT))
    found = past_state(agent, record, [line for _, line in lines], version)
    at = stamp(found.line.get("at_ms"))
    document = {
        "agent": agent,
        "version": version,
        "signal": found.line.get("signal"),
        "type": found.line.get("type"),
        "at": at,
        "directives": parse_json(found.line.get("directives")),
        "state": parse_json(found.state),
    }
    if as_json:
        print_json(document)
        return
    after = f"after {document['type']} ({document['signal']}) of {at}" if found.line else "as it began"
    click.echo(f"{agent} at version {version}, {after}")
    click.echo(json.dumps(document["state"], indent=2, ensure_ascii=False))


@click.command("tree")
@click.argument("name", required=False, default="")
@click.option(
    "--all", "-a", "whole", is_flag=True, help=f"Each child, also of supervisors with more than {LISTED}."
)
@json_option
@click.pass_obj
def tree_command(session: Session, name: str, whole: bool, as_json: bool) -> None:
    """Who lives, since when, how often restarted and why; of NAME, an agent or a supervisor's path, or of all."""
    view = read_tree(session.connection, session.keys, listed=None if whole else LISTED, only=name)
    if as_json:
        print_json(view.to_json())
        return
    leader = "a watchdog leads" if view.leader else "NO WATCHDOG LEADS: nothing that dies is brought back"
    click.echo(f"namespace {session.settings.namespace}: {leader}, {len(view.nodes)} node(s)")
    for node in view.nodes:
        click.echo(
            f"  node {node['id']}  {node.get('kind', '?')} on {node.get('host', '?')} pid {node.get('pid', '?')}  "
            f"{node.get('status', '?')}{_labels(node.get('labels'))}"
        )
    if not view.roots:
        click.echo("no tree is stored yet: start `regrow up APP:TREE` or a watchdog")
    for root in view.roots:
        _draw(root, "", "", view.now_ms)


def _labels(text: str | None) -> str:
    labels = parse_json(text)
    return "  " + ",".join(f"{name}={value}" for name, value in labels.items()) if labels else ""


def _draw(branch: Branch, first: str, rest: str, now_ms: int) -> None:
    click.echo(first + _trunk(branch, now_ms))
    if branch.sums is not None:
        head = rest + ("├─ " if branch.children else "└─ ")
        click.echo(head + _sums(branch.sums, len(branch.children)))
    for place, child in enumerate(branch.children):
        last = place == len(branch.children) - 1
        head, tail = ("└─ ", "   ") if last else ("├─ ", "│  ")
        if isinstance(child, Branch):
            _draw(child, rest + head, rest + tail, now_ms)
        else:
            click.echo(rest + head + _leaf(child, now_ms))


def _trunk(branch: Branch, now_ms: int) -> str:
    if branch.unreadable:
        return f"{branch.name}  cannot be read: {branch.unreadable}"
    parts = [branch.name, branch.strategy, branch.status]
    if branch.incarnation > 1:
        parts.append(f"incarnation {branch.incarnation}")
    if branch.started_ms:
        parts.append(f"up {ago(branch.started_ms, now_ms)}")
    parts.append(_budget(branch.budget))
    if branch.reason:
        parts.append(f"last end: {branch.reason}")
    parts += _intents(branch.due_ms, now_ms, held=branch.held)
    return "  ".join(part for part in parts if part)


def _sums(sums: Sums, listed: int) -> str:
    """In place of the children: how many, at what, and which of them follow."""
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(sums.statuses.items()))
    parts = [f"{sums.children} children: {statuses or 'none registered'}", f"{sums.backlog} waiting"]
    if sums.dead:
        parts.append(f"{sums.dead} dead")
    parts.append("of those below something is to be told" if listed else "--all lists them")
    return "  ".join(parts)


def _leaf(leaf: Leaf, now_ms: int) -> str:
    parts = [leaf.id, leaf.type, leaf.status, f"incarnation {leaf.incarnation}"]
    if leaf.slot:
        parts.append(f"in slot {leaf.slot}")
    elif leaf.pooled:
        parts.append("pooled")
    elif leaf.status in ("running", "blocked"):
        parts.append(f"up {ago(leaf.started_ms, now_ms)}")
    parts.append(f"restarts {leaf.restarts}")
    if leaf.budget is not None:
        parts.append(f"its own {_budget(leaf.budget)}")
    if leaf.reason:
        parts.append(f"last end: {leaf.reason}")
    postponed = f", {leaf.postponed} of them postponed" if leaf.postponed else ""
    parts.append(f"{_count(leaf.backlog)} waiting{postponed}")
    if leaf.dead != 0:
        parts.append(f"{_count(leaf.dead)} dead")
    if leaf.waiting_for:
        parts.append(leaf.waiting_for)
    parts += _intents(leaf.due_ms, now_ms, held=leaf.held)
    return "  ".join(parts)


def _budget(budget: Budget | None) -> str:
    if budget is None:
        return ""
    return f"budget {budget.used} of {budget.max_restarts} in {budget.max_seconds:g} s used"


def _intents(due_ms: int, now_ms: int, *, held: bool) -> list[str]:
    found = [f"starts in {max(0, due_ms - now_ms) / 1000:.1f} s"] if due_ms else []
    return [*found, "on hold"] if held else found


def _count(number: int | None) -> str:
    """What a key of the wrong type holds cannot be counted."""
    return "unknown" if number is None else str(number)


@click.command("events")
@click.option(
    "--count", "-c", default=50, show_default=True, type=click.IntRange(1), help="The last so many."
)
@click.option("--follow", "-f", is_flag=True, help="Go on, until Ctrl-C.")
@json_option
@click.pass_obj
def events_command(session: Session, count: int, follow: bool, as_json: bool) -> None:
    """Every start, exit, restart, escalation, dead letter and change of leadership. With --json: one line each."""
    listed = session.connection.command(views.events(session.keys, count=count, newest=True))
    for entry, fields in listed:
        _show_event(entry, fields, as_json)
    after = listed[-1][0] if listed else "0-0"
    while follow:
        for entry, raw in session.connection.read_stream(
            session.keys.events, after, count=FOLLOW_COUNT, block_ms=1000
        ):
            _show_event(entry, {name: views.shown(value) for name, value in raw.items()}, as_json)
            after = entry


def _show_event(entry: str, fields: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"entry": entry, **fields}, ensure_ascii=False))
        return
    shown = dict(fields)
    at, event = shown.pop("at_ms", None), shown.pop("event", "?")
    details = "  ".join(f"{name}={_line(value)}" for name, value in shown.items() if value)
    click.echo(f"{stamp(at)}  {event:<16} {details}")


def _line(value: object) -> str:
    """A value on one line, cut: tracebacks are in ``last_error``."""
    text = " ".join(str(value).split())
    return text if len(text) <= 160 else text[:157] + "..."
