"""A supervisor's record: everything that it knows, so that any watchdog can go on from it.

Values are treated as unchangeable: ``decide`` works on copies. All parts are plain JSON values; see codec.py for the
hash fields. A supervisor that has ended keeps its record (status ``exited``): incarnations and holds outlive it.

    supervisor   starting > running > stopping > exited;  the root may be ``paused`` until ``due_ms``
    child        starting > running > stopping > stopped;  restarting (a retry is due or queued), waiting (no node),
                 parked (used up its own budget, or its state cannot be read); ``held`` beside any of them that does
                 not run
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from regrow_supervisor.definition import WORKER_SHUTDOWN_MS

__all__ = [
    "ALIVE",
    "DYNAMIC",
    "ChildState",
    "ChildStatus",
    "Json",
    "SupervisorState",
    "SupervisorStatus",
    "is_changed",
    "touched_ids",
]

Json = Any

ChildStatus = Literal["starting", "running", "stopping", "stopped", "restarting", "waiting", "parked"]
SupervisorStatus = Literal["starting", "running", "stopping", "exited", "paused"]

#: Strategies whose children come at run time only.
DYNAMIC: frozenset[str] = frozenset({"dynamic", "simple_one_for_one"})

#: Statuses in which a process may exist.
ALIVE: frozenset[str] = frozenset({"starting", "running", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildState:
    """One child on record. ``spec`` is its stored form with defaults filled in (definition.py) and never changes.

    ``incarnation`` is the last number used: of the life that runs, else of the last one. ``place`` orders children.
    """

    id: str
    spec: Mapping[str, Json]
    place: int
    status: ChildStatus = "stopped"
    incarnation: int = 0
    held: bool = False
    reason: str = ""
    """Why the last life ended."""

    restarts: int = 0
    """Successful restarts by the supervisor, for people to see."""

    started_ms: int = 0
    stamps: tuple[int, ...] = ()
    """Counted restarts in whole seconds, for a child with a limit of its own."""

    failures: int = 0
    """Restarts since it last lived a while: how long the next backoff is."""

    due_ms: int = 0
    """When its backoff ends; 0: none."""

    counted: bool = False
    """The restart at ``due_ms`` was counted when the child crashed."""

    idle: bool = False
    """It had nothing to do for as long as its spec says: stopped, or being stopped, to be deleted."""

    @property
    def alive(self) -> bool:
        return self.status in ALIVE

    @property
    def restart(self) -> str:
        return str(self.spec["restart"])

    @property
    def significant(self) -> bool:
        return bool(self.spec["significant"])

    @property
    def is_supervisor(self) -> bool:
        """A nested supervisor of ours (not merely counted as one)."""
        return "supervisor" in self.spec

    @property
    def pooled(self) -> bool:
        """An agent without a process of its own: its lives begin and end with the decision itself."""
        return bool(self.spec["start"].get("isolation") == "pool")

    @property
    def shutdown_ms(self) -> int:
        """0 for brutal_kill (and 0), -1 for infinity."""
        value = self.spec["shutdown"]
        if value == "brutal_kill":
            return 0
        return -1 if value == "infinity" else int(value)

    @property
    def shutdown_left_out(self) -> bool:
        """An agent whose spec says nothing: OTP's default is on record, the setting of its node counts."""
        said = self.is_supervisor or "shutdown_ms" in self.spec["start"]
        return not said and self.spec["shutdown"] == WORKER_SHUTDOWN_MS

    def but(self, **changes: Any) -> ChildState:
        return replace(self, **changes)


@dataclass(slots=True, kw_only=True)
class SupervisorState:
    """One supervisor. ``definition`` is what it was started from, and is started from again after its end."""

    path: str
    parent: str = ""
    """Path of the parent supervisor; empty for the root."""

    definition: Mapping[str, Json]
    status: SupervisorStatus = "starting"
    incarnation: int = 0
    reason: str = ""
    """Why it ended, or pauses."""

    children: dict[str, ChildState] = field(default_factory=dict[str, ChildState])
    """By id, in order of ``place``."""

    next_place: int = 0
    stamps: tuple[int, ...] = ()
    """Counted restarts, in whole seconds (OTP's window)."""

    plan: tuple[Json, ...] = ()
    """What it is in the middle of: steps, the next one last."""

    waiting: Json = None
    """The one thing that it waits for: a child's start or stop, or all stops; None: nothing."""

    queue: dict[int, Json] = field(default_factory=dict[int, Json])
    """Its mailbox: sequence number -> message; handled in order, one at a time, when it waits for nothing."""

    dues: dict[str, int] = field(default_factory=dict[str, int])
    """Child id -> when its backoff ends (a copy of the children's ``due_ms``, quick to look at)."""

    spent: dict[str, int] = field(default_factory=dict[str, int])
    """Last incarnation of children of the definition that are forgotten, so that no number is used twice."""

    started_ms: int = 0
    """When it became ready."""

    starter: str = ""
    """Request id of whoever waits for it to be ready."""

    pauses: int = 0
    """The root's pauses in a row."""

    due_ms: int = 0
    """When the root's pause ends; 0: none."""

    held: bool = False
    """The root alone: its children's holds stand in its children."""

    version: int = 0
    """The shell's: base version for the commit. ``decide`` leaves it as it is."""

    touched: dict[str, None] = field(default_factory=dict[str, None], compare=False, repr=False)
    """Ids of children that were put on record, changed or forgotten since the last ``fork``. Not stored."""

    @property
    def alive(self) -> bool:
        return self.status in ALIVE

    @property
    def name(self) -> str:
        """Its id as a child; the root's path."""
        return self.path.removeprefix(f"{self.parent}/") if self.parent else self.path

    @property
    def strategy(self) -> str:
        return str(self.definition.get("strategy", "one_for_one"))

    @property
    def is_dynamic(self) -> bool:
        """Children have no place in an order, and are forgotten when they end."""
        return self.strategy in DYNAMIC

    def fork(self) -> SupervisorState:
        """A copy whose containers may be changed."""
        return replace(
            self,
            children=dict(self.children),
            queue=dict(self.queue),
            dues=dict(self.dues),
            spent=dict(self.spent),
            touched={},
        )


def touched_ids(before: SupervisorState, after: SupervisorState) -> Iterable[str]:
    """Children that differ at most, so that nobody needs to look at all; some may be gone, or be as they were.

    A supervisor that began anew has made its record anew, too.
    """
    if before.incarnation == after.incarnation:
        return after.touched
    return {**dict.fromkeys(before.children), **after.touched}


def is_changed(before: SupervisorState | None, after: SupervisorState) -> bool:
    """Whether the record is another one; as ``!=``, but without a look at children that nothing touched."""
    if before is None or _own_parts(before) != _own_parts(after):
        return True
    return any(before.children.get(id_) != after.children.get(id_) for id_ in touched_ids(before, after))


def _own_parts(s: SupervisorState) -> list[Json]:
    return [getattr(s, name) for name in _OWN_PARTS]


_OWN_PARTS = tuple(each.name for each in fields(SupervisorState) if each.name not in ("children", "touched"))
