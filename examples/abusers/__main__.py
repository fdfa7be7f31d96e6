"""``python -m examples.abusers``: a table of what every abuser did and met; exit code 1 if anything went wrong."""

from __future__ import annotations

import argparse
import sys

from .abuses import ABUSES
from .run import measure_each, run
from .verdict import Report, each_table, faults, in_all, latencies, table


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--quiet", type=int, default=1200, help="signals to the good agents in quiet, in each round"
    )
    options.add_argument("--rounds", type=int, default=3, help="whole runs, each with a system of its own")
    options.add_argument("--each", action="store_true", help="one abuser after the other: who disturbs most?")
    chosen = options.parse_args()
    if chosen.each:
        print(each_table(measure_each(say=_say)))
        return 0
    reports: list[Report] = []
    wrong: list[str] = []
    for number in range(1, chosen.rounds + 1):
        report = run(quiet=chosen.quiet, say=_say)
        reports.append(report)
        print("", table(ABUSES, report) if number == 1 else latencies(report), sep="\n", flush=True)
        wrong += faults(ABUSES, report)
    print("", in_all(reports), *(wrong or ["everything as it should be"]), sep="\n")
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
