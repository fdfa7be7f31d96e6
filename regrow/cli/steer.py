"""What an operator asks of the watchdog: kill, stop, start, restart, revive agents and branches, drain nodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from regrow.cli.output import json_option, print_json, table
from regrow.cli.session import Session
from regrow.control import ask_watchdog, count_children, which_children
from regrow.tree_view import read_supervisors
from regrow_signals import views
from regrow_supervisor.restart_types import is_unreadable

__all__ = [
    "children_command",
    "delete_command",
    "drain_command",
    "kill_command",
    "restart_command",
    "revive_command",
    "rollback_command",
    "start_command",
    "stop_command",
]


def _ask(session: Session, op: str, target: str, as_json: bool, done: str) -> None:
    answer = ask_watchdog(session.connection, session.keys, op, {"target": target})
    if as_json:
        print_json({"op": op, "target": target, "answer": answer})
    else:
        click.echo(done)


@click.command("kill")
@click.argument("target")
@json_option
@click.pass_obj
def kill_command(session: Session, target: str, as_json: bool) -> None:
    """Kill TARGET: an agent's process (SIGKILL by its node), or a branch (`helpdesk/billing`) with all below it.

    The supervisor above brings it back. Not charged to the restart intensity, nor to the signal in hand.
    """
    _ask(session, "kill", target, as_json, f"{target} is being killed; `regrow events` shows it come back")


@click.command("stop")
@click.argument("target")
@json_option
@click.pass_obj
def stop_command(session: Session, target: str, as_json: bool) -> None:
    """Put TARGET (an agent, or a supervisor's path) on hold: nothing starts it again until `regrow start`."""
    _ask(session, "hold", target, as_json, f"{target} is on hold; `regrow start {target}` lifts it")


@click.command("start")
@click.argument("target")
@json_option
@click.pass_obj
def start_command(session: Session, target: str, as_json: bool) -> None:
    """Lift the hold of TARGET and start it."""
    _ask(session, "unhold", target, as_json, f"{target} may run again and is started")


@click.command("restart")
@click.argument("target")
@json_option
@click.pass_obj
def restart_command(session: Session, target: str, as_json: bool) -> None:
    """Have TARGET (an agent, or a branch) start anew: kill what runs, start what is stopped or parked; uncharged."""
    _ask(session, "restart", target, as_json, f"{target} starts anew; `regrow events` shows it")


@click.command("revive")
@click.argument("target", required=False)
@click.option("--unreadable", is_flag=True, help="All that are parked for a state that could not be read.")
@json_option
@click.pass_obj
def revive_command(session: Session, target: str | None, unreadable: bool, as_json: bool) -> None:
    """Bring a parked agent back, with a fresh restart budget; for a root that pauses: end its pause."""
    if (target is None) is not unreadable:
        raise click.UsageError("name one TARGET, or give --unreadable")
    if target is not None:
        _ask(session, "revive", target, as_json, f"{target} is back, with a fresh restart budget")
        return
    found = _unreadable_agents(session)
    for agent in found:
        ask_watchdog(session.connection, session.keys, "revive", {"target": agent})
    if as_json:
        print_json({"op": "revive", "agents": found})
    else:
        click.echo(
            f"{len(found)} agent(s) read their state once more: {', '.join(found) or 'none was parked for it'}"
        )


def _unreadable_agents(session: Session) -> list[str]:
    paths = session.connection.command(views.supervisor_paths(session.keys))
    states, _ = read_supervisors(session.connection, session.keys, paths)
    children = [child for state in states.values() for child in state.children.values()]
    return [child.id for child in children if child.status == "parked" and is_unreadable(child.reason)]


@click.command("drain")
@click.argument("node")
@json_option
@click.pass_obj
def drain_command(session: Session, node: str, as_json: bool) -> None:
    """Have NODE (`regrow tree` shows their ids) hand its agents to other nodes, uncharged, and end with code 0."""
    answer: dict[str, Any] = ask_watchdog(session.connection, session.keys, "drain", {"node": node})
    if as_json:
        print_json({"op": "drain", **answer})
    else:
        click.echo(f"{node} drains: {len(answer['agents'])} agent(s) go on elsewhere, then it ends")


@click.command("rollback")
@click.argument("application", metavar="MODULE:TREE")
@json_option
@click.pass_obj
def rollback_command(session: Session, application: str, as_json: bool) -> None:
    """Carry out the tree of MODULE:TREE though another one has replaced it: a watchdog's start does so only once.

    New children start, removed ones stop (their state is kept), the others run on.
    """
    from regrow_workers.application import load  # no other command here loads the application

    tree: Any = load(application).tree
    fields = {"name": tree.name, "definition": json.dumps(tree.definition()), "force": "1"}
    said: list[str] = ask_watchdog(session.connection, session.keys, "tree", fields)
    if as_json:
        print_json({"op": "rollback", "tree": tree.name, "answer": said})
        return
    for line in said:
        click.echo(line)


@click.command("children")
@click.argument("supervisor")
@json_option
@click.pass_obj
def children_command(session: Session, supervisor: str, as_json: bool) -> None:
    """The children of SUPERVISOR (its path, `helpdesk/billing`) as it sees them itself: the one started last first."""
    listed = session.connection.run(which_children(session.keys, supervisor))
    counts = session.connection.run(count_children(session.keys, supervisor))
    if as_json:
        children = [asdict(child) for child in listed]
        print_json({"supervisor": supervisor, "children": children, "counts": asdict(counts)})
        return
    rows = [(child.id, child.status, child.incarnation, child.type) for child in listed]
    click.echo(table(("child", "status", "incarnation", "type"), rows))
    click.echo(
        f"{counts.specs} specs, {counts.active} active, {counts.supervisors} supervisors, {counts.workers} workers"
    )


@click.command("delete")
@click.argument("agent")
@click.option(
    "--force", is_flag=True, help="Also with signals, dead letters or effects in it: they are lost."
)
@json_option
@click.pass_obj
def delete_command(session: Session, agent: str, force: bool, as_json: bool) -> None:
    """Forget AGENT for good, with its state and mailbox. It must be out of the tree."""
    gone = session.client.delete(agent, force=force)
    if as_json:
        print_json({"op": "delete", "agent": agent, **asdict(gone)})
    else:
        click.echo(
            f"{agent} is deleted, with {gone.signals} signals, {gone.dead_letters} dead letters and {gone.outbox} "
            "open effects and emits"
        )
        if gone.children:
            click.echo(f"agents that it had spawned live on without it: {', '.join(gone.children)}")
