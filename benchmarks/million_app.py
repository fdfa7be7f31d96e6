"""The application of the million soak: ``tree_10000`` has as many pooled agents, which count numbered signals."""

from __future__ import annotations

from benchmarks.counting_app import Numbered
from regrow import Supervisor

__all__ = ["agent_id", "application"]

_TREE = "tree_"


def application(agents: int) -> str:
    """The application's name for so many agents."""
    return f"{__name__}:{_TREE}{agents}"


def agent_id(number: int) -> str:
    return f"tally-{number:06d}"


def __getattr__(name: str) -> Supervisor:
    number = name.removeprefix(_TREE)
    if number == name or not number.isdecimal():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Supervisor("tallies", [Numbered.child(agent_id(n), isolation="pool") for n in range(int(number))])
