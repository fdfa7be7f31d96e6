"""How many small trees a second ``regrow.testing.Harness`` gets through: ``python -m benchmarks.harness``.

A case is what a user's test is: a tree of two agents is started, a signal is sent, both apply one, the state is looked
at. Processor time is given beside the rate, for that does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from regrow import Agent, Emit, Payload, State, Step, Supervisor, handles
from regrow.testing import Harness


class Opened(Payload, type="bench.opened"):
    subject: str


class Due(Payload, type="bench.due"):
    subject: str


class Desk(State):
    open: int = 0


class Support(Agent[Desk], name="bench-support"):
    @handles(Opened)
    def opened(self, desk: Desk, ticket: Opened) -> Step[Desk]:
        return desk.evolve(open=desk.open + 1), Emit(Due(subject=ticket.subject), to="billing")


class Invoices(State):
    due: tuple[str, ...] = ()


class Billing(Agent[Invoices], name="bench-billing"):
    @handles(Due)
    def due(self, state: Invoices, invoice: Due) -> Step[Invoices]:
        return state.evolve(due=(*state.due, invoice.subject))


tree = Supervisor("helpdesk", [Support.child("support"), Billing.child("billing")])


def one_case() -> None:
    """Raises AssertionError where the tree did not do its work."""
    harness = Harness(tree)
    harness.send("support", Opened(subject="printer on fire"))
    harness.run()
    assert harness.state("billing", Billing).due == ("printer on fire",)


def measure_harness(cases: int = 300) -> dict[str, Any]:
    """The first cases, in which everything is compiled and imported, do not count."""
    for _ in range(5):
        one_case()
    walls: list[float] = []
    began = time.process_time()
    for _ in range(cases):
        at = time.perf_counter()
        one_case()
        walls.append(time.perf_counter() - at)
    used = (time.process_time() - began) / cases
    return {
        "what": "a tree of two agents started, one signal through both",
        "cases": cases,
        "per_second": round(cases / sum(walls)),
        "per_processor_second": round(1 / used),
        "cpu_ms": round(1000 * used, 2),
        "median_ms": round(1000 * statistics.median(walls), 2),
    }


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--cases", type=int, default=300)
    sys.stdout.write(json.dumps(measure_harness(options.parse_args().cases), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
