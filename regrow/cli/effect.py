"""``regrow effect``: list committed effects, tell the outcome of one, have it tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from regrow.cli.output import json_option, print_json, stamp, table
from regrow.cli.session import Session
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.effect_progress import stored_progress
from regrow_signals.effect_store import EffectGone, intervene
from regrow_signals.effect_tags import cancel_tagged
from regrow_signals.errors import RegrowError
from regrow_signals.ids import check_id, check_tag
from regrow_signals.strict_json import dumps, loads

__all__ = ["effect_command"]

MOST = 10_000
"""Effects of a queue that are looked through for those of one agent."""

FORCE = click.option(
    "--force", is_flag=True, help="Also while an executor holds it: what it says then is refused."
)


@click.group("effect")
def effect_command() -> None:
    """Effects that are committed and not settled (`regrow effects` is the service that runs them)."""


@effect_command.command("ls")
@click.option("--agent", "-a", default=None, help="Those of one agent.")
@click.option("--count", "-c", default=50, show_default=True, type=click.IntRange(1, MOST))
@json_option
@click.pass_obj
def list_effects(session: Session, agent: str | None, count: int, as_json: bool) -> None:
    """Effects by the time they are looked at next, at most --count of each queue."""
    found = _effects(session, agent, count)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no effect waits or runs")
        return
    rows = [
        (
            one["effect"],
            one.get("agent", "?"),
            one.get("name", "?"),
            one.get("tag", "-"),
            one.get("attempts", "0"),
            _where(one),
            _progress(one),
        )
        for one in found
    ]
    click.echo(table(("effect", "agent", "name", "tag", "tries", "is", "progress"), rows))


@effect_command.command("retry")
@click.argument("effect")
@FORCE
@click.pass_obj
def retry_effect(session: Session, effect: str, force: bool) -> None:
    """Try EFFECT again now, without waiting for its backoff."""
    session.connection.call(intervene(session.keys, effect, "retry", force=force))
    click.echo(f"{effect} is tried again now")


@effect_command.command("cancel")
@click.argument("effect")
@click.option("--tag", default=None, help="EFFECT is an agent's id: all its effects of this tag.")
@click.option("--name", default="", help="With --tag: those of this name alone.")
@FORCE
@click.pass_obj
def cancel_effect(session: Session, effect: str, tag: str | None, name: str, force: bool) -> None:
    """Settle EFFECT as failed: its agent is told so, with the error "cancelled by an operator".

    `regrow effect cancel AGENT --tag TAG` does what the agent's own CancelEffect does: effects that wait are told as
    cancelled at once, those in executors' hands are told to stop.
    """
    if tag is not None:
        call = cancel_tagged(session.keys, check_id(effect, "agent"), check_tag(tag, "tag"), name)
        waiting, stopping = session.connection.call(call)
        click.echo(f"{waiting} cancelled before they began; {stopping} in executors' hands told to stop")
        return
    _settle(session, effect, "failed", "cancelled by an operator", force=force)
    click.echo(f"{effect} is cancelled; its agent is told that it failed")


@effect_command.command("settle")
@click.argument("effect")
@click.argument("outcome", type=click.Choice(["done", "failed"]))
@click.argument("value", default="null")
@FORCE
@click.pass_obj
def settle_effect(session: Session, effect: str, outcome: str, value: str, force: bool) -> None:
    """Tell the agent that EFFECT is done, with VALUE (JSON) as its result; or failed, with VALUE as its error."""
    result: Any = value if outcome == "failed" else loads(value, what="VALUE")
    _settle(session, effect, outcome, result, force=force)
    click.echo(f"{effect} is settled as {outcome}")


def _settle(session: Session, effect: str, outcome: str, value: Any, *, force: bool) -> None:
    record = session.connection.command(views.effect_record(session.keys, effect))
    if not record:
        raise EffectGone(
            f"effect {effect} is settled, or there was none; `regrow effect ls` shows those there are"
        )
    if outcome == "done":
        call = intervene(
            session.keys, effect, "done", dumps({"effect": effect, "result": value}), force=force
        )
    else:
        told = {"effect": effect, "error": value, "attempts": int(record.get("attempts") or 0)}
        call = intervene(session.keys, effect, "failed", dumps(told), force=force)
    session.connection.call(call)


def _effects(session: Session, agent: str | None, count: int) -> list[dict[str, str]]:
    most = MOST if agent is not None else count
    names: list[str] = session.connection.command(views.limited_names(session.keys))
    queues = (False, True)
    due = _lists(session, [views.effect_ids(session.keys, awaited=queue, count=most) for queue in queues])
    parked = _lists(
        session,
        [
            views.parked_ids(session.keys, name, awaited=queue, count=most)
            for queue in queues
            for name in names
        ],
    )
    ids = list(due | parked)
    records = session.connection.pipeline([views.effect_record(session.keys, effect) for effect in ids])
    found: list[dict[str, str]] = []
    for effect, record in zip(ids, records, strict=True):
        if isinstance(record, RegrowError):
            raise record
        if record and agent in (None, record.get("agent")):
            found.append({"effect": effect, **record, **({"parked": "1"} if effect in parked else {})})
    return found[: 2 * count if agent is None else count]


def _lists(session: Session, commands: Sequence[Command[list[str]]]) -> dict[str, None]:
    """What all of them list, in this order, each once: an effect may go from one list to another meanwhile."""
    found: dict[str, None] = {}
    for answer in session.connection.pipeline(commands):
        if isinstance(answer, RegrowError):
            raise answer
        found |= dict.fromkeys(answer)
    return found


def _progress(record: dict[str, str]) -> str:
    found = stored_progress(record["effect"], record)
    if found is None:
        return "-"
    shown = f"{found.value:.0%}" if isinstance(found.value, float | int) else dumps(found.value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _where(record: dict[str, str]) -> str:
    if record.get("status") == "claimed":
        told = ", told to stop" if record.get("cancelled") == "1" else ""
        return f"in the hands of {record.get('executor', '?')} since {stamp(record.get('claimed_ms'))}{told}"
    if record.get("parked"):
        return f"waiting for room under the limit of {record.get('name', '?')}"
    return f"waiting, due {stamp(record.get('due_ms'))}"
