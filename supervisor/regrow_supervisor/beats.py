"""The leader's look at the beats: one round trip that also renews the lease, so that only answered writes count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import NotLeader, RegrowError
from regrow_signals.keys import Keys
from regrow_supervisor.leader import Lease
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.states import ChildState
from regrow_supervisor.verdicts import AnsweredTime, BeatWatch, StartWatch, late_nodes
from regrow_supervisor.watchdog_settings import WatchdogSettings

__all__ = ["Beats", "Late"]

Life = tuple[str, int]
_AGENTS_EVERY: Final = 2


@dataclass(slots=True)
class Late:
    """Verdicts of one poll: node ids; lives as (agent, incarnation); nodes that beat but are not in the view."""

    nodes: list[str]
    strangers: list[str]
    agents: list[Life] = field(default_factory=list[Life])
    starts: list[Life] = field(default_factory=list[Life])


class Beats:
    """1. Renews the lease; 2. reads Redis's time; 3. keeps the watches over nodes, running agents and starts.

    Nodes are looked at with each poll, agents and starts, whose timeouts are longer, with every second.
    """

    def __init__(self, keys: Keys, settings: WatchdogSettings) -> None:
        self._keys = keys
        self._settings = settings
        # A poll that took three times as long as it should counts as that much and no more.
        self._time = AnsweredTime(cap_ms=3 * settings.poll_ms)
        self._nodes: BeatWatch[str] = BeatWatch()
        self._agents: BeatWatch[Life] = BeatWatch()
        self._starts: StartWatch[Life] = StartWatch()
        self._offset_ms = 0
        self._polls = 0

    def store_ms(self, now: float) -> int:
        """Redis's time at the own monotonic instant ``now``, as of the last poll."""
        return int(now * 1000) + self._offset_ms

    @property
    def answered_ms(self) -> int:
        """How long the store has answered, as far as that counts."""
        return self._time.elapsed_ms

    def failed(self) -> None:
        """The store did not answer: no time counts, and everybody gets a full timeout when it is back."""
        self._time.failed()
        self.restart()

    def restart(self) -> None:
        """Give everybody a full timeout."""
        for watch in (self._nodes, self._agents, self._starts):
            watch.restart(self._time.elapsed_ms)
        self._polls = 0

    def poll(self, connection: Connection, view: LeaderView, lease: Lease, now: float) -> Late:
        """One look. Raises ``NotLeader`` when the lease is another's, a StoreError when Redis cannot be asked."""
        at_agents = self._polls % _AGENTS_EVERY == 0
        self._polls += 1
        living = list(view.living()) if at_agents else []
        lives = [(child.id, child.incarnation) for _, child, _ in living if _beats(child)]
        items: list[Any] = [
            lease.renew_call(),
            Command(("TIME",), _time_ms),
            Command(("ZRANGE", self._keys.nodes, 0, -1, "WITHSCORES"), _scores),
        ]
        if lives:
            names = [agent for agent, _ in lives]
            items.append(Command(("ZMSCORE", self._keys.agents, *names), _optional_texts))
        answers = connection.pipeline(items)
        for answer in answers:
            if isinstance(answer, RegrowError):
                raise answer
        if not answers[0]:
            raise NotLeader("the lease is another's")
        lease.renewed(now)
        self._offset_ms = cast("int", answers[1]) - int(now * 1000)
        elapsed = self._time.answered(int(now * 1000))
        late = self._look_at_nodes(view, cast("dict[str, str]", answers[2]), elapsed)
        if at_agents:
            scores = zip(lives, cast("list[str | None]", answers[3]) if lives else [], strict=True)
            self._agents.observe(lives, {life: text for life, text in scores if text is not None}, elapsed)
            starting = [child for _, child, _ in living if child.status == "starting"]
            self._starts.observe([(child.id, child.incarnation) for child in starting], elapsed)
            self._judge_agents(view, late, elapsed)
        return late

    def _look_at_nodes(self, view: LeaderView, nodes: dict[str, str], elapsed: int) -> Late:
        self._nodes.observe(sorted(view.expected_nodes() | nodes.keys()), nodes, elapsed)
        self._mark_quiet(view, elapsed)
        return Late(
            nodes=late_nodes(self._nodes, self._settings.node_timeout_ms, elapsed),
            strangers=sorted(nodes.keys() - view.nodes.keys()),
        )

    def _judge_agents(self, view: LeaderView, late: Late, elapsed: int) -> None:
        """Agents and starts of nodes that are silent themselves are left to the verdict on the node."""
        timeout = self._settings.node_timeout_ms

        def on_beating_node(life: Life) -> bool:
            return self._nodes.silent_ms(view.agents[life[0]].node, elapsed) <= timeout

        late.agents = [life for life in self._agents.late(2 * timeout, elapsed) if on_beating_node(life)]
        late.starts = self._starts.late(self._settings.start_timeout_ms, elapsed, on_beating_node)

    def _mark_quiet(self, view: LeaderView, elapsed: int) -> None:
        for node, known in view.nodes.items():
            quiet = self._nodes.silent_ms(node, elapsed) > self._settings.node_timeout_ms // 2
            if quiet != known.quiet:
                view.nodes[node] = replace(known, quiet=quiet)


def _beats(child: ChildState) -> bool:
    """Whether this agent's worker beats by the agent's name; pooled agents do not."""
    return child.status in ("running", "stopping") and child.spec["start"].get("isolation") != "pool"


def _time_ms(reply: Any) -> int:
    seconds, micros = cast("list[Any]", reply)
    return int(seconds) * 1000 + int(micros) // 1000


def _scores(reply: Any) -> dict[str, str]:
    flat = [
        item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
        for item in cast("list[Any]", reply)
    ]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _optional_texts(reply: Any) -> list[str | None]:
    return [None if item is None else str(item) for item in cast("list[Any]", reply)]
