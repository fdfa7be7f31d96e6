"""How the end of a life is said: to the decision, to Redis, to its node. Pure."""

from __future__ import annotations

from typing import Final

from regrow_signals.leadership import NodeOrder
from regrow_signals.nodes import Charge, ExitReport
from regrow_supervisor.entries import AgentExited
from regrow_supervisor.events import Event, Exited, StartFailed

__all__ = ["end_of_life", "kill_order", "lost_report"]

_FAILED_STARTS: Final = ("start_failed", "start_timeout")


def end_of_life(path: str, read: AgentExited) -> Event:
    """What a node's report means to the supervisor at ``path``."""
    if read.reason.startswith(_FAILED_STARTS):
        return StartFailed(path=path, child=read.agent, incarnation=read.incarnation, reason=read.reason)
    return Exited(
        path=path,
        child=read.agent,
        incarnation=read.incarnation,
        reason=read.reason,
        charged=read.charged,
    )


def lost_report(node: str, agent: str, incarnation: int, reason: str, charge: Charge) -> ExitReport:
    """The end that nobody reports, written by the leader itself: not charged to the intensity."""
    return ExitReport(
        node=node,
        agent=agent,
        incarnation=incarnation,
        reason=reason,
        charge=charge,
        charged=False,
        error="",
        in_hand="",
    )


def kill_order(node: str, agent: str, incarnation: int, reason: str) -> NodeOrder:
    """SIGKILL to this life, if it is still there."""
    fields = {"order": "kill", "agent": agent, "incarnation": str(incarnation), "reason": reason}
    return NodeOrder(node=node, fields=fields)
