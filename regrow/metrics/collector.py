"""The collector: one look at Redis a scrape, nothing kept between scrapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from regrow.metrics.catalogue import COUNTERS, GAUGES, HISTOGRAMS, Metric, parse_field
from regrow.pool_view import PoolView, read_pool
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.census import Census, Tally, take_census
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError, StoreError
from regrow_signals.keys import Keys

__all__ = ["RegrowCollector", "Labelled", "families", "gather"]

PREFIX = "regrow_"

#: label values in the order of a metric's labels -> value
Labelled = dict[tuple[str, ...], float]

_UNKNOWN = "unknown"


class RegrowCollector(Collector):
    """Reads counters and gauges of one namespace at each scrape. Without Redis it yields ``regrow_up 0`` alone."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url = url
        self._keys = Keys(namespace)

    def describe(self) -> Iterable[Family]:
        """Nothing: so that registering does not need Redis."""
        return []

    def collect(self) -> Iterator[Family]:
        """One connection a scrape: scrapes may come from several threads, and are seconds apart."""
        up = GaugeMetricFamily(f"{PREFIX}up", _of(GAUGES, "up").help)
        try:
            with Connection.open(self._url, name="regrow-metrics", timeout=2.0) as connection:
                gauges = gather(connection, self._keys)
                counted = connection.command(views.counters(self._keys))
        except StoreError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from families(counted, gauges)


def gather(connection: Connection, keys: Keys) -> dict[str, Labelled]:
    """Every gauge but ``up``, from a few pipelines and a census."""
    now = connection.command(Command(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000))
    nodes, paths, token, exits, effects, awaited, limited, timers = connection.pipeline(
        [
            views.node_ids(keys),
            views.supervisor_paths(keys),
            views.leader(keys),
            Command(("XLEN", keys.exits), int),
            Command(("ZCARD", keys.effects), int),
            Command(("ZCARD", keys.effects_async), int),
            views.limited_names(keys),
            Command(("ZCARD", keys.timers), int),
        ]
    )
    parked = connection.pipeline(
        [
            Command(("ZCARD", keys.parked(name, awaited=each)), int)
            for name in _listed(limited)
            for each in (False, True)
        ]
    )
    gauges: dict[str, Labelled] = {
        "watchdog_leader": {(): 1.0 if token else 0.0},
        "exits_waiting": {(): _count(exits)},
        "effects_waiting": {(): _count(effects) + _count(awaited) + sum(map(_count, parked))},
        "timers": {(): _count(timers)},
    }
    census = connection.run(take_census(keys))
    gauges |= _agents(census, now)
    gauges |= _pool(read_pool(connection, keys, census.queues))
    gauges["nodes"] = _tally(
        connection.pipeline([_fields(keys.node(node), "kind", "status") for node in _listed(nodes)])
    )
    gauges["supervisors"] = _tally(
        connection.pipeline([_fields(keys.supervisor(path), "status") for path in _listed(paths)])
    )
    return gauges


