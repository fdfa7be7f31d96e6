"""A longer storm: ``python -m benchmarks.watchdog_soak --instants 100 --seed 1``; exit code 1 if anything is wrong.

From a checkout: it drives the processes that the crash tests drive.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time

from tests.crash.supervision_harness import SupervisedSystem
from tests.crash.watchdog_storm import Storm, storm_settings


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--instants", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    began = time.monotonic()
    logs = contextlib.redirect_stdout(sys.stderr)
    with logs, SupervisedSystem.running(nodes=1, **storm_settings()) as system:
        storm = Storm(system, seed=chosen.seed)
        storm.run(chosen.instants)
        wrong = storm.check()
    report = {
        "instants": chosen.instants,
        "seed": chosen.seed,
        "deaths": sum(storm.deaths.values()),
        "seconds": round(time.monotonic() - began, 1),
        "wrong": wrong,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
