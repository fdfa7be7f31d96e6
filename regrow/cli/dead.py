"""``regrow dead``: list, retry and drop dead letters."""

from __future__ import annotations

import click

from regrow.cli.output import json_option, print_json, stamp, table
from regrow.cli.session import Session
from regrow_signals import views
from regrow_signals.client import Client
from regrow_signals.errors import BadInput, NoSuchAgent, Refused

__all__ = ["dead_command"]

#: how many letters are read at once when all of an agent's are meant
PAGE = 500


@click.group("dead")
def dead_command() -> None:
    """Dead letters: signals that could not be applied, kept with their reason."""


@dead_command.command("list")
@click.argument("agent")
@click.option(
    "--count",
    "-c",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="At most so many, the oldest first.",
)
@json_option
@click.pass_obj
def list_letters(session: Session, agent: str, count: int, as_json: bool) -> None:
    """Dead letters of AGENT."""
    letters = session.client.dead_letters(agent, count=count)
    if not letters and not session.connection.command(views.agent_record(session.keys, agent)):
        raise NoSuchAgent(f"no agent {agent} is registered; `regrow tree` shows those there are")
    if as_json:
        print_json([{"letter": letter, **fields} for letter, fields in letters])
        return
    if not letters:
        click.echo(f"{agent} has no dead letters")
        return
    rows = [
        (letter, stamp(fields.get("dead_ms")), fields.get("type", "?"), fields.get("id", "?"), _why(fields))
        for letter, fields in letters
    ]
    click.echo(table(("letter", "died", "type", "signal", "reason"), rows))


@dead_command.command("retry")
@click.argument("agent")
@click.argument("letters", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All dead letters that the agent has now.")
@click.pass_obj
def retry_letters(session: Session, agent: str, letters: tuple[str, ...], every: bool) -> int:
    """Put LETTERS of AGENT at the end of its mailbox, under a new id.

    With --all one that is refused stays where it is, and does not keep the others from being sent.
    """
    refused = 0
    for letter in _chosen(session.client, agent, letters, every):
        try:
            receipt = session.client.dead_retry(agent, letter)
        except (Refused, BadInput) as error:
            if not every:
                raise
            refused += 1
            click.echo(f"regrow: {letter} stays a dead letter: {error}", err=True)
        else:
            click.echo(f"{letter} is sent again as {receipt.signal_id}")
    return 1 if refused else 0


@dead_command.command("drop")
@click.argument("agent")
@click.argument("letters", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All dead letters that the agent has now.")
@click.pass_obj
def drop_letters(session: Session, agent: str, letters: tuple[str, ...], every: bool) -> None:
    """Delete LETTERS of AGENT for good."""
    for letter in _chosen(session.client, agent, letters, every):
        click.echo(f"{letter} (signal {session.client.dead_drop(agent, letter)}) is dropped")


def _chosen(client: Client, agent: str, letters: tuple[str, ...], every: bool) -> tuple[str, ...]:
    if bool(letters) == every:
        raise click.UsageError("name the letters (`regrow dead list` shows them), or give --all; not both")
    if not every:
        return letters
    found: list[str] = []
    while page := client.dead_letters(agent, after=found[-1] if found else "", count=PAGE):
        found += [letter for letter, _ in page]
    return tuple(found)


def _why(fields: dict[str, str]) -> str:
    error = fields.get("error", "").strip().splitlines()
    return f"{fields.get('reason', '?')}: {error[-1][:120]}" if error else fields.get("reason", "?")
