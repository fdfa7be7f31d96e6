"""What stands around so many registered pooled agents: how long each part takes, and what they cost while idle."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from benchmarks.scale_app import CREATED_UNDER, DEVICES, application, device
from benchmarks.scale_system import LONG, Site, site
from benchmarks.scale_work import cost_of, cpu
from regrow import Client
from regrow.bench.app import Add, Counter
from regrow.bench.system import BenchError, percentile, until
from regrow.control import ask_watchdog
from regrow.metrics.collector import RegrowCollector
from regrow_signals import views
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

__all__ = ["measure_agents", "measure_isolated"]

NEW = Counter.child(under=CREATED_UNDER, isolation="pool")


def measure_agents(
    agents: int, *, created: bool, tries: int = 100, idle_seconds: float = 10.0
) -> dict[str, Any]:
    """Register ``agents``, by the spec tree or (``created``) by sends that create them; then look at everything.

    Times are medians of several tries where a try is short. ``BenchError`` where anything was lost or done twice.
    """
    with site() as place:
        empty = int(place.info("memory")["used_memory"])
        app = application("tree", 0 if created else agents)
        began = time.perf_counter()
        watchdog = place.start("watchdog", app)
        found: dict[str, Any] = {"agents": agents, "by": "send" if created else "tree"}
        if created:
            worker = place.start("worker", app)
            _wait_led(place)
            found |= _create(place, agents)
        else:
            until(lambda: _begun(place, agents), "all agents have begun", LONG, pause=0.05)
            found["registered_s"] = round(time.perf_counter() - began, 2)
            worker = place.start("worker", app)
        # Of a few agents it would be the scripts' and the tree's.
        found["redis_bytes_per_agent"] = (
            None
            if agents < 1_000
            else round((int(place.info("memory")["used_memory"]) - empty) / max(1, agents))
        )
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "create": lambda: _one_more(place, tries),
            "signals": lambda: _signals(place, agents, created=created, tries=3 * tries),
            "supervision": lambda: _supervision(place, agents, created=created, tries=tries),
            "views": lambda: _views(place, agents, created=created),
            "idle": lambda: _idle(place, idle_seconds),
            "takeover": lambda: _takeover(place, watchdog, app),
            "deploy": lambda: _deploy(place, worker, agents, created=created),
        }
        found["redis_longest_register"] = place.slowest()
        for name, step in steps.items():
            print(f"{agents} agents: {name}", file=sys.stderr)
            found |= step()
            found[f"redis_longest_{name}"] = place.slowest()
        place.check()
    return found


def measure_isolated(agents: int) -> dict[str, Any]:
    """So many isolated agents, from the start of their node until each has a process that runs."""
    with site() as place:
        app = application("isolated", agents)
        place.start("watchdog", app)
        until(
            lambda: place.record(device(agents - 1)).get("status") == "waiting", "all wait for a node", LONG
        )
        began = time.perf_counter()
        place.start("worker", app)

        def all_run() -> bool:
            place.check()
            ids = [device(number) for number in range(agents)]
            records = place.watcher.pipeline(views.agent_records(place.keys, ids, "status"))
            found = [cast("dict[str, str]", each) for each in records if isinstance(each, dict)]
            return len(found) == agents and all(each.get("status") == "running" for each in found)

        until(all_run, "all agents run", LONG, pause=0.1)
        return {"agents": agents, "all_running_s": round(time.perf_counter() - began, 2)}


def _name(number: int, *, created: bool) -> str:
    return f"chat-{number:06d}" if created else device(number)


def _wait_led(place: Site) -> None:
    until(lambda: _answers(place), "a watchdog leads and the tree stands", LONG, pause=0.05)


def _answers(place: Site) -> bool:
    record = place.watcher.command(views.supervisor_record(place.keys, CREATED_UNDER))
    return record.get("status") == "running"


def _begun(place: Site, agents: int) -> bool:
    """The tree stands: the supervisor that starts last runs, and with it all before it."""
    place.check()
    return _answers(place) and (agents == 0 or place.record(device(agents - 1)).get("status") == "idle")


def _create(place: Site, agents: int) -> dict[str, Any]:
    """One client that sends without a pause, a thousand at a time; then until each has applied its first signal."""
    began = time.perf_counter()
    for start in range(0, agents, 1_000):
        names = [_name(number, created=True) for number in range(start, min(agents, start + 1_000))]
        for result in place.client.send_many([Message(name, Add()) for name in names], create=NEW):
            if isinstance(result, RegrowError):
                raise result
    sent = time.perf_counter() - began
    until(lambda: place.applied() >= agents, "every agent has applied its first signal", LONG, pause=0.05)
    return {
        "registered_s": round(time.perf_counter() - began, 2),
        "creating_sends_per_second": round(agents / sent),
    }


def _median_ms(do: Callable[[int], object], tries: int) -> tuple[float, float]:
    times: list[float] = []
    for number in range(tries):
        began = time.perf_counter()
        do(number)
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 3), round(percentile(times, 99), 3)


def _one_more(place: Site, tries: int) -> dict[str, Any]:
    """A send that creates its agent: until it is accepted, and until that agent has applied it."""

    def accepted(number: int) -> None:
        place.client.send(f"more-{number}", Add(), create=NEW)

    def applied(number: int) -> None:
        receipt = place.client.send(f"another-{number}", Add(), create=NEW)
        receipt.wait(timeout=60)

    accept, _ = _median_ms(accepted, tries)
    until(lambda: place.count("XLEN", place.keys.exits) == 0, "all are started", LONG)
    whole, worst = _median_ms(applied, tries)
    return {"create_accepted_ms": accept, "create_applied_ms": whole, "create_applied_p99_ms": worst}


def _signals(place: Site, agents: int, *, created: bool, tries: int) -> dict[str, Any]:
    """Latency to agents at random, and the rate of twenty thousand signals to a fixed few, then in turn for each."""
    chosen = random.Random(7)

    def one(_: int) -> None:
        agent = _name(chosen.randrange(agents), created=created)
        after = place.watcher.command(views.newest_entry(place.keys.journal(agent))) or "0-0"
        place.client.send(agent, Add())
        if not place.watcher.read_stream(place.keys.journal(agent), after, count=1, block_ms=10_000):
            raise BenchError(f"{agent} did not commit within 10 s")

    median, worst = _median_ms(one, tries)
    few = [_name(number, created=created) for number in range(min(10, agents))]
    each = [_name(number, created=created) for number in range(agents)]
    found = {"latency_ms": median, "latency_p99_ms": worst, "few_cpu_us": cost_of(place, few, 20_000)}
    if agents >= 1_000:
        found["turn_cpu_us"] = cost_of(place, each, 20_000)
    return found


def _supervision(place: Site, agents: int, *, created: bool, tries: int) -> dict[str, Any]:
    """An agent's end and its new start, as ``regrow restart`` asks for it, until that is answered."""
    chosen = random.Random(8)

    def restart(_: int) -> None:
        agent = _name(chosen.randrange(agents), created=created)
        ask_watchdog(place.watcher, place.keys, "restart", {"target": agent}, timeout=60)

    watchdog = place.processes("watchdog")
    used = cpu(watchdog)
    median, worst = _median_ms(restart, tries)
    return {
        "restart_ms": median,
        "restart_p99_ms": worst,
        "watchdog_cpu_ms_per_restart": round((cpu(watchdog) - used) / tries * 1000, 2),
    }


