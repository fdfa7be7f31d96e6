"""``python -m examples.fleet``: runs the fleet and watches; exit code 1 if anything was lost, doubled or misplaced."""

from __future__ import annotations

import argparse
import sys

from .run import run
from .verdict import faults, summary


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--devices", type=int, default=10_000)
    options.add_argument("--readings", type=int, default=10, help="of each device (10)")
    options.add_argument("--seconds", type=float, default=120.0, help="send for so long at most (120)")
    options.add_argument(
        "--kill-every", type=float, default=0.0, help="seconds between two kills of a slot (none)"
    )
    told = options.parse_args()
    report = run(
        devices=told.devices, readings=told.readings, seconds=told.seconds, kill_every=told.kill_every
    )
    print("", *summary(report), sep="\n")
    wrong = faults(report)
    print("", *(wrong[:20] or ["nothing lost, nothing doubled, nothing out of order"]), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
