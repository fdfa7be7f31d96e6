"""Directives about other agents' lives (``Spawn``, ``Adopt``, ``StopChild``, ``Monitor``, ``Demonitor``), laid out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from regrow_signals.commits import DirectiveAppend
from regrow_signals.errors import BadDefinition, BadId, BadInput, DirectiveRefused
from regrow_signals.families import (
    AdoptAppend,
    DemonitorAppend,
    MonitorAppend,
    SpawnAppend,
    StopChildAppend,
    children_path,
)
from regrow_signals.ids import check_id
from regrow_signals.limits import Limits
from regrow_signals.strict_json import dumps
from regrow_workers.child_spec import ChildSpec
from regrow_workers.delivery import Delivery
from regrow_workers.directives import Directive, check_reason
from regrow_workers.lifecycle import AgentDown
from regrow_workers.state import encode_state
from regrow_workers.stored_child import register_agent, stored_agent

if TYPE_CHECKING:
    from regrow_workers.agent import Agent
    from regrow_workers.state import State

__all__ = [
    "Adopt",
    "Demonitor",
    "LaidOut",
    "Monitor",
    "OnParentDeath",
    "Spawn",
    "StopChild",
    "lay_out_adopt",
    "lay_out_demonitor",
    "lay_out_monitor",
    "lay_out_spawn",
    "lay_out_stop_child",
]

OnParentDeath = Literal["stop", "continue", "orphan"]

LaidOut = tuple[DirectiveAppend, Mapping[str, str], int]
"""What goes into the commit, its line in the journal, and about how many bytes it has."""

_UNNAMED: Final = "unnamed"


class Spawn(Directive):
    """Start a child of this agent: registered in the same commit, before its emits, so they reach it.

    ``Spawn(Worker, tag="w-1", init={"n": 1})`` is a ``transient`` child with the id ``<parent>/w-1``;
    ``Spawn(Worker.child("my-id", restart="permanent", ...), tag="w-1")`` has any spec, its tag is its id if left out.
    One that lives already goes on; one that ended or is parked starts again from its last state.

    ``on_parent_death``, when the parent ends for good (a restart is no end): ``"stop"`` it cleanly, let it
    ``"continue"``, or make it an ``"orphan"``, which is told by ``agent.orphaned`` and has no parent any more.
    ``ephemeral``: once it has ended for good it is deleted, if nothing is left in its mailbox, outbox and dead letters.
    """

    __slots__ = ("ephemeral", "id", "on_parent_death", "spec", "tag")

    def __init__(
        self,
        what: ChildSpec | type[Agent[Any]],
        *,
        tag: str | None = None,
        init: Mapping[str, Any] | State | None = None,
        on_parent_death: OnParentDeath = "stop",
        ephemeral: bool = False,
    ) -> None:
        self.spec: Final = _spec(what, init)
        self.id: Final = "" if self.spec.id == _UNNAMED else self.spec.id
        if tag is None and not self.id:
            raise BadInput("Spawn: give tag=, by which the parent knows the child")
        self.tag: Final = check_id(self.id if tag is None else tag, "Spawn: tag")
        _check_policy("Spawn", on_parent_death)
        self.on_parent_death: Final[OnParentDeath] = on_parent_death
        self.ephemeral: Final = bool(ephemeral)

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, Spawn) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.tag, self.id))

    def __repr__(self) -> str:
        kind = "" if self.spec.agent is None else self.spec.agent.__name__
        shown = f"{kind}.child({self.id!r})" if self.id else kind
        return f"Spawn({shown}, tag={self.tag!r})"

    def _all(self) -> tuple[object, ...]:
        return (self.spec, self.id, self.tag, self.on_parent_death, self.ephemeral)


def _spec(what: object, init: Mapping[str, Any] | State | None) -> ChildSpec:
    if isinstance(what, type) and hasattr(what, "definition"):
        return cast("type[Agent[Any]]", what).child(_UNNAMED, restart="transient", init=init)
    if not isinstance(what, ChildSpec):
        raise BadInput(f"Spawn: {what!r:.80} is no agent type and no YourAgent.child(...)")
    if init is not None:
        raise BadInput("Spawn: give init to YourAgent.child(...) with the rest of the spec, not beside it")
    if what.agent is None or what.under:
        raise BadInput(f"Spawn: {what.id or what.under!r} is no agent with an id: YourAgent.child('its id')")
    if what.significant:
        raise BadDefinition(
            f"Spawn: {what.id!r}: significant: a dynamic supervisor has no significant children"
        )
    return what


@dataclass(frozen=True, slots=True)
class Adopt(Directive):
    """Become the parent of a spawned agent that has lost its own: ``Adopt("boss/w-1", tag="w-1")``.

    It is told by ``agent.adopted``; this agent by ``agent.child.started``, and of its further lives as of any child.
    One that has a parent, or does not run, is refused: ``agent.child.exit`` with ``not_adopted:<why>``.
    ``on_parent_death`` as in ``Spawn``.
    """

    child: str
    tag: str
    on_parent_death: OnParentDeath = "orphan"

    def __post_init__(self) -> None:
        check_id(self.child, "Adopt: child")
        check_id(self.tag, "Adopt: tag")
        _check_policy("Adopt", self.on_parent_death)


def _check_policy(who: str, given: object) -> None:
    if given not in get_args(OnParentDeath):
        raise BadInput(
            f"{who}: on_parent_death={given!r:.80} is none of {', '.join(get_args(OnParentDeath))}"
        )


@dataclass(frozen=True, slots=True)
class StopChild(Directive):
    """Stop the child with this tag cleanly, for good. A tag that no child has means nothing.

    The parent is told by ``agent.child.exit`` with the reason ``shutdown:<reason>``.
    """

    tag: str
    reason: str = "shutdown"

    def __post_init__(self) -> None:
        check_id(self.tag, "StopChild: tag")
        check_reason("StopChild", self.reason)


@dataclass(frozen=True, slots=True)
class Monitor(Directive):
    """Be told by ``agent.down``, once, when the current life of ``agent`` ends, whatever its supervisor does then.

    At once, with the reason ``noproc``, where it is not registered or has ended. Asking twice is asking once.
    """

    agent: str

    def __post_init__(self) -> None:
        check_id(self.agent, "Monitor: agent")


@dataclass(frozen=True, slots=True)
class Demonitor(Directive):
    """Take a ``Monitor`` back. An ``agent.down`` that is in the mailbox already stays there."""

    agent: str

    def __post_init__(self) -> None:
        check_id(self.agent, "Demonitor: agent")


def lay_out_spawn(spawn: Spawn, append_id: str, delivery: Delivery, limits: Limits) -> LaidOut:
    """``DirectiveRefused`` where the child's id or its supervisor's path would be none."""
    parent, above = delivery.addressee.agent, delivery.addressee.supervisor
    try:
        child = check_id(spawn.id or f"{parent}/{spawn.tag}", "Spawn: id")
        path = check_id(children_path(above, parent), "Spawn: path of the children's supervisor")
    except BadId as error:
        raise DirectiveRefused(delivery.entry, "bad_child", str(error)) from None
    if child == parent:
        raise DirectiveRefused(delivery.entry, "bad_child", f"{child} cannot be its own child")
    stored = {
        **stored_agent(replace(spawn.spec, id=child)),
        "parent": parent, "tag": spawn.tag, "on_parent_death": spawn.on_parent_death, "ephemeral": spawn.ephemeral,
    }  # fmt: skip

    def initial(type_name: str, init: Mapping[str, Any]) -> tuple[str, int]:
        del type_name
        kind = cast("type[Agent[Any]]", spawn.spec.agent)
        state = kind.initial_state(init)
        return encode_state(state, max_bytes=limits.max_state_bytes), kind.definition.schema

    birth = hashlib.sha256(append_id.encode()).hexdigest()[:32]
    record = replace(register_agent(child, path, stored, initial), birth=birth)
    text = dumps(stored, max_bytes=limits.max_state_bytes, what=f"the spec of {child}")
    append = SpawnAppend(delivery.entry, record, text, append_id)
    return append, {"spawn": child, "tag": spawn.tag}, 2 * len(text) + len(record.state)


def lay_out_adopt(adopt: Adopt, append_id: str, delivery: Delivery, limits: Limits) -> LaidOut:
    """``DirectiveRefused`` for an agent that would be its own child."""
    del limits
    if adopt.child == delivery.addressee.agent:
        raise DirectiveRefused(delivery.entry, "bad_child", f"{adopt.child} cannot be its own child")
    append = AdoptAppend(delivery.entry, adopt.child, adopt.tag, adopt.on_parent_death, append_id)
    return append, {"adopt": adopt.child, "tag": adopt.tag}, 0


def lay_out_stop_child(stop: StopChild, append_id: str, delivery: Delivery, limits: Limits) -> LaidOut:
    del delivery, limits
    return StopChildAppend(stop.tag, stop.reason, append_id), {"stop_child": stop.tag}, 0


def lay_out_monitor(monitor: Monitor, append_id: str, delivery: Delivery, limits: Limits) -> LaidOut:
    del limits
    kind = AgentDown.signal_type
    nothing = {"id": monitor.agent, "reason": "noproc"}
    append = MonitorAppend(delivery.entry, monitor.agent, f"{append_id}:down", kind, nothing)
    return append, {"monitor": monitor.agent}, 0


def lay_out_demonitor(demonitor: Demonitor, append_id: str, delivery: Delivery, limits: Limits) -> LaidOut:
    del append_id, delivery, limits
    return DemonitorAppend(demonitor.agent), {"demonitor": demonitor.agent}, 0
