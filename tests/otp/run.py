"""Drive regrow's own decision through supervision scenarios, with simulated children and a virtual clock.

    python tests/otp/run.py SCENARIOS.json > results.json      (format.md; check.py --json makes the input)

No rule of supervision stands here. The simulation knows how processes behave (simulation.py), the run feeds what
happens to ``decide`` and writes down what it orders.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for room in (".", "signals", "workers", "supervisor"):
    sys.path.insert(0, str(ROOT / room))

from tests.otp.simulation import Simulation  # noqa: E402  (the rooms must be on the path first)


def run(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result of one scenario, in format.md's form."""
    simulation = Simulation(scenario)
    start = simulation.begin()
    steps = [simulation.step(event) for event in scenario["events"]]
    return {"id": scenario["id"], "start": start, "steps": steps, "final": simulation.final()}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    scenarios = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps([run(scenario) for scenario in scenarios], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
