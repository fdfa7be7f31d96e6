"""The application of the acceptance tests: agents that keep every number they saw, and can be told to misbehave."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from pydantic import Field

from regrow import Agent, ChildSpec, Payload, Reject, State, Step, Supervisor, handles
from regrow_workers.child_spec import Isolation


class Number(Payload, type="acceptance.number"):
    n: int


class Hold(Payload, type="acceptance.hold"):
    """Stay in the handler until the file ``gate`` is there; a link ``<gate>.<pid>`` says who is in it."""

    n: int
    gate: str


class Spoil(Payload, type="acceptance.spoil"):
    """Change the state that the handler was given, deep inside, and then raise Reject."""


class Poison(Payload, type="acceptance.poison"):
    how: str


def _nested() -> list[list[int]]:
    return [[1, 2], [3]]


class Seen(State):
    numbers: tuple[int, ...] = ()
    nested: list[list[int]] = Field(default_factory=_nested)


class Keeper(Agent[Seen], name="keeper"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        return seen.evolve(numbers=(*seen.numbers, number.n))

    @handles(Hold)
    def hold(self, seen: Seen, hold: Hold) -> Step[Seen]:
        # A link, not a file: opening one for writing is what a transition is kept from.
        inside = Path(f"{hold.gate}.{os.getpid()}")
        if not inside.is_symlink():
            inside.symlink_to("nowhere")
        while not Path(hold.gate).exists():
            pass
        return seen.evolve(numbers=(*seen.numbers, hold.n))

    @handles(Spoil)
    def spoil(self, seen: Seen, _spoil: Spoil) -> Step[Seen]:
        seen.nested[0].append(99)
        seen.nested.append([100])
        raise Reject("spoiled what it was given")

    @handles(Poison)
    def poison(self, _seen: Seen, poison: Poison) -> Step[Seen]:
        match poison.how:
            case "exit":
                os._exit(3)
            case "segfault":
                ctypes.string_at(0)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "spin":
                while True:
                    pass
            case _:
                raise ValueError("told to raise")
        return None


def _keepers(*ids: str, deadline: float = 60.0, isolation: Isolation = "process") -> list[ChildSpec]:
    return [Keeper.child(each, deadline=deadline, max_kills=3, isolation=isolation) for each in ids]


def _supervisor(name: str, children: list[ChildSpec]) -> Supervisor:
    """With room for as many deaths as a test causes."""
    return Supervisor(name, children, max_restarts=1000, max_seconds=5)


POISONS = ("exit", "segfault", "kill", "spin", "raise")

one = _supervisor("one", _keepers("a"))
one_pooled = _supervisor("one_pooled", _keepers("a", isolation="pool"))
pair = _supervisor("pair", _keepers("a", "b"))
several = _supervisor("several", _keepers("a", "b", "c", "d", "e", "f"))
POOLED = tuple(f"p{number}" for number in range(31))
pooled = _supervisor("pooled", _keepers(*POOLED, isolation="pool"))
pooled_poisoned = _supervisor(
    "pooled_poisoned", _keepers(*POISONS, "neighbour", deadline=2.0, isolation="pool")
)
poisoned = _supervisor("poisoned", _keepers(*POISONS, "neighbour", deadline=2.0))
