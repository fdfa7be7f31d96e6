"""``python -m examples.abusers``: a table of what every abuser did and met; exit code 1 if anything went wrong."""

from __future__ import annotations

import argparse
import sys

from .abuses import ABUSES
from .run import run
from .verdict import faults, table


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--quiet", type=int, default=2000, help="signals to the good agents before the abuse"
    )
    report = run(quiet=options.parse_args().quiet, say=lambda line: print(line, flush=True))
    print("", table(ABUSES, report), sep="\n")
    wrong = faults(ABUSES, report)
    print("", *(wrong or ["everything as it should be"]), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
