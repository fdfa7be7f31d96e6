"""``regrow chaos``: kill and stop regrow's own processes at random, and see that nothing is lost by it."""

from __future__ import annotations

import secrets
from typing import Any

import click

from regrow.cli.output import json_option, print_json, table
from regrow.cli.session import Session
from regrow_signals.errors import BadInput, RegrowError

__all__ = ["chaos_command"]


def _data(text: str) -> object:
    from regrow_signals.strict_json import loads  # as `regrow send` reads it

    try:
        return loads(text)
    except (RegrowError, ValueError) as error:
        raise BadInput(f"--send: the data is not JSON: {error}") from None


@click.command("chaos")
@click.argument("application", metavar="[MODULE:TREE]", required=False)
@click.option("--minutes", default=1.0, show_default=True, type=click.FloatRange(0.01, 24 * 60))
@click.option(
    "--every", default=1.0, show_default=True, type=click.FloatRange(0.05, 3600), help="Seconds between two."
)
@click.option(
    "--kill",
    "kinds",
    default=None,
    help="Of worker,slot,spawner,node,watchdog,executor,redis; all of them, redis only with a system of its own.",
)
@click.option("--seed", default=None, type=int, help="The same strikes as another run had.")
@click.option(
    "--send",
    "sent",
    type=(str, str, str),
    multiple=True,
    metavar="AGENT TYPE DATA",
    help="Send this meanwhile, again and again; each accepted one has to be applied, or a dead letter.",
)
@click.option(
    "--rate", default=20.0, show_default=True, type=click.FloatRange(0.1, 1000), help="Signals a second."
)
@click.option("--running", is_flag=True, help="Against the system that runs in this namespace, on this host.")
@click.option("--yes", is_flag=True, help="With --running: its processes may be killed.")
@json_option
@click.pass_obj
def chaos_command(  # noqa: PLR0917  click passes them by name
    session: Session,
    application: str | None,
    minutes: float,
    every: float,
    kinds: str | None,
    seed: int | None,
    sent: tuple[tuple[str, str, str], ...],
    rate: float,
    running: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Kill and stop regrow's processes at random, in a system of its own (of MODULE:TREE, or of agents that count)."""
    from regrow.chaos.plan import KINDS, Kind, kinds_of  # starts a system; not needed by other commands
    from regrow.chaos.run import Wanted, run_against, run_own

    try:
        every_kind: tuple[Kind, ...] = tuple(k for k in KINDS if not running or k != "redis")
        chosen = every_kind if kinds is None else kinds_of(kinds)
    except ValueError as error:
        raise BadInput(f"--kill: {error}") from None
    if running and application is not None:
        raise BadInput("--running: leave MODULE:TREE out, its tree is in Redis")
    if running and not yes:
        raise BadInput(
            f"this would kill processes of the system in namespace {session.settings.namespace}: say --yes"
        )
    if sent and application is None and not running:
        raise BadInput("--send: name MODULE:TREE, or --running; the system of its own sends already")
    wanted = Wanted(
        kinds=chosen,
        seconds=60 * minutes,
        every=every,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        sent=[(agent, kind, _data(data)) for agent, kind, data in sent],
        rate=rate,
    )

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    say(f"seed {wanted.seed}")
    if running:
        report = run_against(session.url, session.settings, wanted, say)
    else:
        report = run_own(application, wanted, session.settings, say)
    if as_json:
        print_json(report)
    else:
        _show(report)
    return 1 if report["faults"] else 0


def _show(report: dict[str, Any]) -> None:
    rows = [
        (
            kind,
            row["killed"],
            row["stopped"],
            *(row.get(name, "-") for name in ("median_ms", "p99_ms", "max_ms")),
        )
        for kind, row in report["recoveries"].items()
    ]
    click.echo("")
    click.echo(table(("struck", "killed", "stopped", "median ms", "p99 ms", "max ms"), rows))
    signals = report["signals"]
    if signals:
        click.echo("signals: " + ", ".join(f"{count} {what}" for what, count in signals.items()))
    for name, why in report["not_running"].items():
        click.echo(f"{name}: {why}")
    for fault in report["faults"]:
        click.echo(fault)
    click.echo(f"{report['strikes']} strikes in {report['seconds']} s: {report['verdict']}")
