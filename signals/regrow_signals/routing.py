"""One matcher for handlers and subscriptions: which patterns fit a signal's type, the most specific first.

A type is dot-separated segments. In a pattern ``*`` stands for exactly one segment, ``**`` for any number of
them, also none; every other segment stands for itself. Pure; no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from regrow_signals.errors import BadTypeName

__all__ = ["Pattern", "RouteTable", "matches"]

T = TypeVar("T")

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_LENGTH: Final = 200
_MAX_REMEMBERED: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Pattern:
    """A checked pattern. Patterns sort by specificity: the most specific is the smallest.

    More names are more specific, then fewer ``**``, then more ``*``, then the one whose names stand further
    left. So whenever everything that one pattern fits is also fitted by another, the narrower one wins.
    Neighbours ``**.*`` are written ``*.**``, which fits the same types: equal patterns are found to be equal.
    """

    rank: tuple[int, ...]
    text: str
    segments: tuple[str, ...] = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """The pattern, or ``BadTypeName`` with what is wrong in it."""
        if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadTypeName(f"pattern {text!r} must be text such as 'ticket.*'")
        if len(text) > _MAX_LENGTH:
            raise BadTypeName(f"pattern of {len(text)} characters: at most {_MAX_LENGTH} are allowed")
        segments = text.split(".")
        for segment in segments:
            if segment not in ("*", "**") and _SEGMENT.fullmatch(segment) is None:
                raise BadTypeName(
                    f"pattern {text!r}: segment {segment!r} must be letters, digits, '_' and '-', or * or **"
                )
        normal = _normal(segments)
        return cls(_rank(normal), ".".join(normal), normal)

    @property
    def exact(self) -> bool:
        """Without wildcards: it fits its own text alone."""
        return "*" not in self.text

    def fits(self, type_name: str) -> bool:
        return _fits(self.segments, type_name.split("."))


def matches(pattern: str, type_name: str) -> bool:
    """Whether a pattern fits a type; ``BadTypeName`` if the pattern is none."""
    return Pattern.parse(pattern).fits(type_name)


class RouteTable(Generic[T]):
    """Patterns with what they lead to: ``best`` serves a handler lookup, ``every`` a subscription."""

    def __init__(self, routes: Iterable[tuple[Pattern, T]]) -> None:
        # `sorted` is stable: equal patterns stay in the order of registration.
        self._routes: Sequence[tuple[Pattern, T]] = sorted(routes, key=lambda route: route[0])
        self._exact: dict[str, T] = {}
        for pattern, target in self._routes:
            if pattern.exact:
                self._exact.setdefault(pattern.text, target)
        self._remembered: dict[str, T | None] = dict(self._exact)

    def best(self, type_name: str) -> T | None:
        """What the most specific fitting pattern leads to; ``None`` if none fits."""
        try:
            return self._remembered[type_name]
        except KeyError:
            found = next(iter(self.every(type_name)), None)
        # Types come from strangers: what is remembered of them is bounded.
        if len(self._remembered) < _MAX_REMEMBERED:
            self._remembered[type_name] = found
        return found

    def every(self, type_name: str) -> list[T]:
        """All that fit, the most specific first, equal ones in the order of registration."""
        segments = type_name.split(".")
        return [target for pattern, target in self._routes if _fits(pattern.segments, segments)]


def _normal(segments: Sequence[str]) -> tuple[str, ...]:
    """Each run of wildcards as its ``*``, then one ``**`` if it had any: same types, one spelling."""
    normal: list[str] = []
    pending = False
    for segment in segments:
        if segment == "**":
            pending = True
        elif segment == "*":
            normal.append(segment)
        else:
            if pending:
                normal.append("**")
            pending = False
            normal.append(segment)
    return (*normal, "**") if pending else tuple(normal)


def _rank(segments: Sequence[str]) -> tuple[int, ...]:
    wild = [2 if s == "**" else 1 if s == "*" else 0 for s in segments]
    return (-wild.count(0), wild.count(2), -wild.count(1), *wild)


def _fits(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    """Greedy with one way back, as for globs: linear in practice, never exponential."""
    at, place, star, resume = 0, 0, -1, 0
    while at < len(segments):
        wanted = pattern[place] if place < len(pattern) else None
        if wanted == "**":
            star, resume = place, at
            place += 1
        elif wanted is not None and wanted in ("*", segments[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return all(rest == "**" for rest in pattern[place:])