def _views(place: Site, agents: int, *, created: bool) -> dict[str, Any]:
    path = CREATED_UNDER if created else DEVICES
    one = _name(agents // 2, created=created)
    with Client(place.url, namespace=place.keys.namespace) as client:
        which, _ = _median_ms(lambda _: client.which_children(path, timeout=120), 3)
        counts, _ = _median_ms(lambda _: client.count_children(path, timeout=120), 3)
    collector = RegrowCollector(place.url, place.keys.namespace)
    return {
        "which_children_ms": which,
        "count_children_ms": counts,
        "tree_ms": _median_ms(lambda _: place.run("tree"), 3)[0],
        "tree_lines": place.run("tree").stdout.count("\n"),
        "tree_of_one_ms": _median_ms(lambda _: place.run("tree", one), 3)[0],
        "top_ms": _median_ms(lambda _: place.run("top", "--once", "--interval", "0.1"), 3)[0],
        "doctor_ms": _median_ms(lambda _: place.run("doctor"), 3)[0],
        "scrape_ms": _median_ms(lambda _: list(collector.collect()), 3)[0],
    }


def _idle(place: Site, seconds: float) -> dict[str, Any]:
    """Commands that services send while nothing happens, what the watchdog and the node compute, who is connected."""
    before, began = place.commands(), time.perf_counter()
    dogs, workers = place.processes("watchdog"), place.processes("worker")
    used = cpu(dogs), cpu(workers)
    time.sleep(seconds)  # what is measured is this time itself
    took = time.perf_counter() - began
    sent = place.commands() - before
    return {
        "idle_commands_per_second": round(sent / took, 1),
        "idle_watchdog_cpu_percent": round((cpu(dogs) - used[0]) / took * 100, 2),
        "idle_worker_cpu_percent": round((cpu(workers) - used[1]) / took * 100, 2),
        "connections": int(place.info("clients")["connected_clients"]),
        "processes": len(dogs) + len(workers),
    }


def _takeover(place: Site, watchdog: subprocess.Popen[bytes], app: str) -> dict[str, Any]:
    """A second watchdog stands by; the leader is killed: until the new one answers, and whether its lease held."""
    place.start("watchdog", app)
    until(lambda: place.connections("regrow:watchdog") == 2, "the standby stands by", LONG)
    led = place.counter("leadership_changes_total")
    began = time.perf_counter()
    place.kill(watchdog)
    ask_watchdog(place.watcher, place.keys, "count_children", {"path": CREATED_UNDER}, timeout=LONG)
    took = time.perf_counter() - began
    place.check()
    return {
        "takeover_s": round(took, 2),
        "takeover_leaders": place.counter("leadership_changes_total") - led,
    }


def _deploy(place: Site, worker: subprocess.Popen[bytes], agents: int, *, created: bool) -> dict[str, Any]:
    """A new tree with one more agent is handed in by a watchdog of its own; then the node is drained for another."""
    size = 0 if created else agents
    new = application("more", size)
    began = time.perf_counter()
    place.start("watchdog", new)
    until(lambda: place.record(device(size)).get("status") == "idle", "the added agent has begun", LONG)
    tree = time.perf_counter() - began
    (old,) = place.nodes()
    began = time.perf_counter()
    place.start("worker", new)
    joined = time.perf_counter() - began
    began = time.perf_counter()
    place.run("drain", old)
    until(lambda: old not in place.nodes(), "the old node is gone", LONG, pause=0.02)
    drained = time.perf_counter() - began
    place.gone(worker)
    place.client.send(_name(0, created=created), Add()).wait(timeout=60)
    return {
        "deploy_tree_s": round(tree, 2),
        "deploy_node_joins_s": round(joined, 2),
        "deploy_drained_s": round(drained, 2),
    }
