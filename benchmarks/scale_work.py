"""What a signal costs as the work around it grows: backlog, state, the signal itself, nodes.

Cost is processor time in Redis and in the node's processes together, from before the signals are sent until all are
applied: it does not depend on what else the machine does, as a rate would.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.scale_app import KEEPER, Touch, application, device
from benchmarks.scale_system import LONG, Site, site
from regrow import Payload
from regrow.bench.app import Add
from regrow.bench.system import BenchError, cpu_seconds, until
from regrow.control import ask_watchdog
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

__all__ = ["cost_of", "cpu", "measure_backlog", "measure_nodes", "measure_signal_size", "measure_state_size"]

PART = 5_000
PART_BYTES = 8_000_000
LEAST = 10_000
"""Signals of one figure at least: smaller bursts are repeated."""

HELD = 1_000
"""A backlog of so many is put in while its agent is on hold; smaller bursts are worked off as they come."""


def measure_backlog(signals: int) -> dict[str, Any]:
    """One isolated agent works off a mailbox of so many."""
    with _keeper(0) as place:
        bursts = max(1, LEAST // signals)
        costs = [_burst(place, signals, Touch(), hold=signals >= HELD) for _ in range(bursts)]
        return {"backlog": signals, "cpu_us_per_signal": round(sum(costs) / len(costs), 1)}


def measure_state_size(characters: int) -> dict[str, Any]:
    """One isolated agent, whose state holds so many characters beside its count, works off 1,000 signals."""
    with _keeper(characters) as place:
        return {
            "state_bytes": characters,
            "cpu_us_per_signal": round(_burst(place, 1_000, Touch(), hold=True), 1),
        }


def measure_signal_size(characters: int) -> dict[str, Any]:
    """One isolated agent works off signals with so many characters of data each."""
    with _keeper(0) as place:
        signals = max(200, min(2_000, 20_000_000 // max(1, characters)))
        cost = _burst(place, signals, Touch(padding="x" * characters), hold=True)
        return {"signal_bytes": characters, "cpu_us_per_signal": round(cost, 1)}


def measure_nodes(nodes: int, agents: int = 2_000, signals: int = 20_000) -> dict[str, Any]:
    """Pooled agents, in turn one signal for each, on so many nodes of this one machine."""
    with site() as place:
        app = application("tree", agents)
        place.start("watchdog", app)
        for _ in range(nodes):
            place.start("worker", app)
        until(lambda: place.record(device(agents - 1)).get("status") == "idle", "all agents have begun", LONG)
        names = [device(number) for number in range(agents)]
        cost_of(place, names, agents)  # every slot has been at work
        return {"nodes": nodes, "cpu_us_per_signal": cost_of(place, names, signals)}


def cost_of(place: Site, agents: Sequence[str], signals: int) -> float:
    """Processor time for a signal in Redis, nodes and slots, in microseconds; the signals go to the agents in turn."""
    pids = _pids(place)
    before, goal = cpu(pids), place.applied() + signals
    for start in range(0, signals, PART):
        _send(place, [agents[n % len(agents)] for n in range(start, min(signals, start + PART))], Add())
    until(lambda: place.applied() >= goal, "all signals are applied", LONG, pause=0.05)
    if place.applied() != goal:
        raise BenchError(f"{goal} signals were sent, {place.applied()} were applied")
    return round((cpu(pids) - before) / signals * 1e6, 1)


def _burst(place: Site, signals: int, what: Payload, *, hold: bool) -> float:
    if hold:
        ask_watchdog(place.watcher, place.keys, "hold", {"target": KEEPER}, timeout=60)
        until(lambda: place.record(KEEPER).get("status") == "held", "the agent is on hold", LONG)
    redis = [int(place.info("server")["process_id"])]
    goal, before = place.applied() + signals, cpu(redis) + (0.0 if hold else cpu(place.processes("worker")))
    size = max(1, min(PART, PART_BYTES // max(1, len(what.model_dump_json()))))
    for start in range(0, signals, size):
        _send(place, [KEEPER] * min(size, signals - start), what)
    if hold:
        before += cpu(place.processes("worker"))
        ask_watchdog(place.watcher, place.keys, "unhold", {"target": KEEPER}, timeout=60)
    until(lambda: place.applied() >= goal, "all signals are applied", LONG, pause=0.02)
    return (cpu(redis) + cpu(place.processes("worker")) - before) / signals * 1e6


@contextmanager
def _keeper(characters: int) -> Generator[Site]:
    """A site with the one agent, which runs."""
    with site() as place:
        app = application("keeper", characters)
        place.start("watchdog", app)
        place.start("worker", app)
        until(lambda: place.record(KEEPER).get("status") == "running", "the agent runs", LONG)
        yield place


def _send(place: Site, agents: Sequence[str], what: Payload) -> None:
    for result in place.client.send_many([Message(agent, what) for agent in agents]):
        if isinstance(result, RegrowError):
            raise result


def _pids(place: Site) -> list[int]:
    return [int(place.info("server")["process_id"]), *place.processes("worker")]


def cpu(pids: Sequence[int]) -> float:
    """Processor seconds that these processes have used; of a slot that has ended meanwhile nobody can tell."""
    used = 0.0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            used += cpu_seconds(pid)
    return used
