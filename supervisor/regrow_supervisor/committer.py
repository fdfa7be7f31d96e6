"""The shell around one decision: decide, place, commit, and only then believe it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from regrow_signals import leadership
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_signals.leadership import DecisionCommit
from regrow_signals.limits import Limits
from regrow_supervisor.commit_plan import Extras, next_versions, plan_commit, registrations
from regrow_supervisor.events import Event
from regrow_supervisor.leader import Lease
from regrow_supervisor.leader_view import UNUSABLE, AgentView, LeaderView
from regrow_supervisor.pooling import nodes_without_slots, pool_order
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.turn import Turn, take_turn
from regrow_workers import log
from regrow_workers.stored_child import InitialState

__all__ = ["Committer"]

_LOG = logging.getLogger(__name__)


class Committer:
    """Each ``commit`` is one script, fenced by the lease's token; ``counts`` counts commits and starts."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        lease: Lease,
        *,
        limits: Limits,
        initial: InitialState,
        counts: Counter[str],
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._limits = limits
        self._lease = lease
        self._initial = initial
        self._counts = counts

    def commit(
        self,
        view: LeaderView,
        event: Event | None,
        extras: Extras,
        now_ms: int,
        *,
        adopted: Mapping[str, SupervisorState] | None = None,
    ) -> bool:
        """Decide ``event`` and write all that follows; False: nothing follows. After an exception ``view`` is doubtful.

        Agents and nodes whose keys cannot be written are set aside, and it is decided again without them.
        """
        while True:
            turn = take_turn(view, event, now_ms, adopted=adopted)
            extras.register = registrations(view, turn, self._initial, extras.definitions)
            extras.pool = [pool_order(node) for node in nodes_without_slots(view, turn)]
            if event is not None and not _worth_a_step(turn, extras):
                return False
            plan = plan_commit(view, turn, extras, self._lease.token, self._initial)
            try:
                self._connection.call(leadership.commit_decision(self._keys, self._limits, plan))
            except CorruptKey as error:
                if not self._set_aside(view, plan, str(error)):
                    raise
                log.event(_LOG, "corrupt_key", level=logging.ERROR, reason=str(error))
                continue
            self._believe(view, turn, extras, plan)
            return True

    def _believe(self, view: LeaderView, turn: Turn, extras: Extras, plan: DecisionCommit) -> None:
        self._counts["commits"] += 1
        self._counts["starts"] += len(turn.starts) + len(turn.pooled)
        for crash in turn.crashes:
            reason = f"{type(crash.cause).__name__}: {crash.cause}"
            log.event(_LOG, "supervisor_crashed", level=logging.ERROR, supervisor=crash.path, reason=reason)
        for new in extras.register:
            known = view.agents.setdefault(new.agent, AgentView(new.supervisor, schema=new.schema))
            known.path = new.supervisor
        for placed in turn.starts:
            start = placed.start
            view.settle(start.child, placed.node, start.incarnation, start.path)
        for start in turn.pooled:
            view.begin_pooled(start.child, start.incarnation, start.path)
        view.with_slots.update(order.node for order in extras.pool)
        for agent in (*plan.deletions, *plan.ended):
            view.leave(agent)
            if agent in view.agents and view.agents[agent].schedules != "":
                # Redis may have kept it, for what waits there: its declared timers are taken away all the same.
                view.unscheduled.add(agent)
            view.agents.pop(agent, None)
        view.take_over(next_versions(view, turn, plan.supervisors), turn.removed)
        view.trees.update(extras.trees)

    def _set_aside(self, view: LeaderView, plan: DecisionCommit, error: str) -> bool:
        """Mark what of this plan cannot be written; whether anything was found that was not marked before."""
        keys = self._keys
        agents = sorted(_agents_written(plan))
        told = {order.node for order in plan.orders} | {start.node for start in plan.starts}
        nodes = sorted(told & view.nodes.keys())
        names = [*(keys.agent(agent) for agent in agents), *(keys.control(node) for node in nodes)]
        kinds = self._connection.pipeline([Command(("TYPE", name), str) for name in names])
        bad_agents = [
            agent for agent, kind in zip(agents, kinds, strict=False) if kind not in ("hash", "none")
        ]
        bad_nodes = [
            node
            for node, kind in zip(nodes, kinds[len(agents) :], strict=True)
            if kind not in ("stream", "none")
        ]
        if not bad_agents and not bad_nodes:
            # The right type with an unreadable field: the longest key that the refusal names.
            named = [agent for agent in agents if keys.agent(agent) in error]
            bad_agents = sorted(named, key=len)[-1:]
        bad_agents = [agent for agent in bad_agents if agent not in view.corrupt]
        bad_nodes = [node for node in bad_nodes if view.nodes[node].status != UNUSABLE]
        view.corrupt.update(bad_agents)
        for node in bad_nodes:
            view.nodes[node] = replace(view.nodes[node], status=UNUSABLE)
        return bool(bad_agents or bad_nodes)


def _agents_written(plan: DecisionCommit) -> set[str]:
    """The agents whose records this plan writes."""
    return {
        *plan.restarts,
        *(new.agent for new in plan.register),
        *(start.agent for start in plan.starts),
        *(start.agent for start in plan.pooled),
        *(fence.agent for fence in plan.fences),
        *(update.agent for update in plan.agent_updates),
        *(report.agent for report in plan.lost),
        *plan.deletions,
        *plan.ended,
        *(bond.parent for bond in plan.bonds),
    }


def _worth_a_step(turn: Turn, extras: Extras) -> bool:
    """Whether anything is to be written; a Tick or NodeAvailable often changes nothing."""
    decided = turn.states or turn.removed or turn.starts or turn.stops or turn.replies or turn.reports
    pooled = turn.pooled or turn.fences or extras.pool
    given = (
        pooled or extras.exits_entry or extras.lost or extras.lost_nodes or extras.orders or extras.replies
    )
    return bool(decided or given or extras.events or extras.register or extras.trees)
