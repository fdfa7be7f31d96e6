"""``Harness``: a whole tree in one process, with a clock that the test moves.

What runs is regrow itself: the client, the planner, the worker's loop, the watchdog and its decisions, the Lua
scripts. Only the world around it is simulated: Redis is fakeredis's commands in this process, a worker is an object
that is stepped and may die at any step, a node is a list of them. Nothing sleeps, nothing listens, nothing is left
behind.

What it cannot show: limits that are watched from outside (``deadline``, ``max_memory``: use ``kill(..., reason=...)``),
real processes, sockets and forks. ``regrow.testing.server()`` gives tests a real Redis for those.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

from regrow.client import Client
from regrow.control import ask_watchdog
from regrow.testing.memory_connection import MemoryConnection
from regrow.testing.memory_server import MemoryServer
from regrow.testing.pending_effects import EffectDesk, PendingEffect
from regrow.testing.simulated_node import SimulatedNode
from regrow.testing.stepped_worker import Died, KillStep
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.client import SentReceipt, StateParser
from regrow_signals.durations import Duration, to_seconds
from regrow_signals.errors import BadDefinition, BadInput, NoSuchAgent, RegrowError
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Receipt, Status
from regrow_signals.publishing import Published
from regrow_signals.signal import Payload, Signal
from regrow_supervisor.inbox import next_due
from regrow_supervisor.spec import Supervisor
from regrow_supervisor.timekeeper import fire_due
from regrow_supervisor.watchdog import Watchdog, WatchdogSettings
from regrow_workers.agent import Agent
from regrow_workers.application import Application, types_by_name
from regrow_workers.effects.effect import registered_effects
from regrow_workers.purity import GuardMode
from regrow_workers.reasons import Killed
from regrow_workers.replay import Replayed, replay
from regrow_workers.settings import NodeSettings

__all__ = ["Harness", "NeverIdle", "Transition"]

S = TypeVar("S")

_FIRST_INSTANT: Final = datetime(2020, 1, 1, tzinfo=UTC)
_SMALL_STEP_MS: Final = 250
_MAX_ROUNDS: Final = 10_000

KillReason = Literal["SIGKILL", "deadline", "memory", "frozen", "operator"]
_KILLED: Final[Mapping[KillReason, Killed | None]] = {
    "SIGKILL": None,
    "deadline": Killed.DEADLINE,
    "memory": Killed.MEMORY,
    "frozen": Killed.FROZEN,
    "operator": Killed.OPERATOR,
}


class NeverIdle(RegrowError):
    """The tree went on and on: agents that send each other signals for ever, or one that dies at each start."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One line of an agent's journal. ``outcome`` is ``applied``, ``unchanged`` or the reason of a dead letter."""

    version: int
    type: str
    signal_id: str
    outcome: str
    directives: Sequence[Mapping[str, str]]


