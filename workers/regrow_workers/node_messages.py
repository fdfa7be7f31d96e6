"""What a node's other threads tell its main loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Declared", "Fatal", "Joined", "NodeMessage", "Order", "Stale"]


@dataclass(frozen=True, slots=True)
class Order:
    """An entry of ``{ns}:control:<node>``; each is posted once."""

    node: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stale:
    """A beat's answer: these lives are not current any more."""

    lives: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """A beat's answer: this node is not known (declared lost, or Redis went back): it begins anew."""

    node: str


@dataclass(frozen=True, slots=True)
class Joined:
    """Redis has taken the node's announcement: from now on it is known under this id."""

    node: str
    pooled: bool
    """There are pooled agents."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """The node cannot go on: wrong server, unreadable keys. ``error`` is one line."""

    error: str


NodeMessage = Order | Stale | Declared | Joined | Fatal
