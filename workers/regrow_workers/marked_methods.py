"""Methods marked by a decorator, by the class body they were written in, until that class is defined.

Of two methods of one name Python keeps only the last, and the first would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["MarkedMethods"]


class MarkedMethods:
    """One decorator's marks."""

    def __init__(self) -> None:
        self._by_body: dict[tuple[str, str], list[Callable[..., Any]]] = {}

    def note(self, function: Callable[..., Any]) -> None:
        """A function was marked in some class body."""
        named: Any = function
        body = named.__module__, named.__qualname__.rpartition(".")[0]
        self._by_body.setdefault(body, []).append(function)

    def take(self, cls: type) -> list[Callable[..., Any]]:
        """The functions marked in this class's body, in order; forgotten with this call."""
        found = self._by_body.pop((cls.__module__, cls.__qualname__), [])
        return list(dict.fromkeys(found))
