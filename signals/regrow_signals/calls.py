"""What is asked of Redis, as values: a ``Call`` is one script with its arguments, an ``Op`` is several calls in turn.

No I/O here. ``Connection.run`` and ``AsyncConnection.run`` drive the same Ops, so there is one implementation behind
the blocking and the awaiting client.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Arg", "Call", "Op", "Command"]

T = TypeVar("T")

Arg = str | bytes | int


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One script call: ``script`` is the file's name without ``.lua``; ``parse`` turns the raw reply into a ``T``.

    ``parse`` raises the typed refusal when the reply is one. ``repeatable`` says that a repeat after an unknown fate is
    harmless because the script itself tells a repeat from a first call; only such calls are ever sent again.
    ``hint`` is put into error messages (the agent's id, a path).
    """

    script: str
    keys: Sequence[str]
    args: Sequence[Arg]
    parse: Callable[[Any], T]
    repeatable: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One plain command, e.g. ``("XRANGE", key, "-", "+")``; read-only ones are repeatable.

    ``wait``: how many seconds the command itself may block in the server.
    """

    words: Sequence[Arg]
    parse: Callable[[Any], T]
    repeatable: bool = True
    hint: str = ""
    wait: float = 0.0


Op = Generator["Call[Any] | Command[Any]", Any, T]
