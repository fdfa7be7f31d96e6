"""The application that ``regrow bench throughput --pool`` measures: ``tree_10000`` has as many pooled counters."""

from __future__ import annotations

from regrow import Supervisor
from regrow.bench.app import Counter

__all__ = ["agent_id", "application"]

_TREE = "tree_"


def application(agents: int) -> str:
    """The application's name for so many agents."""
    return f"{__name__}:{_TREE}{agents}"


def agent_id(number: int) -> str:
    return f"device-{number:06d}"


def __getattr__(name: str) -> Supervisor:
    number = name.removeprefix(_TREE)
    if number == name or not number.isdecimal():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    agents = range(int(number))
    return Supervisor("pool", [Counter.child(agent_id(each), isolation="pool") for each in agents])
