"""What a supervisor needs to know of one child: the value that ``Support.child("support")`` returns.

A spec is checked whole when it is made, so a tree that could not work is never stored; each message names the
child, the field and what would fit. OTP's rules where OTP has the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args, runtime_checkable

from regrow_signals.durations import Duration, to_ms, to_seconds
from regrow_signals.errors import BadDefinition, BadInput
from regrow_signals.ids import check_id
from regrow_workers.agent_limits import LIMITS, OF_A_PROCESS, Size, checked_limits
from regrow_workers.purity import GuardMode
from regrow_workers.subscription_directives import Subscribe

if TYPE_CHECKING:
    from regrow_workers.agent import Agent

__all__ = [
    "Backoff",
    "ChildSpec",
    "Isolation",
    "OnExceeded",
    "Restart",
    "Resume",
    "Shutdown",
    "Size",
    "SupervisorLike",
]

Restart = Literal["permanent", "transient", "temporary"]
Isolation = Literal["process", "pool"]
Resume = Literal["state", "fresh"]
OnExceeded = Literal["escalate", "park"]
Shutdown = Duration | Literal["brutal_kill", "infinity"]

_LONGEST_BACKOFF = 60.0


@runtime_checkable
class SupervisorLike(Protocol):
    """A nested supervisor, as a spec sees it: its class lives one floor up."""

    @property
    def name(self) -> str: ...

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]: ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pause before a restart: ``first`` seconds, times ``factor`` each time, at most ``longest``."""

    first: float = 1.0
    factor: float = 2.0
    longest: float = _LONGEST_BACKOFF

    def __post_init__(self) -> None:
        if not (_is_number(self.first) and 0 < self.first < math.inf):
            raise BadDefinition(f"backoff: first={self.first!r} must be seconds above 0")
        if not (_is_number(self.factor) and 1 <= self.factor < math.inf):
            raise BadDefinition(f"backoff: factor={self.factor!r} must be 1 or more")
        if not (_is_number(self.longest) and self.first <= self.longest < math.inf):
            raise BadDefinition(f"backoff: longest={self.longest!r} must be at least first={self.first!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One child of a supervisor: an agent or a nested supervisor; exactly one of the two is set.

    ``shutdown`` is how long the child may take to end when asked: seconds, ``"brutal_kill"``, or ``"infinity"`` (a
    supervisor's default); None: the setting's. ``guard`` to ``max_growth`` are the limits of ``LimitWords``: one that
    the child does not say is its type's, one that neither says stays None and is the setting's. A pooled child may not
    say those of a process (``OF_A_PROCESS``), and its type's do not count for it: its slot is many agents'. None in
    ``max_restarts``, ``max_seconds`` and ``on_exceeded`` means: the supervisor's own.
    ``subscribe`` lists what the agent gets of the published signals, patterns or ``Subscribe(...)``, while it is on
    its supervisor's record.
    ``idle_delete``, for children of dynamic supervisors: one that had nothing to do for so long is stopped and deleted.
    Durations are held in seconds, sizes in bytes.

    ``under`` in place of ``id`` makes it the spec of an agent that a ``send`` creates: the supervisor's path, the id
    is the one that is sent to (``named``).
    """

    id: str
    agent: type[Agent[Any]] | None = None
    supervisor: SupervisorLike | None = None
    restart: Restart = "permanent"
    shutdown: Shutdown | None = None
    significant: bool = False
    isolation: Isolation = "process"
    resume: Resume = "state"
    init: Mapping[str, Any] = field(default_factory=dict[str, Any])
    guard: GuardMode | None = None
    deadline: Duration | None = None
    max_memory: Size | None = None
    max_processes: int | None = None
    max_state: Size | None = None
    max_mailbox: int | None = None
    max_attempts: int | None = None
    max_kills: int | None = None
    max_signals: int | None = None
    max_growth: Size | None = None
    backoff: Backoff | Duration | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    subscribe: Sequence[str | Subscribe] = ()
    max_restarts: int | None = None
    max_seconds: Duration | None = None
    on_exceeded: OnExceeded | None = None
    idle_delete: Duration | None = None
    under: str = ""

    def __post_init__(self) -> None:
        self._check_name()
        self._check_kind()
        self._word("restart", self.restart, get_args(Restart))
        self._check_significant()
        self._set("shutdown", self._checked_shutdown())
        self._word("isolation", self.isolation, get_args(Isolation))
        self._word("resume", self.resume, get_args(Resume))
        if self.on_exceeded is not None:
            self._word("on_exceeded", self.on_exceeded, get_args(OnExceeded))
        self._set_limits()
        if self.max_restarts is not None:
            self._count("max_restarts", self.max_restarts)
        if self.max_seconds is not None:
            self._set("max_seconds", self._seconds("max_seconds", self.max_seconds))
        if self.idle_delete is not None:
            self._set("idle_delete", self._seconds("idle_delete", self.idle_delete))
            if self.agent is None:
                raise self._bad("idle_delete", "a supervisor is never idle")
        self._set("backoff", self._checked_backoff())
        self._set("labels", MappingProxyType(self._checked_labels()))
        self._set("subscribe", self._checked_subscribe())
        self._set("init", MappingProxyType(self._checked_init()))

    @property
    def shutdown_ms(self) -> int | None:
        """As orders carry it: milliseconds, 0 for ``brutal_kill``, -1 for ``infinity``; None: the setting's."""
        if self.shutdown == "brutal_kill":
            return 0
        if self.shutdown == "infinity":
            return -1
        return None if self.shutdown is None else to_ms(cast("float", self.shutdown))

    @property
    def deadline_ms(self) -> int | None:
        """As orders carry it; None: the setting's."""
        return None if self.deadline is None else to_ms(self.deadline)

    @property
    def subscribed(self) -> Sequence[Subscribe]:
        """``subscribe`` with each pattern as what it stands for."""
        return cast("Sequence[Subscribe]", self.subscribe)

    def with_(self, **changes: Any) -> ChildSpec:
        """The same spec with some fields replaced, checked again."""
        return replace(self, **changes)

    def named(self, agent: str) -> ChildSpec:
        """This spec, given with ``under``, as the child of that supervisor which ``agent`` will be."""
        return replace(self, id=agent, under="")

    def _check_name(self) -> None:
        if self.under:
            if self.id:
                raise self._bad(
                    "under", "the agent's id is the one that is sent to; give either id or under="
                )
            if self.agent is None:
                raise self._bad("under", "a send creates an agent, not a supervisor; use start_child")
        what, name = ("supervisor", self.under) if self.under else ("child id", self.id)
        try:
            check_id(name)
        except BadInput as error:
            raise BadDefinition(f"{what}: {error}") from None

    def _check_kind(self) -> None:
        if (self.agent is None) == (self.supervisor is None):
            raise self._bad("agent", "give exactly one of agent= and supervisor=; use YourAgent.child(...)")
        if self.agent is not None and not hasattr(self.agent, "definition"):
            shown = getattr(self.agent, "__name__", repr(self.agent))
            raise self._bad(
                "agent", f'{shown} is no agent type: it has no name (class X(Agent[S], name="x"))'
            )
        if self.supervisor is not None and not isinstance(cast("object", self.supervisor), SupervisorLike):
            raise self._bad("supervisor", f"{self.supervisor!r} is not a Supervisor")

    def _check_significant(self) -> None:
        if not isinstance(cast("object", self.significant), bool):
            raise self._bad("significant", f"{self.significant!r} is not True or False")
        if self.significant and self.restart == "permanent":
            raise self._bad(
                "significant", "a permanent child cannot be significant; use transient or temporary"
            )

    def _set_limits(self) -> None:
        """The child's own, before its type's."""
        own = checked_limits(self._shown, {name: getattr(self, name) for name in LIMITS})
        of_type: Mapping[str, Any] = {} if self.agent is None else self.agent.definition.limits
        pooled = self.isolation == "pool"
        for name, value in {**of_type, **own}.items():
            if pooled and name in OF_A_PROCESS:
                if own.get(name) not in (None, of_type.get(name)):
                    raise self._bad(
                        name,
                        "a pooled agent has no process of its own: its slot's is REGROW_MAX_MEMORY and "
                        'REGROW_MAX_PROCESSES; leave it out, or take isolation="process"',
                    )
                self._set(name, None)
            else:
                self._set(name, value)

    def _checked_shutdown(self) -> float | str | None:
        value = self.shutdown
        if value is None:
            return "infinity" if self.supervisor is not None else None
        if isinstance(value, str):
            if value not in ("brutal_kill", "infinity"):
                raise self._bad("shutdown", f'{value!r} is not seconds, "brutal_kill" or "infinity"')
            return value
        # OTP allows 0; there the child is asked and killed in the same breath, so it is held as a kill.
        seconds = self._seconds("shutdown", value, zero=True)
        return seconds if seconds > 0 else "brutal_kill"

    def _checked_backoff(self) -> Backoff | None:
        if self.backoff is None or isinstance(self.backoff, Backoff):
            return self.backoff
        first = self._seconds("backoff", self.backoff)
        return Backoff(first, longest=max(first, _LONGEST_BACKOFF))

    def _checked_labels(self) -> dict[str, str]:
        labels = cast("object", self.labels)
        if not isinstance(labels, Mapping):
            raise self._bad("labels", f'{labels!r} is not a mapping such as {{"gpu": "a100"}}')
        for key, value in cast("Mapping[object, object]", labels).items():
            if not (isinstance(key, str) and isinstance(value, str) and key):
                raise self._bad("labels", f"{key!r}: {value!r} must be text to text")
        return dict(cast("Mapping[str, str]", labels))

    def _checked_subscribe(self) -> tuple[Subscribe, ...]:
        given = cast("object", self.subscribe)
        if isinstance(given, (str, Subscribe)) or not isinstance(given, Sequence):
            raise self._bad("subscribe", f'{given!r:.80} is not a list of patterns such as ["ticket.*"]')
        if given and self.agent is None:
            raise self._bad("subscribe", "a supervisor takes no signals")
        found: dict[str, Subscribe] = {}
        for one in cast("Sequence[object]", given):
            if not isinstance(one, (str, Subscribe)):
                raise self._bad("subscribe", f"{one!r:.80} is neither a pattern nor Subscribe(...)")
            try:
                wanted = Subscribe(one) if isinstance(one, str) else one
            except BadInput as error:
                raise self._bad("subscribe", str(error)) from None
            if wanted.pattern in found:
                raise self._bad("subscribe", f"{wanted.pattern} stands twice")
            found[wanted.pattern] = wanted
        return tuple(found.values())

    def _checked_init(self) -> dict[str, Any]:
        init = cast("object", self.init)
        if not isinstance(init, Mapping):
            raise self._bad("init", f"{init!r} is not a mapping of the state's fields")
        fields = dict(cast("Mapping[str, Any]", init))
        if self.agent is None:
            if fields:
                raise self._bad("init", "a supervisor has no state to begin with")
            return fields
        try:
            state = self.agent.initial_state(fields)
        except BadInput as error:
            raise self._bad("init", str(error)) from None
        # Held as plain JSON values: it is stored in Redis with the child.
        plain: dict[str, Any] = state.model_dump(mode="json", exclude_unset=True)
        return plain

    def _word(self, name: str, value: object, words: tuple[str, ...]) -> None:
        if value not in words:
            raise self._bad(name, f"{value!r} is none of {', '.join(words)}")

    def _seconds(self, name: str, value: Duration, *, zero: bool = False) -> float:
        try:
            return to_seconds(value, name, zero=zero)
        except BadInput as error:
            raise BadDefinition(f"{self._shown}: {error}") from None

    def _count(self, name: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._bad(name, f"{value!r} must be a whole number of 0 or more")

    def _bad(self, name: str, why: str) -> BadDefinition:
        return BadDefinition(f"{self._shown}: {name}: {why}")

    @property
    def _shown(self) -> str:
        return f"child under {self.under!r}" if self.under and not self.id else f"child {self.id!r}"

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
