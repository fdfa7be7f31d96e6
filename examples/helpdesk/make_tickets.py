"""Writes ``tickets.jsonl``: ``python -m examples.helpdesk.make_tickets``. The same file each time.

The words are hand-picked; which of them meet is drawn by a seeded generator, by ``random()`` alone, whose numbers are
the same in every Python. Lines that are wrong on purpose are spread among the good ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from .vocabulary import BAD_LINES, CHANNELS, CUSTOMERS, DESKS, PRIORITIES, Desk

__all__ = ["PATH", "lines", "main"]

PATH: Final = Path(__file__).with_name("tickets.jsonl")
GOOD_TICKETS: Final = 300
FIRST_NUMBER: Final = 4101

T = TypeVar("T")


class Draw(NamedTuple):
    """Chance by ``random()`` alone."""

    source: Random

    def one(self, choices: tuple[T, ...]) -> T:
        return choices[int(self.source.random() * len(choices))]

    def weighted(self, choices: tuple[tuple[T, int], ...]) -> T:
        point = self.source.random() * sum(weight for _, weight in choices)
        for choice, weight in choices:
            point -= weight
            if point < 0:
                return choice
        return choices[-1][0]

    def between(self, low: int, high: int) -> int:
        return low + int(self.source.random() * (high - low + 1))


def lines(seed: int = 17) -> list[str]:
    """All lines of the file, good and bad, in their order."""
    draw = Draw(Random(seed))
    good = [ticket(draw, FIRST_NUMBER + index) for index in range(GOOD_TICKETS)]
    written = [json.dumps(one, ensure_ascii=False) for one in good]
    gap = GOOD_TICKETS // (len(BAD_LINES) + 2)
    # From the end, so that a place is not moved by those put in before it. One ticket comes twice as it is, one again
    # with another subject: both happen where a feed is read twice.
    again = json.dumps({**good[40], "subject": "(fwd) " + good[40]["subject"]}, ensure_ascii=False)
    wrong = [*BAD_LINES, written[20], again]
    for index in reversed(range(len(wrong))):
        written.insert((index + 1) * gap, wrong[index])
    return written


def ticket(draw: Draw, number: int) -> dict[str, Any]:
    """One ticket; about four in ten cost something."""
    desk: Desk = draw.weighted(tuple((one, one.share) for one in DESKS))
    made: dict[str, Any] = {"ticket": f"T-{number}"}
    if draw.source.random() < 0.4:
        subject, low, high = draw.one(desk.paid)
        made |= {"subject": subject.format(n=draw.between(2, 40))}
        price: dict[str, Any] = {"amount": draw.between(low, high), "currency": desk.currency}
    else:
        made |= {"subject": draw.one(desk.free).format(n=draw.between(2, 40))}
        price = {}
    made |= {
        "customer": draw.one(CUSTOMERS[desk.language]),
        "language": desk.language,
        "priority": draw.weighted(PRIORITIES),
        "channel": draw.weighted(CHANNELS),
    }
    return made | price


def main() -> None:
    PATH.write_text("\n".join(lines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
