"""Every key of regrow in Redis: the only place where a key's name is built.

All keys of a namespace share one hash tag, ``{namespace}``, so that any step on them can be one script, on Redis
Cluster too. ``KEY_TABLE`` says of each what it holds, who writes it, and whether it expires; the documentation and the
test that looks for stray keys read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from regrow_signals.ids import check_namespace

__all__ = ["ASYNC_QUEUE", "KEY_TABLE", "KeyKind", "Keys"]

ASYNC_QUEUE: Final = "-async"
"""How the keys of async effects' queue end; those of the others end with nothing."""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """One kind of key: ``name`` follows the tag, and an id follows its trailing ``:``; ``type`` is Redis's."""

    name: str
    type: str
    owner: str
    expiry: str
    holds: str


KEY_TABLE: Final[tuple[KeyKind, ...]] = (
    KeyKind(
        "agent:", "hash", "register, claim, commit, decision", "none", "an agent: type, state, version, owner"
    ),
    KeyKind(
        "mailbox:", "stream", "send, commit (emits), settle", "none", "accepted, not yet applied signals"
    ),
    KeyKind("outbox:", "stream", "commit, relay, settle", "none", "committed effects and held emits"),
    KeyKind("dead:", "stream", "commit, relay", "none", "dead letters with their reasons"),
    KeyKind("journal:", "stream", "commit", "none", "the last transitions"),
    KeyKind(
        "seen:",
        "hash",
        "send",
        "two dedupe windows",
        "signal ids accepted lately; `.since` of this generation",
    ),
    KeyKind("seen-old:", "hash", "send", "two dedupe windows", "the generation of signal ids before `seen`"),
    KeyKind(
        "fate:", "hash", "commit, dead_retry, dead_drop", "none", "what became of signals not simply applied"
    ),
    KeyKind("agents", "zset", "register, beat", "none", "every registered agent by its last beat"),
    KeyKind("nodes", "zset", "join, beat", "none", "nodes by their last beat"),
    KeyKind("node:", "hash", "join, beat", "none", "a node: host, pid, labels, load, types"),
    KeyKind("control:", "stream", "decision", "none", "orders to a node"),
    KeyKind("exits", "stream", "claim, report, join, request", "none", "the watchdog's mailbox"),
    KeyKind("supervisor:", "hash", "decision", "none", "a supervisor's children, holds, restarts"),
    KeyKind("supervisors", "set", "decision", "none", "paths of all supervisors"),
    KeyKind("leader", "string", "lease", "the lease", "who leads"),
    KeyKind("held", "zset", "commit, relay", "none", "agents with held emits"),
    KeyKind(
        "claims:",
        "set",
        "claim_effect, settle, pool_claim, pool_commit, pool_release",
        "none",
        "effects in the hands of a node; with `/pool`, agents in those of its slots",
    ),
    KeyKind(
        "ready:", "list", "every append to a mailbox, pool_claim", "none", "pooled agents with work, in turn"
    ),
    KeyKind("bell:", "list", "every append to a mailbox, pool_claim", "none", "one element; wakes a slot"),
    KeyKind("classes", "set", "decision", "none", "placement classes of pooled agents"),
    KeyKind("reply:", "list", "decision, commit, relay", "minutes", "answers to a request or an ask"),
    KeyKind("counters", "hash", "every step", "none", "what metrics are made of"),
    KeyKind("events", "stream", "every life event", "none, capped", "starts, exits, restarts, escalations"),
    KeyKind("effect:", "hash", "commit, claim_effect, settle", "none", "a committed effect not yet settled"),
    KeyKind("effect-tags:", "hash", "commit, settle", "none", "an agent's effects that have a tag"),
    KeyKind("cancelling", "set", "commit, settle", "none", "effects in executors' hands that are to stop"),
    KeyKind("effects", "zset", "commit, ring, settle", "none", "effects by the time they are due to ring"),
    KeyKind("effects-async", "zset", "commit, ring, settle", "none", "the same of async effects"),
    KeyKind(
        "limits", "hash", "effect_limits, ring", "none", "of effects by name: how many at once, or in a time"
    ),
    KeyKind("buckets", "hash", "claim_effect", "none", "when the bucket of a name's rate is full again"),
    KeyKind(
        "running:", "set", "claim_effect, settle", "none", "effects of a name that hold one of its places"
    ),
    KeyKind("parked:", "zset", "ring, claim_effect, settle", "none", "effects of a name that wait for room"),
    KeyKind("bell", "list", "commit", "none", "one element at most; wakes the ringer"),
    KeyKind("bell-async", "list", "commit", "none", "one element at most; wakes an asyncio executor"),
    KeyKind(
        "subscriptions", "hash", "subscribe, commit, decision", "none", "patterns, and how many subscribe"
    ),
    KeyKind("wildcards", "set", "subscribe, commit, decision", "none", "those patterns that have wildcards"),
    KeyKind(
        "subscribers:", "hash", "subscribe, commit, decision", "none", "who subscribes to a pattern, and how"
    ),
    KeyKind("timers", "zset", "commit, fire, install", "none", "timers by the time to look at them"),
    KeyKind("timer:", "hash", "commit, fire, install", "none", "a timer: what is sent to whom, and when"),
    KeyKind("timers-of:", "set", "commit, fire, cancel", "none", "timers that an agent set itself"),
    KeyKind(
        "timer-bell", "list", "commit, install", "none", "one element at most; wakes whoever fires timers"
    ),
)


class Keys:
    """Names of all keys of one namespace. Ids given to it were checked at the door (``ids.py``)."""

    __slots__ = (
        "_prefix",
        "agents",
        "bell",
        "bell_async",
        "buckets",
        "cancelling",
        "class_bell",
        "classes",
        "counters",
        "effects",
        "effects_async",
        "events",
        "exits",
        "held",
        "leader",
        "limits",
        "namespace",
        "nodes",
        "subscriptions",
        "supervisors",
        "tag",
        "timer_bell",
        "timers",
        "wildcards",
    )

    def __init__(self, namespace: str = "regrow") -> None:
        self.namespace: Final = check_namespace(namespace)
        self.tag: Final = f"{{{namespace}}}"
        prefix = f"{self.tag}:"
        self._prefix: Final = prefix
        self.agents: Final = f"{prefix}agents"
        self.nodes: Final = f"{prefix}nodes"
        self.exits: Final = f"{prefix}exits"
        self.supervisors: Final = f"{prefix}supervisors"
        self.leader: Final = f"{prefix}leader"
        self.held: Final = f"{prefix}held"
        self.counters: Final = f"{prefix}counters"
        self.events: Final = f"{prefix}events"
        self.effects: Final = f"{prefix}effects"
        self.effects_async: Final = f"{prefix}effects{ASYNC_QUEUE}"
        self.cancelling: Final = f"{prefix}cancelling"
        self.limits: Final = f"{prefix}limits"
        self.buckets: Final = f"{prefix}buckets"
        self.bell: Final = f"{prefix}bell"
        self.bell_async: Final = f"{prefix}bell{ASYNC_QUEUE}"
        self.subscriptions: Final = f"{prefix}subscriptions"
        self.wildcards: Final = f"{prefix}wildcards"
        self.timers: Final = f"{prefix}timers"
        self.timer_bell: Final = f"{prefix}timer-bell"
        self.classes: Final = f"{prefix}classes"
        self.class_bell: Final = f"{prefix}bell:classes"

    def __repr__(self) -> str:
        return f"Keys({self.namespace!r})"

    def agent(self, agent: str) -> str:
        return f"{self._prefix}agent:{agent}"

    def mailbox(self, agent: str) -> str:
        return f"{self._prefix}mailbox:{agent}"

    def outbox(self, agent: str) -> str:
        return f"{self._prefix}outbox:{agent}"

    def dead(self, agent: str) -> str:
        return f"{self._prefix}dead:{agent}"

    def journal(self, agent: str) -> str:
        return f"{self._prefix}journal:{agent}"

    def seen(self, agent: str) -> str:
        return f"{self._prefix}seen:{agent}"

    def seen_old(self, agent: str) -> str:
        """The generation before ``seen``. Not ``seen:<id>:old``: that is what an agent ``<id>:old`` would own."""
        return f"{self._prefix}seen-old:{agent}"

    def fate(self, agent: str) -> str:
        return f"{self._prefix}fate:{agent}"

    def node(self, node: str) -> str:
        return f"{self._prefix}node:{node}"

    def control(self, node: str) -> str:
        return f"{self._prefix}control:{node}"

    def supervisor(self, path: str) -> str:
        return f"{self._prefix}supervisor:{path}"

    def claims(self, node: str) -> str:
        return f"{self._prefix}claims:{node}"

    def pool_claims(self, node: str) -> str:
        """Agents in the hands of this node's slots. No node's id ends so: it would be an effects node's ``claims``."""
        return f"{self._prefix}claims:{node}/pool"

    def ready(self, queue: str) -> str:
        """The run queue of a placement class and a schema: ``counter@1``."""
        return f"{self._prefix}ready:{queue}"

    def ready_bell(self, queue: str) -> str:
        return f"{self._prefix}bell:{queue}"

    def reply(self, request: str) -> str:
        return f"{self._prefix}reply:{request}"

    def effect(self, effect: str) -> str:
        return f"{self._prefix}effect:{effect}"

    def effect_tags(self, agent: str) -> str:
        return f"{self._prefix}effect-tags:{agent}"

    def running(self, name: str) -> str:
        """Effects of this name that hold one of its places."""
        return f"{self._prefix}running:{name}"

    def parked(self, name: str, *, awaited: bool = False) -> str:
        """Effects of this name that wait for room. No name has a slash in it."""
        return f"{self._prefix}parked:{'async/' if awaited else ''}{name}"

    def subscribers(self, pattern: str) -> str:
        return f"{self._prefix}subscribers:{pattern}"

    def timer(self, timer: str) -> str:
        return f"{self._prefix}timer:{timer}"

    def timers_of(self, agent: str) -> str:
        return f"{self._prefix}timers-of:{agent}"

    def kind(self, key: str) -> KeyKind | None:
        """The documented kind of a key of this namespace; None for a stranger's."""
        if not key.startswith(self._prefix):
            return None
        rest = key[len(self._prefix) :]
        head, colon, _ = rest.partition(":")
        return next((kind for kind in KEY_TABLE if kind.name == head + colon), None)
