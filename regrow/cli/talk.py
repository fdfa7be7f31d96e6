"""``regrow send`` and ``regrow ask``: one signal to one agent."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from regrow.cli.output import DEAD, NOT_IN_TIME, json_option, print_json
from regrow.cli.session import Session
from regrow_signals import strict_json
from regrow_signals.asks import ASK_SECONDS
from regrow_signals.client import SentReceipt
from regrow_signals.mailbox import Status
from regrow_signals.signal import Signal

__all__ = ["ask_command", "send_command"]


@click.command("send")
@click.argument("agent")
@click.argument("type_name", metavar="[TYPE]", required=False)
@click.argument("data", required=False)
@click.option(
    "--cloudevent",
    type=click.File("r", encoding="utf-8"),
    default=None,
    help="In place of TYPE and DATA: a CloudEvents 1.0 event as structured JSON (`-`: from stdin).",
)
@click.option(
    "--id", "signal_id", default=None, help="The signal's id: sending the same one again changes nothing."
)
@click.option("--subject", default=None, help="CloudEvents' subject.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    help="Seconds to wait until it is applied or dead.",
)
@json_option
@click.pass_obj
def send_command(  # noqa: PLR0917  click passes them by name
    session: Session,
    agent: str,
    type_name: str | None,
    data: str | None,
    cloudevent: IO[str] | None,
    signal_id: str | None,
    subject: str | None,
    wait: float,
    as_json: bool,
) -> int:
    """Send a signal TYPE with DATA (JSON; `-` reads it from stdin), or a CloudEvent, to AGENT.

    Exit code 0: accepted (with --wait: applied); 1: refused; 4: it is a dead letter; 5: it still waits.
    """
    if cloudevent is not None and type_name is not None:
        raise click.UsageError("give TYPE and DATA, or --cloudevent; not both")
    if cloudevent is not None:
        event = Signal.from_cloudevent(cloudevent.read(), limits=session.settings.limits)
        receipt = session.client.send(agent, event, id=signal_id, subject=subject)
    elif type_name is not None:
        value = _value(session, "{}" if data is None else data)
        receipt = session.client.send(agent, type_name, value, id=signal_id, subject=subject)
    else:
        raise click.UsageError("give TYPE, the signal's type, or --cloudevent")
    status = receipt.wait(wait) if wait > 0 else None
    if as_json:
        print_json(_document(receipt, status))
    else:
        again = ", which was accepted before" if receipt.duplicate else ""
        line = f"{agent} accepted signal {receipt.signal_id} as {receipt.entry}{again}"
        click.echo(line if status is None else f"{line}: {_shown(status)}")
        if status is not None and status.state == "dead":
            click.echo(f"why: regrow dead list {agent}", err=True)
    return 0 if status is None else _CODES.get(status.state, 1)


@click.command("ask")
@click.argument("agent")
@click.argument("type_name", metavar="TYPE")
@click.argument("data", default="{}")
@click.option(
    "--id", "signal_id", default=None, help="The signal's id: asking the same one again gives the same reply."
)
@click.option("--subject", default=None, help="CloudEvents' subject.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86_400),
    default=ASK_SECONDS,
    show_default=True,
    help="Seconds to wait for the reply.",
)
@click.pass_obj
def ask_command(  # noqa: PLR0917  click passes them by name
    session: Session,
    agent: str,
    type_name: str,
    data: str,
    signal_id: str | None,
    subject: str | None,
    timeout: float,
) -> None:
    """Send a signal TYPE with DATA (JSON; `-` reads it from stdin) to AGENT, and print its reply, JSON.

    Exit code 0: the reply is on stdout; 1: refused; 4: the signal is a dead letter; 5: no reply in time (asking the
    same --id again goes on waiting).
    """
    value = _value(session, data)
    print_json(session.client.ask(agent, type_name, value, timeout=timeout, id=signal_id, subject=subject))


#: state of a signal that was waited for -> exit code
_CODES = {"applied": 0, "dead": DEAD, "pending": NOT_IN_TIME}


def _value(session: Session, data: str) -> Any:
    text = sys.stdin.read() if data == "-" else data
    return strict_json.loads(
        text, max_bytes=session.settings.max_signal, max_depth=session.settings.max_json_depth
    )


def _shown(status: Status) -> str:
    return f"{status.state} ({status.reason})" if status.reason else status.state


def _document(receipt: SentReceipt, status: Status | None) -> dict[str, object]:
    document: dict[str, object] = {
        "agent": receipt.agent,
        "id": receipt.signal_id,
        "entry": receipt.entry,
        "duplicate": receipt.duplicate,
    }
    if status is not None:
        document |= {"status": status.state, "reason": status.reason}
    return document
