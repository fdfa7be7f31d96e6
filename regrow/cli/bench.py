"""``regrow bench``: recovery, throughput, latency and supervision, measured on this machine."""

from __future__ import annotations

from typing import Any

import click

from regrow.cli.output import json_option, print_json

__all__ = ["bench_command"]


@click.group("bench")
def bench_command() -> None:
    """Measure on this machine; each starts a system of its own in a throw-away folder."""


@bench_command.command("recovery")
@click.option("--kills", default=200, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--spares", default=1, show_default=True, type=click.IntRange(0, 100))
@json_option
def recovery(kills: int, spares: int, as_json: bool) -> None:
    """A worker is killed: how long until its agent's next signal is committed?"""
    from regrow.bench.recovery import measure_recovery  # starts a system; not needed by other commands

    _show(measure_recovery(kills, spares), as_json)


@bench_command.command("throughput")
@click.option("--signals", default=100_000, show_default=True, type=click.IntRange(100, 1_000_000))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--pool", is_flag=True, help="Many pooled agents with one signal each, instead of one busy agent."
)
@click.option(
    "--agents", default=10_000, show_default=True, type=click.IntRange(100, 1_000_000), help="With --pool."
)
@json_option
def throughput(signals: int, rounds: int, pool: bool, agents: int, as_json: bool) -> None:
    """How many durable transitions a second does one busy agent make, or many pooled ones?"""
    if pool:
        from regrow.bench.pooled import measure_pooled  # starts a system; not needed by other commands

        _show(measure_pooled(agents, rounds), as_json)
        return
    from regrow.bench.throughput import measure_throughput  # starts a system; not needed by other commands

    _show(measure_throughput(signals, rounds), as_json)


@bench_command.command("latency")
@click.option("--signals", default=1000, show_default=True, type=click.IntRange(10, 100_000))
@json_option
def latency(signals: int, as_json: bool) -> None:
    """How long from send to committed, on an idle system?"""
    from regrow.bench.latency import measure_latency  # starts a system; not needed by other commands

    _show(measure_latency(signals), as_json)


@bench_command.command("idle")
@click.option("--seconds", default=20.0, show_default=True, type=click.FloatRange(1, 3600))
@json_option
def idle(seconds: float, as_json: bool) -> None:
    """What does an agent without signals cost: memory, commands to Redis?"""
    from regrow.bench.idle import measure_idle  # starts a system; not needed by other commands

    _show(measure_idle(seconds), as_json)


@bench_command.command("supervision")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 100))
@json_option
def supervision(rounds: int, as_json: bool) -> None:
    """A decision's time; fifty agents killed at once, a node lost, a watchdog lost: how long until all work again?"""
    from regrow.bench.supervision import measure_supervision  # starts systems; not needed by other commands

    _show(measure_supervision(rounds), as_json)


@bench_command.command("guard")
@click.option("--rounds", default=100, show_default=True, type=click.IntRange(1, 10_000))
@json_option
def guard(rounds: int, as_json: bool) -> None:
    """What does the guard of purity cost a transition? Off, warn and enforce in turns; needs no Redis."""
    from regrow.bench.guard import measure_guard  # the workers' code; not needed by other commands

    _show(measure_guard(rounds), as_json)


@bench_command.command("signals")
@click.option("--quick", is_flag=True, help="With a fraction of the size, to see that it runs.")
@json_option
def signals(quick: bool, as_json: bool) -> None:
    """What signals and directives cost: publishing to a thousand subscribers, asking, timers among a million."""
    from regrow.bench.signals import measure_signals  # starts systems; not needed by other commands

    for row, result in measure_signals(quick=quick).items():
        _show({"row": row, **result}, as_json)


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        click.echo(f"{name:<38} {value}")
