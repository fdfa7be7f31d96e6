"""Every metric that regrow shows: its name, kind, help and labels; and the text form of counters in Redis.

A counter is one field of ``{ns}:counters``: ``<name>|<label>=<value>|...``. A histogram is kept as its buckets
(``<name>_bucket|...|le=0.05``, not cumulative) and ``<name>_sum_us`` (microseconds, an integer). Label values are
agent types, supervisor paths, reasons and the like: never ids, never strangers' text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Metric", "COUNTERS", "HISTOGRAMS", "GAUGES", "ALL", "parse_field"]

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """``name`` is as in Redis; Prometheus sees it as ``regrow_<name>``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


COUNTERS = (
    Metric("signals_accepted_total", "counter", "Signals accepted into a mailbox from clients.", ("type",)),
    Metric("signals_applied_total", "counter", "Signals applied to an agent's state.", ("type",)),
    Metric("signals_rejected_total", "counter", "Signals that a handler rejected.", ("type",)),
    Metric("signals_dead_total", "counter", "Signals that became dead letters.", ("type", "reason")),
    Metric("emits_total", "counter", "Signals sent from agent to agent.", ("type",)),
    Metric("emits_held_total", "counter", "Emits held because their target was full.", ("type",)),
    Metric("published_total", "counter", "Signals published, by the type of agent, or `client`.", ("type",)),
    Metric("published_unrouted_total", "counter", "Those of them that reached nobody.", ("type",)),
    Metric("replies_total", "counter", "Replies to clients that asked, by outcome.", ("type", "outcome")),
    Metric("subscriptions_refused_total", "counter", "Subscriptions of child specs beyond a bound."),
    Metric("effects_total", "counter", "Effects by outcome.", ("name", "outcome")),
    Metric(
        "timers_fired_total", "counter", "Signals that timers sent, by the type of their agent.", ("type",)
    ),
    Metric("timers_missed_total", "counter", "Ticks of recurring timers that were left out.", ("type",)),
    Metric("timers_dropped_total", "counter", "Timers without their agent, or that make no sense."),
    Metric("exits_total", "counter", "Ends of agent processes by reason.", ("reason",)),
    Metric(
        "workers_recycled_total",
        "counter",
        "Workers that gave way to a fresh process, uncharged: `max_signals` `max_growth` `priority` `newer_code`.",
        ("type", "reason"),
    ),
    Metric("restarts_total", "counter", "Restarts by supervisor and reason.", ("supervisor", "reason")),
    Metric("supervisor_gave_up_total", "counter", "Times a supervisor gave up.", ("supervisor",)),
    Metric("supervisor_paused_total", "counter", "Pauses of a root that had given up.", ("supervisor",)),
    Metric(
        "supervisor_parked_total",
        "counter",
        "Children parked: over a limit of their own, or with a state that cannot be read.",
        ("supervisor",),
    ),
    Metric("dead_retried_total", "counter", "Dead letters sent again.", ("type",)),
    Metric("dead_dropped_total", "counter", "Dead letters dropped.", ("type",)),
    Metric("leadership_changes_total", "counter", "Times a watchdog became leader."),
    Metric("nodes_lost_total", "counter", "Nodes declared lost."),
    Metric("store_restarts_total", "counter", "Times the leader saw Redis come back as another run."),
)

HISTOGRAMS = (
    Metric("recovery_seconds", "histogram", "From the end of an agent's process to its next claim."),
    Metric("transition_seconds", "histogram", "Time spent in one transition.", ("type",)),
    Metric("timer_lateness_seconds", "histogram", "From a timer's due time to its signal in the mailbox."),
)

GAUGES = (
    Metric("up", "gauge", "1 if Redis answered this scrape."),
    Metric("agents", "gauge", "Registered agents.", ("type", "status")),
    Metric("mailbox_backlog", "gauge", "Accepted signals that are not yet applied.", ("type",)),
    Metric(
        "oldest_waiting_signal_seconds",
        "gauge",
        "Age of the oldest signal that waits in a mailbox.",
        ("type",),
    ),
    Metric("dead_letters", "gauge", "Dead letters kept.", ("type",)),
    Metric("outbox_entries", "gauge", "Committed effects and held emits that are not done.", ("type",)),
    Metric("pool_slots", "gauge", "Slots of all nodes, for pooled agents."),
    Metric("pool_slots_stuck", "gauge", "Of those, slots in one transition for more than 50 ms."),
    Metric("pool_agents_in_hand", "gauge", "Pooled agents in the hands of slots."),
    Metric(
        "pool_ready", "gauge", "Pooled agents that wait for a slot, by what they ask of a node.", ("class",)
    ),
    Metric("pool_agents_unserved", "gauge", "Of those, agents that no live node can run."),
    Metric("effects_waiting", "gauge", "Effects pending or claimed."),
    Metric("timers", "gauge", "Timers that are set."),
    Metric("nodes", "gauge", "Nodes by kind and status.", ("kind", "status")),
    Metric("watchdog_leader", "gauge", "1 if a watchdog holds the leader's lease."),
    Metric("supervisors", "gauge", "Supervisors by status.", ("status",)),
    Metric("exits_waiting", "gauge", "Starts, exits and requests the leader has not decided on."),
)

ALL = COUNTERS + HISTOGRAMS + GAUGES


def parse_field(field: str) -> tuple[str, dict[str, str]]:
    """``"a_total|type=x|reason=y"`` -> ``("a_total", {"type": "x", "reason": "y"})``."""
    name, *parts = field.split("|")
    labels: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        labels[key] = value
    return name, labels
