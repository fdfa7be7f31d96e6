"""Breadth-first search over every interleaving, then backwards: can every world still come to rest?

``search`` returns how many worlds there are, or raises ``Found`` with the shortest way to what is broken.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from tests.protocol.actors import successors
from tests.protocol.invariants import Violation, at_rest, check_world
from tests.protocol.world import Scenario, World, beginning

__all__ = ["Found", "explore", "search"]

W = TypeVar("W", bound=Hashable)


class Found(AssertionError):
    """The search found a world that must not be. ``path`` is how to get there, in the fewest steps."""

    def __init__(self, promise: str, path: list[str]) -> None:
        super().__init__(f"{promise}\n  " + "\n  ".join(path))
        self.promise = promise
        self.path = path


class Graph(Generic[W]):
    """Worlds by number, in the order they were found; how each was reached first; and all steps without a fault."""

    def __init__(self, start: W) -> None:
        self.worlds = [start]
        self.numbers = {start: 0}
        self.reached: list[tuple[int, str]] = [(0, "")]
        self.before: list[list[int]] = [[]]

    def number(self, world: W, earlier: int, label: str) -> int:
        """The world's number; a new one is reached from ``earlier``."""
        found = self.numbers.setdefault(world, len(self.worlds))
        if found == len(self.worlds):
            self.worlds.append(world)
            self.reached.append((earlier, label))
            self.before.append([])
        return found

    def path_to(self, number: int) -> list[str]:
        steps: list[str] = []
        while number:
            number, label = self.reached[number]
            steps.append(label)
        return steps[::-1]


def search(scenario: Scenario, limit: int = 400_000) -> int:
    """The number of worlds reached; all of them hold the promises and can come to rest without further faults."""

    def steps(world: World) -> Iterator[tuple[str, World, bool]]:
        check_world(scenario, world)
        for step in successors(scenario, world):
            yield step.label, step.world, step.fault

    return explore(scenario.name, beginning(scenario), steps, partial(at_rest, scenario), limit)


def explore(
    name: str,
    start: W,
    steps: Callable[[W], Iterable[tuple[str, W, bool]]],
    rests: Callable[[W], bool],
    limit: int = 400_000,
) -> int:
    """Any model: ``steps`` checks a world (``Violation``) and gives label, next world and whether it is a fault."""
    graph = Graph(start)
    resting: list[int] = []
    with no_garbage_collection():
        # The list grows while it is read: that is the queue of a breadth-first search.
        for number, world in enumerate(graph.worlds):
            try:
                for label, next_world, fault in steps(world):
                    after = graph.number(next_world, number, label)
                    if not fault:
                        graph.before[after].append(number)
            except Violation as violation:
                raise Found(str(violation), graph.path_to(number)) from violation
            if rests(world):
                resting.append(number)
            assert len(graph.worlds) <= limit, f"{name}: more than {limit} worlds; cut its budget"
        require_rest(graph, resting)
    return len(graph.worlds)


def require_rest(graph: Graph[Any], resting: list[int]) -> None:
    reaches = set(resting)
    queue = list(resting)
    while queue:
        for earlier in graph.before[queue.pop()]:
            if earlier not in reaches:
                reaches.add(earlier)
                queue.append(earlier)
    for number in range(len(graph.worlds)):  # in the order found: the first is among the nearest
        if number not in reaches:
            raise Found("from here the system never comes to rest", graph.path_to(number))


@contextmanager
def no_garbage_collection() -> Generator[None, None, None]:
    """Worlds hold no cycles, and looking for some in a million tuples costs a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
