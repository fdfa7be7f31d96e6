"""``regrow up``, ``watchdog``, ``worker``, ``effects``, ``metrics``, ``demo``: the processes themselves."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path

import click

from regrow.cli.session import Session

__all__ = [
    "demo_command",
    "effects_command",
    "metrics_command",
    "up_command",
    "watchdog_command",
    "worker_command",
]

HELPDESK_PACKAGED = "regrow._helpdesk"

APPLICATION = click.argument("application", metavar="MODULE:TREE")


@click.command("up")
@APPLICATION
@click.pass_obj
def up_command(session: Session, application: str) -> int:
    """Everything on one machine: watchdog, worker, effects, metrics, and a Redis unless REDIS_URL names one."""
    from regrow.up import run_up  # each process imports only what it runs

    return run_up(application, session.settings)


@click.command("watchdog")
@APPLICATION
@click.pass_obj
def watchdog_command(session: Session, application: str) -> int:
    """Carry the supervisors of MODULE:TREE: notice deaths, decide, restart. Any number may run; one leads."""
    from regrow_supervisor.watchdog import run_watchdog  # each process imports only what it runs

    settings = session.settings
    return run_watchdog(
        settings.watchdog,
        url=session.service_url(),
        namespace=settings.namespace,
        application=application,
        limits=settings.limits,
    )


@click.command("worker")
@APPLICATION
@click.pass_obj
def worker_command(session: Session, application: str) -> int:
    """A node: runs agents of MODULE:TREE, each in a process of its own. SIGTERM drains it."""
    from regrow_workers.node import run_node  # each process imports only what it runs

    settings = session.settings
    return run_node(
        settings.node,
        url=session.service_url(),
        namespace=settings.namespace,
        application=application,
        limits=settings.limits,
        version=importlib.metadata.version("regrow"),
    )


@click.command("effects")
@APPLICATION
@click.option("--executors", "-e", type=click.IntRange(1, 256), default=4, show_default=True)
@click.option("--async-calls", type=int, default=1000, show_default=True, help="Of async effects, at once.")
@click.pass_obj
def effects_command(session: Session, application: str, executors: int, async_calls: int) -> int:
    """A node that executes effects of MODULE:TREE: plain ones through RQ, async ones in an event loop."""
    from regrow_workers.effects.effects_node import run_effects  # each process imports only what it runs

    settings = session.settings
    url = session.service_url()
    return run_effects(
        settings.node,
        url=url,
        rq_url=settings.rq_url or url,
        namespace=settings.namespace,
        application=application,
        limits=settings.limits,
        executors=executors,
        async_calls=async_calls,
        version=importlib.metadata.version("regrow"),
    )


@click.command("metrics")
@click.option("--host", default=None, help="Where to listen (REGROW_METRICS_HOST).")
@click.option("--port", type=int, default=None, help="Its port; 0: any free one (REGROW_METRICS_PORT).")
@click.pass_obj
def metrics_command(session: Session, host: str | None, port: int | None) -> int:
    """Serve /metrics, /healthz and /readyz for Prometheus."""
    from regrow.metrics.server import run_metrics  # each process imports only what it runs

    settings = session.settings
    return run_metrics(
        session.service_url(),
        namespace=settings.namespace,
        host=host if host is not None else settings.metrics_host,
        port=port if port is not None else settings.metrics_port,
    )


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave it running, and print what to type next.")
@click.option("--state-dir", type=click.Path(path_type=Path), default=None, help="Where to keep the data.")
@click.pass_obj
def demo_command(session: Session, keep: bool, state_dir: Path | None) -> int:
    """The main job on real input: tickets, five kills, a poison ticket; exit code 1 if anything was lost."""
    # The example's home: a checkout has it in examples/, the wheel inside the package.
    home = HELPDESK_PACKAGED if importlib.util.find_spec(HELPDESK_PACKAGED) else "examples.helpdesk"
    run_demo: Callable[..., int] = importlib.import_module(f"{home}.demo").run_demo
    return run_demo(session.settings, keep=keep, state_dir=state_dir)
