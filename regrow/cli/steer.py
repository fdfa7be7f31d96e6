"""``regrow kill``, ``stop`` and ``start``: what an operator asks of the watchdog."""

from __future__ import annotations

import click

from regrow.cli.output import json_option, print_json
from regrow.cli.session import Session
from regrow.control import ask_watchdog

__all__ = ["kill_command", "start_command", "stop_command"]


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
    """Kill the process of agent TARGET (SIGKILL by its node, reason `operator`); its supervisor brings it back.

    Not charged to the restart intensity, nor to the signal in hand.
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
