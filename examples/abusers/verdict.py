"""What was seen, held against what was to come: pure, and as a table for people."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .abuses import Abuse

__all__ = [
    "NUMBERS",
    "Latency",
    "Report",
    "Seen",
    "each_table",
    "ends_by_kind",
    "faults",
    "in_all",
    "latencies",
    "table",
]

NUMBERS = (1, 2, 3, 4)
"""Sent to each abuser, two before its deed and two behind it."""


@dataclass(frozen=True)
class Seen:
    """Of one agent, as Redis has it."""

    ends: tuple[str, ...]
    letters: tuple[str, ...]
    last_error: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Latency:
    """From before ``send`` to the commit, milliseconds."""

    median: float
    p99: float
    count: int


@dataclass
class Report:
    """Of one run."""

    abusers: Mapping[str, Seen]
    good: Mapping[str, Seen]
    sent_to_good: int
    """1 up to this number, to each."""
    counted_ends: Mapping[str, int]
    """From the metrics: ends of processes by the kind of their reason."""
    moved: Sequence[str]
    """Services whose process is another one than at the start."""
    quiet: Latency
    busy: Latency
    seconds: float
    left: Mapping[int, str] = field(default_factory=dict[int, str])
    """Processes that are nobody's, once all is over."""
    left_after_stop: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def ratio(self) -> float:
        return self.busy.p99 / self.quiet.p99


def faults(abuses: Sequence[Abuse], report: Report) -> list[str]:
    """What did not come as it should; empty: everything did. Times are judged elsewhere."""
    found = [
        f"{abuse.name}: {what}" for abuse in abuses for what in _faults_of(abuse, report.abusers[abuse.name])
    ]
    wanted = tuple(range(1, report.sent_to_good + 1))
    for name, seen in report.good.items():
        if seen.numbers != wanted:
            found.append(f"{name}: counted {len(seen.numbers)} numbers of {len(wanted)}, or in another order")
        if seen.ends or seen.letters:
            found.append(f"{name}: was disturbed: {seen.ends} {seen.letters}")
    told = ends_by_kind([*report.abusers.values(), *report.good.values()])
    if told != report.counted_ends:
        found.append(f"metrics: ends by reason are {dict(report.counted_ends)}, the events say {told}")
    found += [f"{service}: was started again" for service in report.moved]
    found += [f"left running: {name} ({pid})" for pid, name in report.left.items()]
    found += [f"left after the end: {name} ({pid})" for pid, name in report.left_after_stop.items()]
    return found


def _faults_of(abuse: Abuse, seen: Seen) -> Iterator[str]:
    if set(seen.ends) - {abuse.reason} or len(seen.ends) not in abuse.lives:
        yield f"its lives ended with {seen.ends}, not {abuse.lives} times with {abuse.reason!r}"
    if seen.letters != ((abuse.letter,) if abuse.letter else ()):
        yield f"its dead letters are {seen.letters}, not {abuse.letter!r}"
    if abuse.error not in seen.last_error:
        yield f"last_error is {seen.last_error!r}, without {abuse.error!r}"
    if seen.numbers != NUMBERS:
        yield f"it counted {seen.numbers}, not {NUMBERS}"


def ends_by_kind(seen: Sequence[Seen]) -> dict[str, int]:
    """As the metric has them: ``signal:SIGSEGV`` is ``signal``."""
    return dict(Counter(end.partition(":")[0] for each in seen for end in each.ends))


def table(abuses: Sequence[Abuse], report: Report) -> str:
    """For people."""
    rows = [("abuser", "expected", "ends seen", "its signal", "last_error says")]
    for abuse in abuses:
        seen = report.abusers[abuse.name]
        rows.append((
            abuse.name,
            _short(abuse.reason) or "lives on",
            f"{len(seen.ends)} x {_short(seen.ends[0])}" if seen.ends else "none",
            seen.letters[0] if seen.letters else "applied",
            _short(abuse.error if abuse.error in seen.last_error else seen.last_error, 50),
        ))  # fmt: skip
    left = f"left running: {len(report.left)}, after the end: {len(report.left_after_stop)}"
    return "\n".join([
        *_columns(rows),
        "",
        f"{len(report.good)} good agents: 1 to {report.sent_to_good} applied by each, in order",
        latencies(report),
        f"all over after {report.seconds:.1f} s; {left}",
    ])  # fmt: skip


def latencies(report: Report) -> str:
    """One line: the good agents in quiet and under abuse."""
    times = f"quiet {_shown(report.quiet)}; under abuse {_shown(report.busy)}: p99 {report.ratio:.1f} times as long"
    return f"their latency, from send to commit: {times}"


def in_all(reports: Sequence[Report]) -> str:
    """The median of all rounds: one p99 of a few hundred signals is chance."""
    ratio = statistics.median(report.ratio for report in reports)
    quiet = statistics.median(report.quiet.p99 for report in reports)
    busy = statistics.median(report.busy.p99 for report in reports)
    times = f"{ratio:.1f} times its quiet value, {busy:.1f} ms beside {quiet:.1f} ms"
    return f"p99 under abuse {times}: medians of {len(reports)}"


def each_table(found: Mapping[str, tuple[Latency, Latency]]) -> str:
    """Who disturbs most, first."""
    rows = [("abuser", "p99", "quiet", "times", "signals")]
    for name, (quiet, busy) in sorted(found.items(), key=lambda each: each[1][0].p99 / each[1][1].p99):
        rows.append(
            (name, f"{busy.p99:.2f}", f"{quiet.p99:.2f}", f"{busy.p99 / quiet.p99:.1f}", str(busy.count))
        )
    return "\n".join(_columns(rows))


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _shown(latency: Latency) -> str:
    return f"median {latency.median:.2f} ms, p99 {latency.p99:.2f} ms ({latency.count} signals)"


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
