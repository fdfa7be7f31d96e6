"""Which agents with ``idle_delete`` have had nothing to do for so long: pure bookkeeping, in answered time.

Idle is whose mailbox, outbox and dead letters are empty and whose record has not moved. The leader looks at each four
times in its period, so it is found between one and one and a quarter of it. A new leader begins to count anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from regrow_supervisor.leader_view import LeaderView

__all__ = ["IdleChild", "IdleWatch", "idle_children"]

_LOOKS: Final = 4


@dataclass(frozen=True, slots=True)
class IdleChild:
    """A child that may be deleted when idle; ``stopped``: it was found idle and has ended."""

    path: str
    agent: str
    incarnation: int
    idle_ms: int
    stopped: bool = False


@dataclass(slots=True)
class _Seen:
    token: str
    since_ms: int
    looked_ms: int


@dataclass(slots=True)
class IdleWatch:
    """When each agent was last seen to do anything."""

    _seen: dict[tuple[str, int], _Seen] = field(default_factory=dict[tuple[str, int], _Seen])

    def due(self, children: Iterable[IdleChild], elapsed_ms: int) -> list[IdleChild]:
        """Those to look at now. Who is not among ``children`` any more is forgotten."""
        before, self._seen = self._seen, {}
        found: list[IdleChild] = []
        for child in children:
            life = (child.agent, child.incarnation)
            seen = before.get(life)
            if seen is not None:
                self._seen[life] = seen
            if seen is None or elapsed_ms - seen.looked_ms >= child.idle_ms // _LOOKS:
                found.append(child)
        return found

    def observe(self, child: IdleChild, token: str, elapsed_ms: int) -> bool:
        """Take in one look (``""``: something is in it); whether it has been idle for long enough."""
        life = (child.agent, child.incarnation)
        seen = self._seen.get(life)
        if seen is None or not token or seen.token != token:
            self._seen[life] = _Seen(token, elapsed_ms, elapsed_ms)
            return False
        seen.looked_ms = elapsed_ms
        return elapsed_ms - seen.since_ms >= child.idle_ms

    def restart(self) -> None:
        """Forget all: the store did not answer, or may be another."""
        self._seen.clear()


def idle_children(view: LeaderView) -> list[IdleChild]:
    """Every child with ``idle_delete`` that runs, or that was stopped for it and is to be deleted."""
    found: list[IdleChild] = []
    for agent, path in list(view.idlers.items()):
        state = view.states.get(path)
        child = None if state is None else state.children.get(agent)
        if state is None or child is None:
            del view.idlers[agent]
            continue
        idle_ms = child.spec.get("idle_delete_ms")
        stopped = child.idle and child.status == "stopped" and not child.held
        runs = state.strategy == "dynamic" and state.alive and (stopped or child.status == "running")
        if idle_ms is not None and runs and agent not in view.corrupt:
            found.append(IdleChild(path, agent, child.incarnation, int(idle_ms), stopped))
    return found
