"""The command group: options that every command has, and the commands by the file that defines them."""

from __future__ import annotations

import importlib
from typing import TypeVar

import click

from regrow.cli.session import Session

__all__ = ["cli"]

C = TypeVar("C", bound=click.Command)

#: command -> module of regrow.cli that defines it; loaded when the command is used, so that `regrow --help` is quick
HOMES = {
    "up": "run",
    "watchdog": "run",
    "worker": "run",
    "effects": "run",
    "metrics": "run",
    "demo": "run",
    "send": "talk",
    "publish": "publish",
    "subscribe": "publish",
    "unsubscribe": "publish",
    "subscriptions": "publish",
    "ask": "talk",
    "state": "look",
    "tree": "look",
    "top": "top",
    "events": "look",
    "replay": "replay",
    "dead": "dead",
    "effect": "effect",
    "timers": "timers",
    "kill": "steer",
    "stop": "steer",
    "start": "steer",
    "restart": "steer",
    "revive": "steer",
    "drain": "steer",
    "rollback": "steer",
    "children": "steer",
    "delete": "steer",
    "redis": "redis",
    "doctor": "redis",
    "chaos": "chaos",
    "bench": "bench",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        home = HOMES.get(cmd_name)
        if home is None:
            return None
        module = importlib.import_module(f"regrow.cli.{home}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="regrow", prog_name="regrow")
@click.option("--namespace", "-n", default=None, help="Namespace (REGROW_NAMESPACE; default: regrow).")
@click.option(
    "--redis-url", default=None, help="Redis server (REDIS_URL; default: the one that `regrow up` started)."
)
@click.pass_context
def cli(ctx: click.Context, namespace: str | None, redis_url: str | None) -> None:
    """Long-lived agents that grow back: state, mailboxes and an OTP supervision tree in Redis."""
    ctx.obj = Session(namespace=namespace, redis_url=redis_url)
    ctx.call_on_close(ctx.obj.close)
