"""A node without processes: carries out orders, drives its workers and its slot, reports how each life ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regrow.testing.memory_connection import MemoryConnection
from regrow.testing.memory_server import MemoryServer
from regrow.testing.stepped_slot import SteppedSlot
from regrow.testing.stepped_worker import Died, SteppedWorker
from regrow_signals import nodes, relay
from regrow_signals.errors import Fenced
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.pool import NodeGone, SlotName
from regrow_workers.agent import Agent
from regrow_workers.announced import announce
from regrow_workers.purity import guard
from regrow_workers.reasons import MEMORY, ExitReason, Killed, Knowledge, WorkerExit, explain, spawner_lost
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase

__all__ = ["SimulatedNode", "StepHook"]

StepHook = Callable[[str, int, str], None]
"""Called with agent, incarnation and step; raises ``Died`` to end the life there."""


@dataclass(slots=True)
class _Life:
    agent: str
    incarnation: int
    worker: SteppedWorker
    order: Mapping[str, str]
    killed: Killed | None = None


class SimulatedNode:
    """One node. ``step`` is one round over its orders and its lives."""

    def __init__(
        self,
        node: str,
        *,
        server: MemoryServer,
        keys: Keys,
        limits: Limits,
        agent_types: Mapping[str, type[Agent[Any]]],
        settings: NodeSettings,
        reach: StepHook,
    ) -> None:
        self.node = node
        self.frozen = False
        self._server = server
        self._connection = MemoryConnection(server)
        self._keys = keys
        self._limits = limits
        self._types = agent_types
        self._settings = settings
        self._reach = reach
        self._cursor = "0"
        self._lives: dict[tuple[str, int], _Life] = {}
        self._slot: SteppedSlot | None = None
        self._slots = 0
        self._draining = False

    @property
    def lives(self) -> Sequence[tuple[str, int]]:
        """(agent, incarnation) of every life that this node looks after."""
        return list(self._lives)

    def join(self) -> None:
        join = nodes.join(
            self._keys, self.node, kind="worker", host="test", pid=0, labels=dict(self._settings.labels),
            types=announce(self._types), version="test",
        )  # fmt: skip
        self._connection.call(join)

    def beat(self) -> None:
        """As the reporter's thread does; lives that are no longer current end."""
        if self.frozen:
            return
        reply = self._connection.call(nodes.beat(self._keys, self.node, self.lives, load=len(self._lives)))
        for agent, incarnation in reply.stale:
            self._lives.pop((agent, incarnation), None)

    def step(self) -> bool:
        """Take orders, give each life one turn, deliver held emits; whether anything was done."""
        if self.frozen:
            return False
        done = self._take_orders()
        for life in list(self._lives.values()):
            if (life.agent, life.incarnation) in self._lives:
                done = self._turn(life) or done
        if self._slot is not None:
            done = self._turn_slot(self._slot) or done
        return self._relay() or done

    def kill(self, agent: str, incarnation: int, killed: Killed | None = None) -> bool:
        """SIGKILL now, between two signals; whether it lived here."""
        life = self._lives.get((agent, incarnation))
        if life is None:
            return False
        life.killed = killed
        self._ended(life, -signal.SIGKILL)
        return True

    def renew(self, agent: str) -> None:
        """Its worker gives way to a fresh one of the same life, if it has one here."""
        for life in self._lives.values():
            if life.agent == agent:
                life.worker = self._new_worker(life.order, life.agent, life.incarnation)

    def lose_workers(self) -> None:
        """The spawner died: all its workers with it."""
        for life in list(self._lives.values()):
            self._report(life, *_as_report(spawner_lost()))
        if self._slot is not None:
            self._slot_ended(self._slot, spawner_lost())

    def drain(self) -> None:
        """As on SIGTERM: no new start, everybody is asked to release, then the node leaves."""
        self._draining = True
        self._connection.call(nodes.node_event(self._keys, self.node, "draining"))
        for life in list(self._lives.values()):
            life.worker.asked.request()
            while (life.agent, life.incarnation) in self._lives:
                self._turn(life)
        self._slot = None
        self._connection.call(nodes.node_event(self._keys, self.node, "left"))
        self.frozen = True

    # A life.

    def _turn(self, life: _Life) -> bool:
        before = guard.mode
        guard.set_mode(self._settings.guard)
        try:
            done, code = life.worker.step()
        except Died as death:
            life.killed = death.killed
            self._ended(life, -signal.SIGKILL)
        except MemoryError:
            life.worker.slot.end_in_hand(Phase.CRASHED, MEMORY)
            self._ended(life, WorkerExit.CRASHED)
        except Fenced:
            life.worker.slot.note(Phase.SUPERSEDED)
            self._ended(life, WorkerExit.SUPERSEDED)
        except SystemExit as leaving:
            # In a handler; in a real worker too this ends the process with the signal in hand.
            self._ended(life, leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code)))
        else:
            if code is WorkerExit.RECYCLED:
                self.renew(life.agent)
            elif code is not None:
                self._ended(life, code)
            return done
        finally:
            guard.set_mode(before)
        return True

    def _ended(self, life: _Life, status: int) -> None:
        reason = explain(
            status, life.worker.reading(), Knowledge(life.killed, self._draining, life.worker.asked.requested)
        )
        self._report(life, *_as_report(reason))

    def _report(self, life: _Life, reason: str, charge: Any, charged: bool, error: str) -> None:
        del self._lives[life.agent, life.incarnation]
        report = nodes.ExitReport(
            self.node,
            life.agent,
            life.incarnation,
            reason,
            charge,
            charged,
            error,
            life.worker.reading().entry,
        )
        self._connection.call(nodes.report_exit(self._keys, report))

    # The slot of pooled agents.

    def _turn_slot(self, slot: SteppedSlot) -> bool:
        before = guard.mode
        guard.set_mode(self._settings.guard)
        try:
            return slot.step()
        except NodeGone:
            self._slot = None
            return False
        except Died as death:
            self._slot_ended(slot, explain(-signal.SIGKILL, slot.reading(), Knowledge(death.killed)))
        except MemoryError:
            slot.slot.end_in_hand(Phase.CRASHED, MEMORY)
            self._slot_ended(slot, explain(WorkerExit.CRASHED, slot.reading(), Knowledge()))
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
            self._slot_ended(slot, explain(status, slot.reading(), Knowledge()))
        finally:
            guard.set_mode(before)
        return True

    def _slot_ended(self, slot: SteppedSlot, reason: ExitReason) -> None:
        slot.free(reason)
        self._slot = self._new_slot()

    def _new_slot(self) -> SteppedSlot:
        self._slots += 1
        return SteppedSlot(
            name=SlotName(self.node, self._slots),
            agent_types=self._types,
            connection=MemoryConnection(self._server),
            keys=self._keys,
            limits=self._limits,
            settings=self._settings,
            reach=self._reach,
        )

    # Orders.

    def _take_orders(self) -> bool:
        entries = self._connection.read_stream(self._keys.control(self.node), self._cursor, count=1000)
        for entry, fields in entries:
            self._cursor = entry
            self._carry_out({name: str(value) for name, value in fields.items()})
        return bool(entries)

    def _carry_out(self, order: Mapping[str, str]) -> None:
        if order["order"] == "pool":
            self._slot = self._slot or self._new_slot()
            return
        agent, incarnation = order["agent"], int(order["incarnation"])
        life = self._lives.get((agent, incarnation))
        match order["order"]:
            case "start" if self._draining or order["type"] not in self._types:
                why = f"this node has no agent type {order['type']!r}"
                self._connection.call(
                    nodes.report_start_failed(self._keys, self.node, agent, incarnation, why)
                )
            case "start":
                self._start(order, agent, incarnation)
            case _ if life is None:
                report = nodes.ExitReport(self.node, agent, incarnation, "shutdown", "none", False)
                self._connection.call(nodes.report_exit(self._keys, report))
            case "stop" if order.get("shutdown_ms") == "0":
                self.kill(agent, incarnation, Killed.SHUTDOWN_TIME)
            case "stop":
                life.worker.asked.request()
            case _:
                self.kill(agent, incarnation, Killed.OPERATOR)

    def _start(self, order: Mapping[str, str], agent: str, incarnation: int) -> None:
        order = {**order, "token": new_id()}
        worker = self._new_worker(order, agent, incarnation)
        self._lives[agent, incarnation] = _Life(agent, incarnation, worker, order)

    def _new_worker(self, order: Mapping[str, str], agent: str, incarnation: int) -> SteppedWorker:
        return SteppedWorker(
            order=order,
            node=self.node,
            agent_type=self._types[order["type"]],
            connection=MemoryConnection(self._server),
            keys=self._keys,
            limits=self._limits,
            settings=self._settings,
            reach=lambda step: self._reach(agent, incarnation, step),
        )

    def _relay(self) -> bool:
        delivered = 0
        for sender in self._connection.command(relay.held_agents(self._keys)):
            delivered += self._connection.call(relay.deliver_held(self._keys, self._limits, sender))
        return delivered > 0


def _as_report(reason: Any) -> tuple[str, Any, bool, str]:
    return reason.reason, reason.charge, reason.charged, reason.error
