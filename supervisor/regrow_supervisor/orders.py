"""What comes out of a decision: orders for nodes, replies for callers, reports for people. In order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regrow_supervisor.states import SupervisorState

__all__ = [
    "Decision",
    "Kill",
    "LifeEnded",
    "Adopted",
    "NotSpawned",
    "Order",
    "Orphaned",
    "Output",
    "Reply",
    "Report",
    "Start",
    "Stop",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Begin life ``incarnation`` of the child; answered by Started, StartFailed, Declined, Unplaced or Exited.

    ``start`` is the opaque ``start`` of the child's definition: what the shell and the node need.
    """

    path: str
    child: str
    incarnation: int
    start: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask, wait ``shutdown_ms`` (-1: without limit; 0: kill at once), then kill; answered by Exited.

    After a kill by us the reason of the Exited is ``killed``.
    """

    path: str
    child: str
    incarnation: int
    shutdown_ms: int
    pooled: bool = False
    """Nobody is asked and nothing is awaited: the life is over with the decision."""

    @property
    def pooled_reason(self) -> str:
        """What a pooled life that this ends has ended with."""
        return "shutdown" if self.shutdown_ms else "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End it now; nobody waits for the answer: its supervisor was killed. ``shutdown_ms`` as in Stop, mostly 0."""

    path: str
    child: str
    incarnation: int
    shutdown_ms: int = 0
    pooled: bool = False

    @property
    def pooled_reason(self) -> str:
        """As of Stop."""
        return "shutdown" if self.shutdown_ms else "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a call. ``error`` is OTP's word (not_found, already_started, already_present, running,
    restarting, max_children, start_failed, simple_one_for_one, noproc, call_exit, invalid_...); ``detail`` its rest.

    ``value`` of start_child, restart_child: ``{"child", "incarnation", "info"}``; incarnation None: it declined.
    which_children: ``[[id, "running"|"stopped"|"restarting"|.., incarnation, type], ..]``, last started first.
    count_children: ``[specs, active, supervisors, workers]``. get_childspec: the spec, defaults filled in.
    """

    request: str
    value: Any = None
    error: str = ""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something that a person may want to know, for ``{ns}:events``.

    OTP's contexts: ``child_terminated``, ``start_error``, ``shutdown`` (gave up, or refused a restart),
    ``shutdown_error``. A supervisor's own life, with ``child=""`` and its own incarnation: ``started``, ``exited``,
    ``start_failed``, ``declined``, ``paused``. Ours: ``progress`` (a child runs), ``waiting``, ``parked``, ``backoff``,
    ``held``, ``unheld``, ``revived``.
    """

    path: str
    context: str
    child: str = ""
    reason: str = ""
    incarnation: int = 0
    count: int = 0
    """Several children in one report (simple_one_for_one's shutdown_error); 0: one child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEnded:
    """A life of an agent is over, for whoever watches it. ``again``: its supervisor begins another one by itself."""

    path: str
    child: str
    incarnation: int
    reason: str
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphaned:
    """A spawned child has no parent any more: that one ended for good."""

    path: str
    child: str
    incarnation: int
    parent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A spawned child has another parent. ``before``: the one it had, which has ended, and its tag there; or empty."""

    path: str
    child: str
    request: str
    parent: str
    tag: str
    before: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSpawned:
    """A child that an agent asked for, to spawn or to adopt it, it does not have: its tag is free again."""

    child: str
    parent: str
    tag: str
    reason: str
    asked: Literal["started", "adopted"] = "started"


Order = Start | Stop | Kill
Output = Order | Reply | Report | LifeEnded | Orphaned | Adopted | NotSpawned


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``states``: the changed records only; ``removed``: paths whose record is to be deleted; ``output``: in order."""

    states: Mapping[str, SupervisorState]
    removed: tuple[str, ...] = ()
    output: tuple[Output, ...] = ()

    @property
    def orders(self) -> tuple[Order, ...]:
        return tuple(item for item in self.output if isinstance(item, (Start, Stop, Kill)))

    @property
    def replies(self) -> tuple[Reply, ...]:
        return tuple(item for item in self.output if isinstance(item, Reply))

    @property
    def reports(self) -> tuple[Report, ...]:
        return tuple(item for item in self.output if isinstance(item, Report))
