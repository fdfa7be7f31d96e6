"""``regrow publish``, ``subscribe``, ``unsubscribe``, ``subscriptions``: one signal to many, and who they are."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any, cast, get_args

import click

from regrow.cli.output import json_option, print_json, table
from regrow.cli.session import Session
from regrow_signals import strict_json
from regrow_signals.subscriptions import Policy

__all__ = ["publish_command", "subscribe_command", "subscriptions_command", "unsubscribe_command"]


@click.command("publish")
@click.argument("type_name", metavar="TYPE")
@click.argument("data", default="{}")
@click.option(
    "--id", "signal_id", default=None, help="The signal's id: publishing it again reaches only who lacks it."
)
@click.option("--subject", default=None, help="CloudEvents' subject.")
@json_option
@click.pass_obj
def publish_command(  # noqa: PLR0917  click passes them by name
    session: Session, type_name: str, data: str, signal_id: str | None, subject: str | None, as_json: bool
) -> int:
    """Send a signal TYPE with DATA (JSON; `-` reads it from stdin) to every agent that subscribes to it.

    Exit code 0: all of them accepted it, or there are none; 1: at least one refused it.
    """
    text = sys.stdin.read() if data == "-" else data
    value = strict_json.loads(
        text, max_bytes=session.settings.max_signal, max_depth=session.settings.max_json_depth
    )
    told = session.client.publish(type_name, value, id=signal_id, subject=subject)
    if as_json:
        accepted = [
            {"agent": one.agent, "entry": one.entry, "duplicate": one.duplicate} for one in told.receipts
        ]
        refused = [{"agent": agent, "error": str(error)} for agent, error in told.refused.items()]
        print_json({"id": told.signal_id, "accepted": accepted, "refused": refused})
        return 1 if refused else 0
    for one in told.receipts:
        again = ", which was accepted before" if one.duplicate else ""
        click.echo(f"{one.agent} accepted signal {told.signal_id} as {one.entry}{again}")
    for agent, error in told.refused.items():
        click.echo(f"{agent} refused it: {error}", err=True)
    if not told.receipts and not told.refused:
        click.echo(f"nobody subscribes to {type_name}; `regrow subscriptions` shows who to what")
    return 1 if told.refused else 0


@click.command("subscribe")
@click.argument("agent")
@click.argument("pattern")
@click.option("--priority", default=0, show_default=True, help="-100 to 100; the highest is served first.")
@click.option(
    "--policy",
    type=click.Choice(get_args(Policy)),
    default="refuse",
    show_default=True,
    help="What is done while the mailbox of AGENT is full.",
)
@json_option
@click.pass_obj
def subscribe_command(  # noqa: PLR0917  click passes them by name
    session: Session, agent: str, pattern: str, priority: int, policy: str, as_json: bool
) -> None:
    """Have AGENT get what is published under types that PATTERN fits: `*` is one segment, `**` any number."""
    new = session.client.subscribe(agent, pattern, priority=priority, policy=cast("Policy", policy))
    if as_json:
        print_json({"agent": agent, "pattern": pattern, "new": new})
    else:
        click.echo(f"{agent} subscribes to {pattern}{'' if new else ', as it did before'}")


@click.command("unsubscribe")
@click.argument("agent")
@click.argument("pattern")
@json_option
@click.pass_obj
def unsubscribe_command(session: Session, agent: str, pattern: str, as_json: bool) -> int:
    """End a subscription of AGENT. Exit code 1: there was none to PATTERN."""
    ended = session.client.unsubscribe(agent, pattern)
    if as_json:
        print_json({"agent": agent, "pattern": pattern, "ended": ended})
    else:
        click.echo(f"{agent} {'no longer subscribes' if ended else 'did not subscribe'} to {pattern}")
    return 0 if ended else 1


@click.command("subscriptions")
@click.argument("agent", required=False)
@click.option("--type", "type_name", default=None, help="Whom a signal of this type reaches, in that order.")
@json_option
@click.pass_obj
def subscriptions_command(session: Session, agent: str | None, type_name: str | None, as_json: bool) -> None:
    """Who subscribes to what: all, or AGENT alone."""
    found = session.client.subscriptions(agent, type=type_name)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        click.echo("no subscriptions")
        return
    rows: list[tuple[Any, ...]] = [(one.pattern, one.agent, one.priority, one.policy) for one in found]
    click.echo(table(("pattern", "agent", "priority", "policy"), rows))
