"""``regrow top``: a live view in the terminal; one picture with ``--once``, and as JSON for machines."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping

import click

from regrow.cli.output import json_option, print_json, stamp, table
from regrow.cli.session import Session
from regrow.top_view import Frame, Looker, frame

__all__ = ["draw", "top_command"]

#: Home, and clear from there: the picture before stays until the new one is drawn.
_AGAIN = "\x1b[H\x1b[J"


@click.command("top")
@click.option("--once", is_flag=True, help="One picture, of one interval, then the end.")
@click.option(
    "--interval", "-i", default=1.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds."
)
@json_option
@click.pass_obj
def top_command(session: Session, once: bool, interval: float, as_json: bool) -> None:
    """What goes on now: signals a second, busiest agents, deaths, nodes and slots; refreshed until Ctrl-C.

    With --json a document a line, or one document with --once.
    """
    looker = Looker(session.connection, session.keys)
    before = looker.look()
    while True:
        time.sleep(interval)
        after = looker.look()
        picture, before = frame(before, after), after
        if once:
            print_json(picture.to_json()) if as_json else click.echo(
                "\n".join(draw(picture, session.settings.namespace, 200, 1000))
            )
            return
        if as_json:
            click.echo(json.dumps(picture.to_json(), ensure_ascii=False))
        else:
            width, height = shutil.get_terminal_size()
            again = _AGAIN if sys.stdout.isatty() else ""
            click.echo(again + "\n".join(draw(picture, session.settings.namespace, width, height - 1)))


def draw(picture: Frame, namespace: str, width: int, height: int) -> list[str]:
    """The lines of one picture, cut to the terminal; what there is no room for is left out from the end. Pure."""
    leads = "a watchdog leads" if picture.leader else "NO WATCHDOG LEADS"
    rates, slots = picture.rates, picture.slots
    lines = [
        f"{namespace}  {stamp(picture.at_ms)}  {leads}  agents counted {picture.census_age:.0f} s ago",
        "a second: " + ", ".join(f"{rate:g} {word}" for word, rate in rates.items()),
        "agents:   " + (", ".join(f"{n} {status}" for status, n in picture.statuses.items()) or "none"),
        f"slots:    {slots['slots']}, {slots['stuck']} stuck, {slots['in_hand']} agents in hand; in line: "
        + (", ".join(f"{count} for {queue}" for queue, count in picture.queues.items()) or "none"),
        "",
        *_rows(
            ("type", "agents", "applied/s", "waiting", "dead"),
            [(row.type, row.agents, f"{row.applied:g}", row.backlog, row.dead) for row in picture.types],
        ),
        *_rows(
            ("busiest", "type", "status", "waiting", "slot"),
            [
                tuple(each[name] for name in ("agent", "type", "status", "backlog", "slot"))
                for each in picture.busiest
            ],
        ),
        *_rows(
            ("node", "kind", "status", "processes", "slots", "stuck"),
            [
                tuple(node[name] for name in ("id", "kind", "status", "load", "slots", "stuck"))
                for node in picture.nodes
            ],
        ),
        *_rows(("last", "event", "who", "why"), [_news(event) for event in reversed(picture.news)]),
    ]
    return [line[:width] for line in lines[:height]]


def _rows(headings: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    return [*table(headings, rows).splitlines(), ""] if rows else []


def _news(event: Mapping[str, str]) -> tuple[object, ...]:
    who = event.get("agent") or event.get("node") or event.get("supervisor") or ""
    return stamp(event.get("at_ms"))[11:], event.get("event", "?"), who, event.get("reason", "")
