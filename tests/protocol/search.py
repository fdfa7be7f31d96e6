"""Breadth-first search over every interleaving, then backwards: can every world still come to rest?

``search`` returns how many worlds there are, or raises ``Found`` with the shortest way to what is broken.
"""

from __future__ import annotations

from collections import deque

from tests.protocol.actors import successors
from tests.protocol.invariants import Violation, at_rest, check_world
from tests.protocol.world import Scenario, World, beginning

__all__ = ["Found", "search"]

Parents = dict[World, tuple[World, str] | None]


class Found(AssertionError):
    """The search found a world that must not be. ``path`` is how to get there, in the fewest steps."""

    def __init__(self, promise: str, path: list[str]) -> None:
        super().__init__(f"{promise}\n  " + "\n  ".join(path))
        self.promise = promise
        self.path = path


def search(scenario: Scenario, limit: int = 400_000) -> int:
    """The number of worlds reached; all of them hold the promises and can come to rest without further faults."""
    start = beginning(scenario)
    parents: Parents = {start: None}
    before: dict[World, list[World]] = {}
    resting: list[World] = []
    queue = deque([start])
    while queue:
        world = queue.popleft()
        try:
            check_world(scenario, world)
            steps = list(successors(scenario, world))
        except Violation as violation:
            raise Found(str(violation), path_to(parents, world)) from violation
        if at_rest(scenario, world):
            resting.append(world)
        for step in steps:
            if step.world not in parents:
                parents[step.world] = (world, step.label)
                queue.append(step.world)
            if not step.fault:
                before.setdefault(step.world, []).append(world)
        assert len(parents) <= limit, f"{scenario.name}: more than {limit} worlds; make its budget smaller"
    require_rest(parents, before, resting)
    return len(parents)


def require_rest(parents: Parents, before: dict[World, list[World]], resting: list[World]) -> None:
    reaches = set(resting)
    queue = deque(resting)
    while queue:
        for earlier in before.get(queue.popleft(), ()):
            if earlier not in reaches:
                reaches.add(earlier)
                queue.append(earlier)
    for world in parents:  # in the order found: the first is among the nearest
        if world not in reaches:
            raise Found("from here the system never comes to rest", path_to(parents, world))


def path_to(parents: Parents, world: World) -> list[str]:
    steps: list[str] = []
    link = parents[world]
    while link is not None:
        earlier, label = link
        steps.append(label)
        link = parents[earlier]
    return steps[::-1]
