"""``python -m examples.orders``: orders are placed while processes are killed; then the books must balance.

    python -m examples.orders --kills 200 --seed 7

Everything runs twice (watchdogs, nodes of workers, nodes of effects), and random processes of it are killed with
SIGKILL at random instants. The verdict is computed from Redis and from the bank's own log. Exit code 1 if a cent, a
kettle or a report is missing or there twice.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

from examples.running import Finding, Killer, Running, conclude, running, serving, until
from regrow.errors import FateUnknown

from .app import ENDS, NEW_ORDER, Desk, OrderPlaced, Orders, Warehouse
from .bank import ADDRESS, DECLINED, NOWHERE, Bank, read
from .verdict import Evidence, judge

SERVICES = ("watchdog-1", "watchdog-2", "worker-1", "worker-2", "effects-1", "effects-2")
END_SECONDS = 300.0


def run(*, kills: int, seed: int, pace: float = 0.4) -> list[Finding]:
    """So many kills, ``pace`` seconds from one to the next in the mean, while an order is placed every 0.2 s.

    Each waits until something has been done since the one before: on a slow machine kills would else meet nothing but
    processes that are starting.
    """
    with tempfile.TemporaryDirectory(prefix="regrow-orders-") as folder:
        log = Path(folder) / "bank.jsonl"
        bank = Bank(log, seed=seed)
        with (
            serving(bank.handler) as address,
            running("examples.orders.app:tree", services=SERVICES, environment={ADDRESS: address}) as system,
        ):
            customers = Customers(system, seed)
            customers.start()
            killer = Killer(system, seed)
            while killer.killed.total() < kills and customers.is_alive():
                before = bank.calls
                killer.strike(pace)
                until(partial(bank.called_since, before), "the shop works on", END_SECONDS)
            customers.leave()
            print(f"{customers.placed} orders were placed; killed:", dict(killer.killed))
            until(lambda: has_settled(system, customers.placed), "every order has ended", END_SECONDS)
            findings = [
                Finding(killer.killed.total() == kills, f"{killer.killed.total()} of {kills} kills"),
                *judge(evidence(system, customers.placed, log), customers.placed),
            ]
            print(f"{bank.repeated} calls came again under a key that the bank knew, and changed nothing")
        bank.close()
    return findings


class Customers(threading.Thread):
    """Place one order after the other, and wait while many are under way. Something is wrong with half of them."""

    PACE = 0.2
    MANY = 30

    def __init__(self, system: Running, seed: int) -> None:
        super().__init__(name="customers")
        self._system = system
        self._random = random.Random(f"customers {seed}")
        self._left = threading.Event()
        self._open: list[str] = []
        self.placed = 0

    def run(self) -> None:
        while not self._left.wait(self.PACE):
            self._open = [order for order in self._open if not has_ended(self._system, order)]
            if len(self._open) < self.MANY:
                self._open.append(f"o-{self.placed + 1}")
                self.place(self._open[-1])
                self.placed += 1

    def place(self, order: str) -> None:
        """The same id again changes nothing, so an order whose fate is unknown is placed again."""
        placed = OrderPlaced(
            item=self._random.choice(["kettle"] * 5 + ["lamp"] * 5 + ["globe"]),
            quantity=self._random.randint(1, 3),
            cents=self._random.randint(1_00, 999_99),
            card=self._random.choice(["4111-1111"] * 9 + [DECLINED]),
            address=self._random.choice(["1 High Street"] * 5 + [NOWHERE] * 5),
        )
        while True:
            try:
                self._system.client.send(order, placed, id=order, create=NEW_ORDER)
                return
            except FateUnknown:
                continue

    def leave(self) -> None:
        self._left.set()
        self.join()


def names(placed: int) -> list[str]:
    return [f"o-{number}" for number in range(1, placed + 1)]


def has_ended(system: Running, order: str) -> bool:
    return system.client.state(order, Orders).stage in ENDS


def has_settled(system: Running, placed: int) -> bool:
    return system.is_idle() and all(has_ended(system, order) for order in names(placed))


def evidence(system: Running, placed: int, log: Path) -> Evidence:
    client = system.client
    return Evidence(
        orders={order: client.state(order, Orders) for order in names(placed)},
        shelf=client.state("warehouse", Warehouse),
        reports=client.state("desk", Desk),
        dead_letters=system.dead_letters(),
        open_effects=system.open_effects(),
        bank=read(log),
    )


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--pace", type=float, default=0.4, help="seconds from one kill to the next, in the mean"
    )
    told = options.parse_args()
    return conclude(run(kills=told.kills, seed=told.seed, pace=told.pace))


if __name__ == "__main__":
    sys.exit(main())
