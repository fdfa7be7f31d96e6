"""The applications of ``scale.py``, by name: ``tree_1000`` has so many pooled counters, ``more_1000`` one more.

Beside them stands an empty dynamic supervisor, under which sends create agents. ``isolated_500`` has isolated counters,
``keeper_4096`` one agent whose state holds so many characters, besides a count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regrow import Agent, Payload, State, Step, Supervisor, handles
from regrow.bench.app import Counter

__all__ = ["CREATED_UNDER", "DEVICES", "KEEPER", "Keeper", "Touch", "application", "device"]

ROOT = "scale"
DEVICES = f"{ROOT}/devices"
CREATED_UNDER = f"{ROOT}/chats"
KEEPER = "keeper"

#: as many as the largest backlog that is measured
MAILBOX = 1_000_000


class Touch(Payload, type="scale.touch"):
    """``padding`` makes the signal as large as is wanted."""

    padding: str = ""


class Kept(State):
    """``text`` never changes, and is written anew with each commit."""

    text: str = ""
    count: int = 0


class Keeper(Agent[Kept], name="scale-keeper"):
    """Counts, with something to carry."""

    @handles(Touch)
    def touched(self, kept: Kept, touch: Touch) -> Step[Kept]:  # noqa: ARG002  what it holds is only carried
        return kept.evolve(count=kept.count + 1)


def application(kind: str, size: int) -> str:
    """The application's name, as a service is given it."""
    return f"{__name__}:{kind}_{size}"


def device(number: int) -> str:
    """A counter's id."""
    return f"device-{number:06d}"


def _pooled(agents: int) -> Supervisor:
    devices = [Counter.child(device(number), isolation="pool") for number in range(agents)]
    chats = Supervisor("chats", strategy="dynamic", agents=[Counter])
    return Supervisor(ROOT, [Supervisor("devices", devices), chats])


def _isolated(agents: int) -> Supervisor:
    return Supervisor(ROOT, [Supervisor("devices", [Counter.child(device(n)) for n in range(agents)])])


def _keeper(characters: int) -> Supervisor:
    return Supervisor(ROOT, [Keeper.child(KEEPER, init={"text": "x" * characters}, max_mailbox=MAILBOX)])


_KINDS: Mapping[str, Callable[[int], Supervisor]] = {
    "tree": _pooled,
    "more": lambda agents: _pooled(agents + 1),
    "isolated": _isolated,
    "keeper": _keeper,
}


def __getattr__(name: str) -> Supervisor:
    kind, _, size = name.partition("_")
    if kind not in _KINDS or not size.isdecimal():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _KINDS[kind](int(size))
