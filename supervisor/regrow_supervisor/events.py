"""What goes into a decision: facts from nodes (Started, Exited, ...), calls of people and programs, and time.

``path`` names the supervisor, "helpdesk/billing"; ``child`` the child within it. Facts name the incarnation; one that
is not the child's current one is ignored. Calls carry a ``request``: the reply in the decision repeats it.
``StartTree`` and ``StopTree`` are what a supervisor's parent does, for the root, whose parent is outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Batch",
    "CountChildren",
    "Declined",
    "DeleteChild",
    "Event",
    "Exited",
    "ForgetIdle",
    "GetChildSpec",
    "Hold",
    "KillSupervisor",
    "NodeAvailable",
    "RestartChild",
    "Revive",
    "SpawnChild",
    "AdoptChild",
    "StartChild",
    "StartFailed",
    "StartTree",
    "Started",
    "StopIdle",
    "StopSupervisor",
    "StopTree",
    "TerminateChild",
    "Tick",
    "Unhold",
    "Unplaced",
    "WakeIdle",
    "WhichChildren",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTree:
    """Start the root at ``path``. ``definition`` is its stored form (``Supervisor.definition()``); None: as before.

    A root that runs already answers ``already_started``; a held one stays down until ``Unhold``.
    ``incarnations`` are the last used numbers of agents that were registered before (by child id, the whole tree).
    """

    path: str
    definition: Mapping[str, Any] | None = None
    incarnations: Mapping[str, int] = field(default_factory=dict[str, int])
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTree:
    """The outside ends: the root stops its children, last first, and ends with ``reason``; no pause follows."""

    path: str
    reason: str = "shutdown"
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The ordered life is ready. ``info`` reaches the caller of start_child and restart_child."""

    path: str
    child: str
    incarnation: int
    info: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    path: str
    child: str
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """The start function said ``ignore``: no process, and no failure."""

    path: str
    child: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """No node can run it: the child is ``waiting``, uncharged, and its supervisor goes on."""

    path: str
    child: str
    incarnation: int
    reason: str = "no_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAvailable:
    """A node joined or has room again: every supervisor asks its waiting children again, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A life ended. ``charged=False``: not the child's fault; the strategy applies, the intensity does not count."""

    path: str
    child: str
    incarnation: int
    reason: str
    charged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChild:
    """``child`` is a child's stored form (see definition.py); its ``incarnation`` is the last number used before."""

    path: str
    child: Mapping[str, Any]
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnChild:
    """An agent (``owner``) spawned ``child`` (a stored form) under its family's supervisor ``path`` (families.py).

    ``refusal``: why it is not to be started after all.
    """

    path: str
    owner: str
    child: Mapping[str, Any]
    request: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptChild:
    """An agent (``owner``, under ``above``) wants to be the parent of ``child``, which is under ``path``.

    ``former``: the supervisor of the parent that the child has, if that one is on record. ``refusal`` as above.
    """

    path: str
    child: str
    owner: str
    above: str
    tag: str
    on_parent_death: str
    former: str = ""
    request: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateChild:
    """``handle``: the life meant, where the caller knows it (OTP's dynamic supervisors take nothing else).

    ``alive`` says of a handle that is no child of this supervisor whether some process has it. ``reason`` is what
    those who watch the child are told in place of a plain ``shutdown``.
    """

    path: str
    child: str
    request: str = ""
    handle: int | None = None
    alive: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartChild:
    path: str
    child: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteChild:
    path: str
    child: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetChildSpec:
    """``handle`` and ``alive`` as in TerminateChild."""

    path: str
    child: str
    request: str = ""
    handle: int | None = None
    alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichChildren:
    path: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChildren:
    path: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Stop the child, or with ``child=""`` the whole root, and let nothing start it until ``Unhold``."""

    path: str
    child: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhold:
    path: str
    child: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revive:
    """Start a parked child again with a fresh budget; with ``child=""``: end the root's pause now."""

    path: str
    child: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIdle:
    """This life had nothing to do for as long as its spec says: stop it, and keep it on record as ``idle``."""

    path: str
    child: str
    incarnation: int
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetIdle:
    """Take an idle, stopped child off the record, in the step that deletes its agent."""

    path: str
    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeIdle:
    """Something was sent to an idle child before it was deleted: it starts again."""

    path: str
    child: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSupervisor:
    """An orderly stop asked by a caller; the supervisor's parent sees an end with ``reason``."""

    path: str
    reason: str = "normal"
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSupervisor:
    """End the supervisor at once, its children with it; its parent applies its strategy to it.

    ``incarnations``: last used numbers of its children, where its record cannot be read (then ``states`` has no
    entry for ``path``, and the parent's record says what is restarted).
    """

    path: str
    reason: str = "killed"
    charged: bool = True
    incarnations: Mapping[str, int] = field(default_factory=dict[str, int])
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed: whatever is due at ``now_ms`` happens (pauses, backoff, a nested supervisor's shutdown time)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Several events that are all there before anyone looks; the order is kept."""

    events: tuple[Event, ...]


Call = (
    StartChild
    | TerminateChild
    | RestartChild
    | DeleteChild
    | GetChildSpec
    | WhichChildren
    | CountChildren
    | Hold
    | Unhold
    | Revive
    | StopIdle
    | WakeIdle
)
Fact = Started | StartFailed | Declined | Unplaced | Exited
Event = (
    Fact
    | Call
    | StartTree
    | StopTree
    | StopSupervisor
    | KillSupervisor
    | ForgetIdle
    | SpawnChild
    | AdoptChild
    | NodeAvailable
    | Tick
    | Batch
)
