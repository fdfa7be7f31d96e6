"""The figures of ``benchmarks/README.md``, measured anew.

``python benchmarks/figures.py`` prints the table; ``--write`` puts it into this folder's README and the first one;
``--json FILE`` keeps every run. The benches take turns, so that a busy minute of the machine does not fall on one of
them alone; each figure is the median of its runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regrow.bench.guard import measure_guard
from regrow.bench.idle import measure_idle
from regrow.bench.latency import measure_latency
from regrow.bench.recovery import measure_recovery
from regrow.bench.supervision import measure_supervision
from regrow.bench.throughput import measure_throughput

HERE = Path(__file__).resolve().parent
PAGES = (HERE / "README.md", HERE.parent / "README.md")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: ``text`` is filled from the medians of the bench's runs."""

    bench: str
    what: str
    reach: str
    text: str
    command: str


FIGURES = (
    Figure(
        "recovery",
        "worker killed (-9) to its agent's next signal committed, with a warm spare",
        "median 8 ms, p99 60 ms",
        "median {median_ms:.1f} ms, p99 {p99_ms:.1f} ms",
        "regrow bench recovery",
    ),
    Figure(
        "recovery_forked",
        "the same without a spare",
        "median 15 ms, p99 60 ms",
        "median {median_ms:.1f} ms, p99 {p99_ms:.1f} ms",
        "regrow bench recovery --spares 0",
    ),
    Figure(
        "recovery",
        "its floor, kill by kill beside it: notice, fork, connect, one commit, no supervision",
        "",
        "median {floor_median_ms:.1f} ms, p99 {floor_p99_ms:.1f} ms; regrow is {times_floor:.1f} times that",
        "regrow bench recovery",
    ),
    Figure(
        "throughput",
        "durable transitions a second, one busy isolated agent, journal on",
        "50,000",
        "median {per_second:,.0f}, best round {best_per_second:,.0f}",
        "regrow bench throughput",
    ),
    Figure(
        "throughput",
        "the processor time of a transition, in the worker and in Redis, which work at the same time",
        "20 µs each",
        "{worker_cpu_us_per_signal:.1f} µs, {redis_cpu_us_per_signal:.1f} µs",
        "regrow bench throughput",
    ),
    Figure(
        "throughput",
        "the same with batch 1",
        "beside it",
        "{batch_1_per_second:,.0f}",
        "regrow bench throughput",
    ),
    Figure(
        "latency",
        "send to committed, idle system",
        "median under 1 ms",
        "median {median_ms:.2f} ms, p99 {p99_ms:.2f} ms",
        "regrow bench latency",
    ),
    Figure(
        "idle", "private memory of a worker", "6 MiB", "{worker_private_mib:.1f} MiB", "regrow bench idle"
    ),
    Figure(
        "idle",
        "Redis commands a second of an idle isolated agent",
        "2",
        "{commands_per_second:.1f}",
        "regrow bench idle",
    ),
    Figure(
        "guard",
        "the guard of purity, on top of a small transition",
        "",
        "{warn_more_us:.1f} µs (`warn`), {enforce_more_us:.1f} µs (`enforce`), beside {off_us:.1f} µs",
        "regrow bench guard",
    ),
    Figure(
        "supervision",
        "50 agents killed in one instant, all working again",
        "1.5 s",
        "{killed_at_once_median_s:.2f} s",
        "regrow bench supervision",
    ),
    Figure(
        "supervision",
        "node lost, its 50 isolated agents working elsewhere",
        "5 s",
        "{node_lost_median_s:.2f} s",
        "regrow bench supervision",
    ),
    Figure(
        "supervision",
        "watchdog lost with a standby, a death in the gap mended",
        "4 s",
        "{watchdog_lost_median_s:.2f} s",
        "regrow bench supervision",
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="how often each bench is run (3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work of each run")
    parser.add_argument("--json", type=Path, help="write every run's result here")
    parser.add_argument("--write", action="store_true", help="put the table into both README files")
    told = parser.parse_args(arguments)
    before = os.getloadavg()[0]
    runs = measured(told.runs, 10 if told.quick else 1)
    table = f"{as_table(runs)}\n\n{machine(before, told.runs)}"
    print(table)
    if told.json is not None:
        told.json.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
    if told.write:
        for page in PAGES:
            page.write_text(with_table(page, table), encoding="utf-8")


def measured(runs: int, part: int) -> dict[str, list[Result]]:
    """Every bench ``runs`` times, in turns; ``part`` 10 is a tenth of the work."""
    benches: Mapping[str, Callable[[], Result]] = {
        "recovery": lambda: measure_recovery(200 // part),
        "recovery_forked": lambda: measure_recovery(200 // part, spares=0),
        "throughput": lambda: measure_throughput(100_000 // part, 3),
        "latency": lambda: measure_latency(1000 // part),
        "idle": lambda: measure_idle(20.0 / part),
        "guard": lambda: measure_guard(100 // part),
        "supervision": lambda: measure_supervision(1),
    }
    found: dict[str, list[Result]] = {name: [] for name in benches}
    for number in range(1, runs + 1):
        for name, measure in benches.items():
            print(f"run {number} of {runs}: {name}", file=sys.stderr)
            found[name].append(measure())
    return found


def as_table(runs: Mapping[str, Sequence[Result]]) -> str:
    """Markdown: what, reach, measured, command."""
    rows = ["| what | reach | measured | command |", "| --- | --- | --- | --- |"]
    for figure in FIGURES:
        measured_text = figure.text.format(**medians(runs[figure.bench]))
        rows.append(f"| {figure.what} | {figure.reach} | {measured_text} | `{figure.command}` |")
    return "\n".join(rows)


def medians(results: Sequence[Result]) -> dict[str, float]:
    """Of each number that the results have."""
    names = [name for name, value in results[0].items() if isinstance(value, int | float)]
    return {name: statistics.median(result[name] for result in results) for name in names}


def machine(load: float, runs: int) -> str:
    """In a sentence, with what else it was doing."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, Redis on the same "
        f"machine; medians of {runs} runs. Load average before: {load:.1f}, after: {os.getloadavg()[0]:.1f} (a quiet "
        "machine shows less than 0.5; each figure is the worse for what ran beside it)."
    )


def with_table(page: Path, table: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with what stands between the two marks replaced."""
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, tail = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page}: the marks {begin} and {end} are not there")
    return f"{head}{begin}\n{table}\n{end}{tail}"


if __name__ == "__main__":
    main()