def families(counted: Mapping[str, int], gauges: Mapping[str, Labelled]) -> Iterator[Family]:
    """Counters, histograms and gauges as Prometheus wants them; pure. A field of no known metric is left out."""
    values: dict[str, Labelled] = defaultdict(dict)
    known = {metric.name: metric for metric in COUNTERS}
    buckets: dict[tuple[str, tuple[str, ...]], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    sums: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
    for text, count in counted.items():
        name, labels = parse_field(text)
        if name in known:
            values[name][_values(known[name], labels)] = count
            continue
        for metric in HISTOGRAMS:
            series = (metric.name, _values(metric, labels))
            if name == f"{metric.name}_bucket":
                buckets[series][labels.get("le", "+Inf")] += count
            elif name == f"{metric.name}_sum_us":
                sums[series] += count / 1e6
    for metric in COUNTERS:
        counter = CounterMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
        for key, value in _with_zero(metric, values[metric.name]).items():
            counter.add_metric(key, value)
        yield counter
    for metric in HISTOGRAMS:
        yield _histogram(metric, {k: v for k, v in buckets.items() if k[0] == metric.name}, sums)
    for metric in GAUGES:
        if metric.name == "up":
            continue
        gauge = GaugeMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
        for key, value in _with_zero(metric, gauges.get(metric.name, {})).items():
            gauge.add_metric(key, value)
        yield gauge


def _histogram(
    metric: Metric,
    buckets: Mapping[tuple[str, tuple[str, ...]], Mapping[str, float]],
    sums: Mapping[tuple[str, tuple[str, ...]], float],
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
    for (name, key), counts in buckets.items():
        total, cumulative = 0.0, list[tuple[str, float]]()
        for bound in sorted({*counts, "+Inf"}, key=float):
            total += counts.get(bound, 0.0)
            cumulative.append((bound, total))
        family.add_metric(key, buckets=cumulative, sum_value=sums.get((name, key), 0.0))
    return family


def _agents(census: Census, now: int) -> dict[str, Labelled]:
    """Agents by type and status; what waits, lies dead or is in the outbox, by type; pooled ones in line, by class."""
    found: dict[str, Labelled] = {"agents": defaultdict(float), "pool_ready": defaultdict(float)}
    for (kind, status), tally in census.by("type", "status").items():
        found["agents"][(_label(kind), _label(status))] += tally.agents
    sums: dict[str, Tally] = {}
    for (kind,), tally in census.by("type").items():
        sums.setdefault(_label(kind), Tally()).add(tally)
    found["mailbox_backlog"] = {(kind,): float(tally.backlog) for kind, tally in sums.items()}
    found["dead_letters"] = {(kind,): float(tally.dead) for kind, tally in sums.items()}
    found["outbox_entries"] = {(kind,): float(tally.outbox) for kind, tally in sums.items()}
    found["oldest_waiting_signal_seconds"] = {
        (kind,): max(0.0, (now - tally.oldest_ms) / 1000) if tally.oldest_ms else 0.0
        for kind, tally in sums.items()
    }
    for queue, count in census.queues.items():
        found["pool_ready"][(_label(queue.rpartition("@")[0]),)] += count
    return found


def _pool(pool: PoolView) -> dict[str, Labelled]:
    return {
        "pool_slots": {(): float(pool.slots)},
        "pool_slots_stuck": {(): float(pool.stuck)},
        "pool_agents_in_hand": {(): float(pool.in_hand)},
        "pool_agents_unserved": {(): float(pool.unserved.total())},
    }


def _fields(key: str, *names: str) -> Command[tuple[str, ...]]:
    """Some fields of a hash, as label values."""
    return Command(("HMGET", key, *names), lambda reply: tuple(_label(value) for value in reply), hint=key)


def _tally(answers: Iterable[object]) -> Labelled:
    tally: Labelled = defaultdict(float)
    for answer in answers:
        if isinstance(answer, tuple):
            tally[answer] += 1
    return tally


def _values(metric: Metric, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(_label(labels.get(label, "")) for label in metric.labels)


def _label(value: object) -> str:
    """Text that no scrape can choke on: bytes that are not UTF-8 are spelled out, the length is bounded."""
    text = views.shown(value) if value is not None and value != "" else _UNKNOWN
    return text[:120]


def _with_zero(metric: Metric, values: Labelled) -> Labelled:
    """A metric without labels is shown from the start: an alert on its increase needs the zero."""
    return values if values or metric.labels else {(): 0.0}


def _of(metrics: Iterable[Metric], name: str) -> Metric:
    return next(metric for metric in metrics if metric.name == name)


def _listed(answer: object) -> list[str]:
    """A list, or the error in its place raised: a scrape that cannot list must not show zeros."""
    if isinstance(answer, RegrowError):
        raise answer
    assert isinstance(answer, list)
    return cast("list[str]", answer)


def _count(answer: object) -> float:
    """One unreadable key of one agent costs its own figure, not the scrape."""
    return float(answer) if isinstance(answer, int) else 0.0
