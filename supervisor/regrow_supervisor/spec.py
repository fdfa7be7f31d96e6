"""What users write: a tree of supervisors and agents, checked whole where it is defined.

    tree = Supervisor("helpdesk", [Support.child("support"), Billing.child("billing")], strategy="one_for_one")

Defaults are Elixir's: 3 restarts in 5 seconds. Two things go beyond OTP, both can be turned off: children of a
``dynamic`` supervisor and pooled agents are counted one by one and parked (``on_exceeded="escalate"``: as OTP
counts), and the root pauses instead of ending (``pause=None``: as OTP ends).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from regrow_signals.durations import to_ms
from regrow_signals.errors import BadDefinition, BadInput
from regrow_signals.ids import check_id
from regrow_workers.child_spec import ChildSpec, OnExceeded, Restart, Shutdown
from regrow_workers.schedules import stored_schedules
from regrow_workers.stored_child import stored_agent

if TYPE_CHECKING:
    from regrow_workers.agent import Agent

__all__ = ["AutoShutdown", "Pause", "Strategy", "Supervisor", "child_definition"]

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]


@dataclass(frozen=True, slots=True)
class Pause:
    """How long the root pauses after it gave up: ``first`` seconds, doubled each time, at most ``longest``."""

    first: float = 1.0
    longest: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest < math.inf:
            raise BadDefinition(
                f"pause: first={self.first!r}, longest={self.longest!r}: need 0 < first <= longest"
            )


class Supervisor:
    """A branch of the tree: children in order, a strategy, a restart intensity.

    ``children`` are ``Support.child("support")``, or other supervisors (``billing_branch`` or, to say how it is
    restarted itself, ``billing_branch.child(restart="transient")``). ``agents`` are the types of children that only
    come at run time, so that nodes know them. Raises ``BadDefinition`` naming the field.
    """

    def __init__(
        self,
        name: str,
        children: Sequence[ChildSpec | Supervisor] = (),
        *,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        max_seconds: float | timedelta = 5,
        auto_shutdown: AutoShutdown = "never",
        max_children: int | None = None,
        on_exceeded: OnExceeded | None = None,
        pause: Pause | None = Pause(),
        agents: Sequence[type[Agent[Any]]] = (),
    ) -> None:
        self.name = _checked_name(name)
        self.path = self.name
        """Where it stands if it is the root; nested ones stand below their parents (see ``paths``)."""
        self.strategy = strategy
        self.max_restarts = max_restarts
        self.max_seconds = _whole_seconds(name, max_seconds)
        self.auto_shutdown = auto_shutdown
        self.max_children = max_children
        self.on_exceeded = on_exceeded
        self.pause = pause
        self.run_time_types = _checked_types(name, agents)
        self._check_flags()
        self.children = tuple(self._checked_child(child) for child in _as_sequence(name, children))
        self._check_children()

    def child(
        self, *, restart: Restart = "permanent", shutdown: Shutdown = "infinity", significant: bool = False
    ) -> ChildSpec:
        """This supervisor as another one's child."""
        return ChildSpec(
            id=self.name, supervisor=self, restart=restart, shutdown=shutdown, significant=significant
        )

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        """Every agent type of the whole tree, by its name."""
        types: dict[str, type[Agent[Any]]] = {}
        static = (child.agent for _, child in self.agents() if child.agent is not None)
        at_run_time = (agent for _, branch in self.paths() for agent in branch.run_time_types)
        for agent in (*static, *at_run_time):
            known = types.setdefault(agent.definition.name, agent)
            if known is not agent:
                raise self._bad(
                    "children",
                    f"two agent types are named {agent.definition.name!r}: {known!r} and {agent!r}",
                )
        return types

    def agents(self, path: str = "") -> Iterator[tuple[str, ChildSpec]]:
        """Each agent of the whole tree with the path of its supervisor, in order of start."""
        path = path or self.name
        for child in self.children:
            if isinstance(child.supervisor, Supervisor):
                yield from child.supervisor.agents(f"{path}/{child.id}")
            else:
                yield path, child

    def paths(self, path: str = "") -> Iterator[tuple[str, Supervisor]]:
        """This supervisor and all below it with their paths, parents first: ``helpdesk``, ``helpdesk/billing``."""
        path = path or self.name
        yield path, self
        for child in self.children:
            if isinstance(child.supervisor, Supervisor):
                yield from child.supervisor.paths(f"{path}/{child.id}")

    def definition(self) -> dict[str, Any]:
        """The stored form of the whole tree: plain JSON (definition.py)."""
        stored = self.branch_definition()
        if self.pause is not None:
            stored["pause"] = {"first_ms": to_ms(self.pause.first), "longest_ms": to_ms(self.pause.longest)}
        schedules = {
            name: stored_schedules(kind.definition.schedules)
            for kind in self.agent_types().values()
            if kind.definition.schedules
            for name in (kind.definition.name, *kind.definition.aliases)
        }
        if schedules:
            stored["schedules"] = schedules
        return stored

    def branch_definition(self) -> dict[str, Any]:
        """As ``definition``, without what only a root has."""
        stored: dict[str, Any] = {
            "strategy": self.strategy,
            "max_restarts": self.max_restarts,
            "max_seconds": self.max_seconds,
            "auto_shutdown": self.auto_shutdown,
            "max_children": self.max_children,
            "children": [child_definition(child, self) for child in self.children],
        }
        limit = self.child_limit()
        if self.strategy == "dynamic":
            # Agents outlive their supervisor: those added at run time come back with it.
            stored["keep"] = True
            if limit is not None:
                stored["limit"] = limit
        return stored

    def child_limit(self) -> dict[str, Any] | None:
        """The budget of each child that is counted by itself; None: as OTP counts, all in the supervisor's."""
        on_exceeded = self.on_exceeded or ("park" if self.strategy == "dynamic" else "escalate")
        if on_exceeded == "escalate":
            return None
        return {
            "max_restarts": self.max_restarts,
            "max_seconds": self.max_seconds,
            "on_exceeded": on_exceeded,
        }

    def _check_flags(self) -> None:
        self._word("strategy", self.strategy, get_args(Strategy))
        self._count("max_restarts", self.max_restarts)
        self._word("auto_shutdown", self.auto_shutdown, get_args(AutoShutdown))
        if self.on_exceeded is not None:
            self._word("on_exceeded", self.on_exceeded, get_args(OnExceeded))
        if self.max_children is not None:
            self._count("max_children", self.max_children)
            if self.strategy != "dynamic":
                raise self._bad(
                    "max_children", 'only a supervisor with strategy="dynamic" bounds its children'
                )
        if self.strategy == "dynamic" and self.auto_shutdown != "never":
            raise self._bad("auto_shutdown", "a dynamic supervisor has no significant children; leave it out")
        if self.pause is not None and not isinstance(cast("object", self.pause), Pause):
            raise self._bad("pause", f"{self.pause!r} is not a Pause or None")

    def _checked_child(self, child: ChildSpec | Supervisor) -> ChildSpec:
        spec = child.child() if isinstance(child, Supervisor) else child
        if not isinstance(cast("object", spec), ChildSpec):
            raise self._bad("children", f"{spec!r} is not a child; use YourAgent.child(...) or a Supervisor")
        if spec.under:
            raise self._bad(
                "children", f"a child under {spec.under!r} is for send(create=...); give it an id here"
            )
        if spec.idle_delete is not None:
            raise self._bad(
                "children",
                f"{spec.id!r}: idle_delete is for children that come at run time to a dynamic supervisor",
            )
        if spec.supervisor is not None and not isinstance(spec.supervisor, Supervisor):
            raise self._bad("children", f"{spec.id!r}: {spec.supervisor!r} is not a Supervisor")
        if spec.significant and self.auto_shutdown == "never":
            raise self._bad(
                "children",
                f"{spec.id!r}: significant needs auto_shutdown other than 'never' on this supervisor",
            )
        if isinstance(spec.supervisor, Supervisor) and spec.id != _checked_name(spec.id):
            raise self._bad("children", f"{spec.id!r} cannot name a supervisor")
        return spec

    def _check_children(self) -> None:
        if self.strategy == "dynamic" and self.children:
            raise self._bad(
                "children", "a dynamic supervisor begins empty; use start_child or another strategy"
            )
        self._check_cycle(())
        seen: dict[str, str] = {}
        for path, child in self.agents():
            if child.id in seen:
                raise self._bad(
                    "children",
                    f"agent id {child.id!r} stands twice: under {seen[child.id]!r} and {path!r}; give one another id",
                )
            seen[child.id] = path
        for path, supervisor in self.paths():
            ids = Counter(child.id for child in supervisor.children)
            for child_id, times in ids.items():
                if times > 1:
                    raise self._bad("children", f"{child_id!r} stands twice under {path!r}")
        self.agent_types()

    def _check_cycle(self, above: tuple[int, ...]) -> None:
        if id(self) in above:
            raise self._bad("children", "the supervisor is its own descendant: a cycle cannot be started")
        for child in self.children:
            if isinstance(child.supervisor, Supervisor):
                child.supervisor._check_cycle((*above, id(self)))

    def _word(self, field: str, value: object, words: Sequence[str]) -> None:
        if value not in words:
            raise self._bad(field, f"{value!r} is none of {', '.join(words)}")

    def _count(self, field: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._bad(field, f"{value!r} must be a whole number of 0 or more")

    def _bad(self, field: str, why: str) -> BadDefinition:
        return BadDefinition(f"supervisor {self.name!r}: {field}: {why}")


def child_definition(child: ChildSpec, supervisor: Supervisor | None = None) -> dict[str, Any]:
    """A child's stored form: what start_child takes, and what a supervisor's definition lists."""
    if not isinstance(child.supervisor, Supervisor):
        if supervisor is None:
            return stored_agent(child)
        budget = (supervisor.max_restarts, supervisor.max_seconds)
        return stored_agent(child, inherited=supervisor.child_limit(), fallback=budget)
    stored: dict[str, Any] = {
        "id": child.id,
        "restart": child.restart,
        "significant": child.significant,
        "type": "supervisor",
        "start": {},
    }
    if child.shutdown is not None:
        stored["shutdown"] = child.shutdown if isinstance(child.shutdown, str) else child.shutdown_ms
    stored["supervisor"] = child.supervisor.branch_definition()
    return stored


def _checked_name(name: str) -> str:
    try:
        check_id(name, "supervisor name")
    except BadInput as error:
        raise BadDefinition(str(error)) from None
    if "/" in name:
        raise BadDefinition(f"supervisor name {name!r}: '/' divides the names in a path; use another sign")
    return name


def _whole_seconds(name: str, value: float | timedelta) -> int:
    """OTP's window is counted in whole seconds."""
    seconds = cast("object", value.total_seconds() if isinstance(value, timedelta) else value)
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not 1 <= seconds < math.inf
        or seconds != int(seconds)
    ):
        raise BadDefinition(
            f"supervisor {name!r}: max_seconds: {value!r} must be whole seconds, 1 or more (OTP's window)"
        )
    return int(seconds)


def _checked_types(name: str, agents: object) -> tuple[type[Agent[Any]], ...]:
    if not isinstance(agents, (list, tuple)):
        raise BadDefinition(f"supervisor {name!r}: agents: {agents!r} is not a list of agent types")
    for agent in cast("Sequence[object]", agents):
        if not (isinstance(agent, type) and hasattr(agent, "definition")):
            raise BadDefinition(
                f"supervisor {name!r}: agents: {agent!r} is no agent type; list classes such as Support, "
                "and children that start with the tree as Support.child(...)"
            )
    return tuple(cast("Sequence[type[Agent[Any]]]", agents))


def _as_sequence(name: str, children: object) -> Sequence[ChildSpec | Supervisor]:
    if isinstance(children, (list, tuple)):
        return cast("Sequence[ChildSpec | Supervisor]", children)
    raise BadDefinition(f"supervisor {name!r}: children: {children!r} is not a list of children")
