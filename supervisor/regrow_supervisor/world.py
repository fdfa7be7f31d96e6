"""What a decision works on: the states it was given, copies of those it changes, and what it has said so far.

Messages between supervisors travel here: a delivery puts a fact where it is awaited, else into the queue, and marks
the supervisor as having something to do. Nothing is handled at delivery; ``decide`` runs whoever is marked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from regrow_supervisor.events import Declined, Exited, Fact, Started, StartFailed, Unplaced
from regrow_supervisor.orders import LifeEnded, Output, Reply, Report
from regrow_supervisor.restart_types import is_unreadable
from regrow_supervisor.states import ChildState, SupervisorState

AT_ONCE = 200
"""Pooled children that one decision starts or stops."""

__all__ = ["World", "dead_in_queue", "take_exit"]


class World:
    """One decision in the making."""

    def __init__(self, states: Mapping[str, SupervisorState], now_ms: int) -> None:
        self.now_ms = now_ms
        self.output: list[Output] = []
        self.drafts: dict[str, SupervisorState] = {}
        self.removed: dict[str, None] = {}
        self.runnable: deque[str] = deque()
        self.at_once = AT_ONCE
        """How many pooled children this decision may still start or stop in a row; the next tick goes on."""
        self._states = states

    def get(self, path: str) -> SupervisorState | None:
        """To look at, not to change."""
        if path in self.drafts:
            return self.drafts[path]
        return None if path in self.removed else self._states.get(path)

    def version(self, path: str) -> int:
        """Of the stored record, also if this decision has removed it: what the commit builds on."""
        return self._states[path].version if path in self._states else 0

    def draft(self, path: str) -> SupervisorState:
        """To change: a copy, made once."""
        if path not in self.drafts:
            self.drafts[path] = self._states[path].fork()
        return self.drafts[path]

    def paths(self) -> list[str]:
        """Of all supervisors on record, parents before their children."""
        known = {**dict.fromkeys(self._states), **dict.fromkeys(self.drafts)}
        return sorted(path for path in known if path not in self.removed)

    def put(self, state: SupervisorState) -> SupervisorState:
        self.drafts[state.path] = state
        self.removed.pop(state.path, None)
        return state

    def remove_branch(self, path: str) -> None:
        """Forget the records of a supervisor that has ended, and of all below it."""
        for known in self.paths():
            if known == path or known.startswith(f"{path}/"):
                self.drafts.pop(known, None)
                self.removed[known] = None

    def say(self, item: Output) -> None:
        self.output.append(item)

    def report(
        self, s: SupervisorState, context: str, child: ChildState | None = None, reason: str = ""
    ) -> None:
        """A report about one child, or about the supervisor itself."""
        if child is None:
            self.say(Report(path=s.path, context=context, reason=reason, incarnation=s.incarnation))
        else:
            name = str(child.spec.get("template", child.id))
            self.say(
                Report(path=s.path, context=context, child=name, reason=reason, incarnation=child.incarnation)
            )

    def life_ended(self, s: SupervisorState, child: ChildState, reason: str, *, again: bool) -> None:
        """Tell that a life of an agent is over; of nested supervisors the parent alone hears."""
        if not child.is_supervisor:
            number = child.incarnation
            self.say(LifeEnded(path=s.path, child=child.id, incarnation=number, reason=reason, again=again))

    def reply(self, request: str, value: Any = None, error: str = "", detail: str = "") -> None:
        if request:
            self.say(Reply(request=request, value=value, error=error, detail=detail))

    def wake(self, path: str) -> None:
        self.runnable.append(path)

    def post(self, path: str, message: list[Any]) -> None:
        """Put a message at the back of a supervisor's queue."""
        s = self.draft(path)
        s.queue[next(reversed(s.queue), 0) + 1] = message
        self.wake(path)

    def deliver(self, fact: Fact) -> None:
        """Give a fact about a life to its supervisor; a fact about no current life is dropped."""
        s = self.get(fact.path)
        if s is None or not s.alive:
            return
        waiting = s.waiting
        if waiting is not None and waiting["for"] != "stops" and waiting["result"] is None:
            result = _result(waiting, fact)
            if result is not None:
                s = self.draft(fact.path)
                s.waiting = {**waiting, "result": result}
                self.wake(fact.path)
                return
        if isinstance(fact, Exited):
            child = s.children.get(fact.child)
            if child is not None and child.incarnation == fact.incarnation and child.alive:
                self.post(fact.path, ["exit", fact.child, fact.incarnation, fact.reason, fact.charged])


def _result(waiting: Mapping[str, Any], fact: Fact) -> list[Any] | None:
    """What the fact means to a supervisor that waits; None: it is not what is awaited."""
    if (waiting["child"], waiting["incarnation"]) != (fact.child, fact.incarnation):
        return None
    if waiting["for"] == "stop":
        return ["exited", fact.reason] if isinstance(fact, Exited) else None
    match fact:
        case Started():
            return ["started", fact.info]
        case StartFailed():
            return ["failed", fact.reason]
        case Declined():
            return ["declined"]
        case Unplaced():
            return ["unplaced", fact.reason]
        case Exited():
            # It died before it was ready: a failed start, unless it was not its fault.
            if not fact.charged and is_unreadable(fact.reason):
                return ["unreadable", fact.reason]
            return ["failed", fact.reason] if fact.charged else ["lost", fact.reason]


def take_exit(s: SupervisorState, child: ChildState) -> str | None:
    """Consume the queued end of this life and return its reason; None: no such message."""
    for number, message in s.queue.items():
        if message[0] == "exit" and message[1] == child.id and message[2] == child.incarnation:
            del s.queue[number]
            return str(message[3])
    return None


def dead_in_queue(s: SupervisorState) -> frozenset[tuple[str, int]]:
    """Lives that have ended, though the supervisor has not got round to it."""
    return frozenset((m[1], m[2]) for m in s.queue.values() if m[0] == "exit")
