"""Check a supervisor's results against the expectations of scenarios.yaml.

    check.py --json                print the scenarios as JSON, the input of a runner
    check.py --results FILE.json   check a runner's results (format.md)

Options: --scenarios FILE, --only ID[,ID..], --skip-tag TAG (repeatable), --ignore-reports,
--recommended (expect `recommended` where OTP's own behaviour is a quirk).
The last line says: N passed, N failed
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

import yaml

SCENARIOS = Path(__file__).with_name("scenarios.yaml")


def read_scenarios(file: Path = SCENARIOS) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", yaml.safe_load(file.read_text(encoding="utf-8"))["scenarios"])


def question(scenario: dict[str, Any]) -> dict[str, Any]:
    """What a runner is given."""
    return {name: scenario[name] for name in ("id", "sup", "children", "events")}


def expectation(scenario: dict[str, Any], *, recommended: bool = False) -> dict[str, Any]:
    """What a result must be equal to."""
    expect = scenario["expect"]
    expected: dict[str, Any] = {
        "start": {
            "reply": expect["start"],
            "trace": expect["start_trace"],
            "reports": expect.get("start_reports", []),
            "root": expect.get("start_root", "alive"),
        },
        "steps": [
            {
                "trace": step["trace"],
                "reply": step.get("reply"),
                "root": step.get("root", "alive"),
                "reports": step.get("reports", []),
            }
            for step in expect["steps"]
        ],
        "final": expect["final"],
    }
    if recommended and "recommended" in scenario:
        better = scenario["recommended"]
        expected["final"] = better.get("final", expected["final"])
        for step in better.get("steps", []):
            changes = {name: value for name, value in step.items() if name != "step"}
            expected["steps"][step["step"]].update(changes)
    return expected


def problems(expected: dict[str, Any], result: dict[str, Any] | None, *, reports: bool = True) -> list[str]:
    """Every difference, in words; none: passed."""
    if result is None:
        return ["no result"]
    found: list[str] = []

    def same(where: str, want: object, got: object) -> None:
        if want != got:
            found.append(f"{where}\n      expected {json.dumps(want)}\n      got      {json.dumps(got)}")

    fields = ["trace", "reply", "root", *(["reports"] if reports else [])]
    for field in fields:
        same(f"start {field}", expected["start"][field], result["start"].get(field))
    same("number of steps", len(expected["steps"]), len(result["steps"]))
    for number, (want, got) in enumerate(zip(expected["steps"], result["steps"], strict=False)):
        for field in fields:
            same(f"step {number} {field}", want[field], got.get(field))
    same("final", expected["final"], result["final"])
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=Path, default=SCENARIOS)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip-tag", action="append", default=[])
    parser.add_argument("--ignore-reports", action="store_true")
    parser.add_argument("--recommended", action="store_true")
    given = parser.parse_args()
    if not given.json and given.results is None:
        parser.error("--results or --json")
    return given


def main() -> int:
    given = arguments()
    only = {name for name in str(given.only).split(",") if name}
    chosen = [
        scenario
        for scenario in read_scenarios(given.scenarios)
        if (not only or scenario["id"] in only) and not set(given.skip_tag) & set(scenario["tags"])
    ]
    if given.json:
        print(json.dumps([question(scenario) for scenario in chosen], indent=1))
        return 0
    results = {result["id"]: result for result in json.loads(given.results.read_text(encoding="utf-8"))}
    failed = 0
    for scenario in chosen:
        expected = expectation(scenario, recommended=given.recommended)
        bad = problems(expected, results.get(scenario["id"]), reports=not given.ignore_reports)
        if bad:
            failed += 1
            print(f"{scenario['id']} {scenario['title']}", *bad, sep="\n    ")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
