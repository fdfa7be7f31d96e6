"""Who is struck, how and when: pure, from a seed, so that a run can be had again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

__all__ = ["KINDS", "MOST_STRIKES", "Kind", "Strike", "choose", "kinds_of", "strikes"]

Kind = Literal["worker", "slot", "spawner", "node", "watchdog", "executor", "redis"]

KINDS: Final[tuple[Kind, ...]] = ("worker", "slot", "spawner", "node", "watchdog", "executor", "redis")

MOST_STRIKES: Final = 100_000
FROZEN_OF: Final = 4
"""One strike of so many stops the process for a while instead of killing it."""
SHORTEST, LONGEST = 0.1, 2.5
"""Seconds that it is stopped: shorter than what regrow takes for a death, mostly."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Strike:
    """One process of a kind. ``frozen`` seconds between SIGSTOP and SIGCONT; 0: SIGKILL."""

    number: int
    kind: Kind
    frozen: float
    place: float
    """From 0 up to 1: which of those that are there."""


def strikes(kinds: Sequence[Kind], seed: int) -> Iterator[Strike]:
    """The same for the same kinds and seed, whatever is there to be struck."""
    chance = random.Random(seed)
    for number in range(1, MOST_STRIKES + 1):
        kind = chance.choice(kinds)
        frozen = chance.uniform(SHORTEST, LONGEST) if chance.randrange(FROZEN_OF) == 0 else 0.0
        yield Strike(number, kind, round(frozen, 3), chance.random())


def choose(strike: Strike, there: Sequence[T]) -> T | None:
    """The one of those that are there; None: there is none."""
    return there[int(strike.place * len(there))] if there else None


def kinds_of(words: str) -> tuple[Kind, ...]:
    """Of ``"worker,slot"``; in the order of ``KINDS``. Raises ValueError that names what is wrong."""
    named = [word.strip() for word in words.split(",") if word.strip()]
    unknown = [word for word in named if word not in KINDS]
    if unknown or not named:
        raise ValueError(f"{unknown[0] if unknown else 'nothing'!r} is none of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in named)