class Harness:
    """One tree under test. The tree is started, with its agents running and idle, when the constructor returns.

    ``send`` puts a signal in a mailbox and does no more; ``run`` lets everybody work until nobody has anything to do;
    ``step`` lets everybody do one thing. ``client`` is a real ``regrow.Client``: what it waits for goes on by itself.
    """

    def __init__(
        self,
        tree: Supervisor,
        *,
        nodes: int = 1,
        now: datetime = _FIRST_INSTANT,
        limits: Limits = Limits(),  # noqa: B008  frozen
        guard: GuardMode = "enforce",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.tree = tree
        self._epoch_ms = round(now.timestamp() * 1000)
        self._elapsed_ms = 0
        self._server = MemoryServer(lambda: (self._epoch_ms + self._elapsed_ms) / 1000)
        self.client = Client("unix:///in-memory", limits=limits)
        self.client.connection = MemoryConnection(self._server, idle=self.run)
        self._keys = self.client.keys
        self._limits = limits
        types = types_by_name(tree.agent_types().values())
        self._application = Application("test:tree", tree, types, registered_effects(), ())
        self._armed: dict[str, tuple[str, Killed | None, int]] = {}
        self._said: list[str] = []
        self._settings = NodeSettings(check_every=1, guard=guard, labels=labels or {})
        self._nodes: list[SimulatedNode] = []
        for _ in range(nodes):
            self.add_node()
        self._watchdog = self._new_watchdog()
        self._effects = EffectDesk(
            self.client.connection, self._keys, self._application.effects, self._living_node
        )
        self.run()
        for line in self._said:
            if line.startswith("tree refused"):
                raise BadDefinition(line)

    # The world goes on.

    @property
    def now(self) -> datetime:
        """The clock of everybody here: a handler's ``ctx.now``, Redis, the watchdog."""
        return datetime.fromtimestamp((self._epoch_ms + self._elapsed_ms) / 1000, UTC)

    def send(
        self, agent: str, what: Payload | Signal | str, data: object = None, **attributes: Any
    ) -> SentReceipt:
        """As ``Client.send``: the signal is accepted, nobody has looked at it yet."""
        return self.client.send(agent, what, data, **attributes)

    def publish(self, what: Payload | str, data: object = None, **attributes: Any) -> Published[SentReceipt]:
        """As ``Client.publish``: accepted by all who subscribe to its type."""
        return self.client.publish(what, data, **attributes)

    def run(self, *, max_rounds: int = _MAX_ROUNDS) -> None:
        """Until nobody has anything to do at this instant. ``NeverIdle`` after ``max_rounds``."""
        for _ in range(max_rounds):
            if not self.step():
                return
        busy = [agent for agent in self._agents() if self.client.connection.command(
            views.mailbox_length(self._keys, agent))]  # fmt: skip
        raise NeverIdle(
            f"not idle after {max_rounds} rounds; with waiting signals: {', '.join(busy) or 'none'}"
        )

    def step(self) -> bool:
        """One round: the watchdog decides what it has heard, every agent takes one batch. Whether anything was done."""
        done = self._watch()
        for node in self._nodes:
            done = node.step() or done
        return done

    def advance(self, duration: Duration) -> None:
        """Move the clock, and let everything that falls due on the way happen at its time."""
        end = self._elapsed_ms + round(to_seconds(duration, "duration", zero=True) * 1000)
        self.run()
        while self._elapsed_ms < end:
            self._elapsed_ms = min(end, self._next_instant())
            for node in self._nodes:
                node.beat()
            self.run()

    # Trouble.

    def kill(
        self, agent: str, *, at: KillStep | None = None, reason: KillReason = "SIGKILL", times: int = 1
    ) -> None:
        """End the agent's process: now, or when it next reaches the step ``at`` (``times`` times, life after life).

        ``deadline``, ``memory`` and ``frozen`` are what the node would have killed it for.
        """
        self._check_agent(agent)
        if at is not None:
            self._armed[agent] = (at, _KILLED[reason], times)
            return
        incarnation = self.incarnation(agent)
        if not any(node.kill(agent, incarnation, _KILLED[reason]) for node in self._nodes):
            raise BadInput(f"agent {agent} does not run now: it is {self.status(agent)}")

    def lose_node(self, number: int = 1) -> None:
        """The host of node ``number`` is gone without a word; ``advance`` beyond ``node_timeout`` to see it noticed."""
        self._nodes[number - 1].frozen = True

    def drain_node(self, number: int = 1) -> None:
        """SIGTERM to node ``number``: its agents are handed back and start elsewhere."""
        self._nodes[number - 1].drain()

    def add_node(self, tree: Supervisor | None = None, *, labels: Mapping[str, str] | None = None) -> None:
        """One more node, with a number of its own. ``tree``: it runs that version of the application."""
        types = self._application.agent_types
        if tree is not None:
            types = types_by_name(tree.agent_types().values())
        labels = self._settings.labels if labels is None else labels
        self._nodes.append(self._new_node(len(self._nodes) + 1, types, labels))

    def kill_watchdog(self) -> None:
        """The leader dies; a standby takes over with the next ``run``."""
        self.client.connection.command(Command(("DEL", self._keys.leader), int))
        self._watchdog = self._new_watchdog()

    def put_state(self, agent: str, data: Mapping[str, Any], *, schema: int) -> None:
        """As if other code had stored this. A worker that runs gives way to a fresh one, which has to read it."""
        self._check_agent(agent)
        words = ("HSET", self._keys.agent(agent), "state", json.dumps(data), "schema", str(schema))
        self.client.connection.command(Command(words, int))
        for node in self._nodes:
            node.renew(agent)

    def revive(self, agent: str) -> None:
        """As ``regrow revive``: a parked agent starts again, and everybody works until nobody has anything to do."""
        ask_watchdog(self.client.connection, self._keys, "revive", {"target": agent})
        self.run()

    # Looking.

    def state(self, agent: str, agent_type: StateParser[S]) -> S:
        """The last committed state."""
        return self.client.state(agent, agent_type)

    def record(self, agent: str) -> Mapping[str, str]:
        """The agent's hash, as it stands in Redis."""
        found = self.client.connection.command(views.agent_record(self._keys, agent))
        if not found:
            raise NoSuchAgent(
                f"no agent {agent} is registered; there are {', '.join(self._agents()) or 'none'}"
            )
        return found

    def status(self, agent: str) -> str:
        """``running``, ``stopped``, ``restarting``, ``parked`` and so on."""
        return self.record(agent)["status"]

    def incarnation(self, agent: str) -> int:
        """The number of its current life, or of its last one."""
        return int(self.record(agent)["incarnation"])

    def fate(self, receipt: Receipt) -> Status:
        """What became of a sent signal."""
        return self.client.status(receipt)

    def journal(self, agent: str) -> list[Transition]:
        """The last transitions, the oldest first, with the directives that each returned."""
        lines = self.client.connection.command(views.journal(self._keys, agent, count=1000))
        return [
            Transition(
                int(line["version"]), line["type"], line["signal"], line["outcome"], json.loads(line["directives"])
            )
            for _, line in lines
        ]  # fmt: skip

    def replay(self, agent: str) -> Replayed:
        """The agent's journal run again: every step, and the version at which one came out otherwise, if one did."""
        record = self.record(agent)
        lines = self.client.connection.command(views.journal(self._keys, agent, count=1000))
        kind = self._application.agent_types[record["type"]]
        return replay(kind, record, [line for _, line in lines], agent=agent, limits=self._limits)

    def directives(self, agent: str) -> list[Mapping[str, str]]:
        """All directives of the journal in order: ``{"emit": "invoice.due", "to": "billing"}``."""
        return [directive for line in self.journal(agent) for directive in line.directives]

    def dead_letters(self, agent: str) -> list[dict[str, str]]:
        """Signals that could not be applied, with ``reason``, ``error``, and the signal's own fields."""
        return [fields for _, fields in self.client.dead_letters(agent, count=1000)]

    def waiting(self, agent: str) -> int:
        """How many accepted signals it has not applied yet."""
        return self.client.connection.command(views.mailbox_length(self._keys, agent))

    def events(self) -> list[dict[str, str]]:
        """Every start, exit, restart and dead letter, the oldest first."""
        return [
            fields for _, fields in self.client.connection.command(views.events(self._keys, count=10_000))
        ]

    # Effects are not run by themselves: a test says what came of them, or runs the functions.

    def effects(self, agent: str | None = None) -> list[PendingEffect]:
        """Committed effects that nobody has executed yet, of one agent or of all."""
        agents = self._agents() if agent is None else [agent]
        return [found for each in agents for found in self._effects.pending(each)]

    def complete(self, effect: PendingEffect, result: object = None) -> None:
        """The effect was executed and returned ``result``; its outcome signal waits in the agent's mailbox."""
        self._effects.complete(effect, result)

    def fail(self, effect: PendingEffect, error: str = "failed in a test") -> None:
        """This try of the effect raised: it is tried again after its backoff, or failed if that was the last one."""
        self._effects.fail(effect, error)

    def crash(self, effect: PendingEffect, reason: str = "crashed in a test") -> None:
        """The executor died in this try: it is tried again, or in doubt if it is one that may not be repeated."""
        self._effects.crash(effect, reason)

    def run_effects(self) -> int:
        """Call the functions of all effects that are due, for real; how many were called."""
        return self._effects.execute(
            [each for agent in self._agents() for each in self._effects.pending(agent)]
        )

    # Below.

    def _new_node(
        self, number: int, types: Mapping[str, type[Agent[Any]]], labels: Mapping[str, str]
    ) -> SimulatedNode:
        node = SimulatedNode(
            f"node-{number}",
            server=self._server,
            keys=self._keys,
            limits=self._limits,
            agent_types=types,
            settings=replace(self._settings, labels=labels),
            reach=self._reached,
        )
        node.join()
        return node

    def _living_node(self) -> str:
        return next((node.node for node in self._nodes if not node.frozen), self._nodes[0].node)

    def _new_watchdog(self) -> Watchdog:
        # A lease that a jump of the clock does not run out of.
        settings = WatchdogSettings(lease=1e8)
        return Watchdog(
            MemoryConnection(self._server),
            self._keys,
            settings=settings,
            limits=self._limits,
            application=self._application,
            say=self._said.append,
            clock=lambda: self._elapsed_ms / 1000,
        )

    def _watch(self) -> bool:
        counts: Counter[str] = self._watchdog.run_once(None)
        if not self._watchdog.leading:
            raise RegrowError("the watchdog could not lead: look at the log of regrow_supervisor.watchdog")
        return self._fire_timers() or any(number for what, number in counts.items() if what != "wait_ms")

    def _fire_timers(self) -> bool:
        connection = self.client.connection
        if not connection.command(Command(("EXISTS", self._keys.timers), int)):
            return False
        return fire_due(connection, self._keys, self._limits, self._watchdog.token).due > 0

    def _next_instant(self) -> int:
        """When something may happen next, in our milliseconds."""
        soon = self._elapsed_ms + _SMALL_STEP_MS
        held = self.client.connection.command(Command(("EXISTS", self._keys.held), int))
        if held or any(node.frozen for node in self._nodes):
            return soon
        reign = self._watchdog.reign
        decisions = None if reign is None else next_due(reign.view.states)
        timer = self.client.connection.command(views.next_timer_ms(self._keys))
        dues = [due - self._epoch_ms for due in (decisions, timer) if due is not None]
        if not dues:
            return self._elapsed_ms + 10**15
        return max(min(dues), soon if min(dues) <= self._elapsed_ms else 0)

    def _reached(self, agent: str, incarnation: int, step: str) -> None:
        del incarnation
        armed = self._armed.get(agent)
        if armed is None or armed[0] != step:
            return
        at, killed, times = armed
        if times > 1:
            self._armed[agent] = (at, killed, times - 1)
        else:
            del self._armed[agent]
        raise Died(killed)

    def _agents(self) -> list[str]:
        return self.client.connection.command(views.agent_ids(self._keys))

    def _check_agent(self, agent: str) -> None:
        self.record(agent)
