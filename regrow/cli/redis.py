"""``regrow redis`` and ``regrow doctor``: the server, looked into and examined."""

from __future__ import annotations

import click

from regrow.cli.output import json_option
from regrow.cli.session import Session

__all__ = ["doctor_command", "redis_command"]


@click.command("redis", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def redis_command(session: Session, words: tuple[str, ...]) -> int:
    """redis-cli for those who have none: `regrow redis HGETALL {regrow}:agent:support`; no WORDS: a prompt."""
    from regrow.redis_shell import run_redis_shell  # readline and a prompt: not needed by other commands

    return run_redis_shell(session.url, words)


@click.command("doctor")
@json_option
@click.pass_obj
def doctor_command(session: Session, as_json: bool) -> int:
    """Examine server, settings and the running system; each finding says what to do.

    Exit code 0: all is well, 1: warnings, 2: faults.
    """
    from regrow.doctor import run_doctor  # asks a lot; not needed by other commands

    return run_doctor(session.settings, as_json=as_json)
