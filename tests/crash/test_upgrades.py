"""Deploys with real processes: two versions at once, forward and back, under traffic; and one that is broken."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from examples.upgrade.after import Refunded
from examples.upgrade.before import TILLS, Banked, Paid
from regrow import Client
from tests.conftest import PrivateServer, wait_until
from tests.crash.whole_system import LONG, Service, WholeSystem

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

BEFORE, AFTER = "examples.upgrade.before:tree", "examples.upgrade.after:tree"
BROKEN = "tests.crash.upgrade_broken:tree"
TOO_SLOW = "unreadable_state:reading it took longer than the deadline"
REFUNDS = 5
AGENTS = (*TILLS, "book", "safe")


class Shop(WholeSystem):
    """The example's system, with nodes and watchdogs of either version."""

    def run(self, command: str, tree: str, **more: str) -> Service:
        return self.start(command, sys.executable, "-m", "regrow", command, tree, **more)

    def command(self, *words: str) -> str:
        done = self.start(words[0], sys.executable, "-m", "regrow", *words)
        done.process.wait(LONG)
        assert done.process.returncode == 0, done.said()
        return "\n".join(done.said())

    def retire(self, service: Service) -> None:
        """SIGTERM, and it ends in order."""
        service.send(signal.SIGTERM)
        assert service.process.wait(LONG) == 0

    def state(self, agent: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.agent(agent)["state"])
        return found

    def wait_on(self, node: Service, *agents: str) -> None:
        """Until these run on this node."""

        def there() -> bool:
            records = [self.agent(agent) for agent in agents]
            return all(
                each.get("status") == "running" and each["node"] == self.id_of(node) for each in records
            )

        wait_until(there, f"{agents} run on {self.id_of(node)}", LONG)

    def id_of(self, node: Service) -> str:
        nodes = self.raw.zrange(self.keys.nodes, 0, -1)
        return next(
            (each for each in nodes if self.raw.hget(self.keys.node(each), "pid") == str(node.pid)), ""
        )

    def joined(self, node: Service) -> Service:
        wait_until(lambda: self.id_of(node), "the node joins", LONG)
        return node


class Customers:
    """Payments to every till, numbered without a gap, and now and then somebody at the safe; until told to stop."""

    def __init__(self, url: str) -> None:
        self.paid: Counter[str] = Counter()
        self.visits: list[str] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._pay)
        self._thread.start()

    def _pay(self) -> None:
        with Client(self._url) as client:
            while not self._over.wait(0.004):
                for till in TILLS:
                    client.send(till, Paid(n=self.paid[till] + 1, cents=3))
                    self.paid[till] += 1
                if self.paid[TILLS[0]] % 20 == 0:
                    who = f"visitor-{len(self.visits)}"
                    client.send("safe", Banked(who=who))
                    self.visits.append(who)

    def leave(self) -> None:
        self._over.set()
        self._thread.join(LONG)


@pytest.fixture
def shop(own_server: PrivateServer) -> Iterator[Shop]:
    with Shop.on(own_server, "none") as system:
        assert isinstance(system, Shop)
        yield system


@pytest.fixture
def customers(own_server: PrivateServer) -> Iterator[list[Customers]]:
    """Those of the test; they leave with it."""
    there: list[Customers] = []
    yield there
    for each in there:
        each.leave()


def test_a_rolling_deploy_forward_and_back_loses_nothing(shop: Shop, customers: list[Customers]) -> None:
    old_watchdog, old_node = shop.run("watchdog", BEFORE), shop.run("worker", BEFORE)
    shop.wait_running(*AGENTS)
    customers.append(Customers(shop.server.url))
    [queue] = customers

    # The new version joins. Signals that only it knows are sent while most agents still run on the old one.
    new_node = shop.joined(shop.run("worker", AFTER))
    refunds = [shop.client.send(till, Refunded(cents=1)) for till in TILLS for _ in range(REFUNDS)]
    assert {receipt.wait(LONG).state for receipt in refunds} == {"applied"}
    corrected = len(TILLS) * REFUNDS
    wait_until(lambda: shop.state("book").get("corrections") == corrected, "the book has them", LONG)
    shop.wait_on(new_node, *TILLS, "book")

    # The old one goes.
    new_watchdog = shop.run("watchdog", AFTER)
    shop.retire(old_node)
    shop.retire(old_watchdog)
    shop.wait_on(new_node, *AGENTS, "auditor")
    wait_until(lambda: "visitors" in shop.state("safe"), "the safe's state is of the new schema", LONG)

    # And back: the safe's new state waits for code that reads it, all else goes on.
    old_node = shop.joined(shop.run("worker", BEFORE))
    shop.retire(new_node)
    old_watchdog = shop.run("watchdog", BEFORE)
    shop.retire(new_watchdog)
    assert "removed shop/auditor" in shop.command("rollback", BEFORE)
    shop.wait_on(old_node, *TILLS, "book")
    paid = queue.paid[TILLS[0]]
    wait_until(lambda: shop.state(TILLS[0])["last"] > paid, "the till takes payments", LONG)
    assert shop.state(TILLS[0])["refunds"] == REFUNDS
    assert shop.agent("safe")["status"] == "waiting"
    wait_until(lambda: shop.raw.xlen(shop.keys.mailbox("safe")), "a visitor waits for the safe", LONG)

    # Forward once more.
    new_node = shop.joined(shop.run("worker", AFTER))
    shop.wait_on(new_node, "safe")
    queue.leave()
    wait_until(
        lambda: not any(shop.raw.xlen(shop.keys.mailbox(agent)) for agent in AGENTS), "all is applied", LONG
    )

    for till in TILLS:
        assert shop.state(till)["last"] == queue.paid[till]
        assert shop.state(till)["cents"] == 3 * queue.paid[till] - REFUNDS
    total = sum(queue.paid.values())
    assert shop.state("book") == {"entries": total, "cents": 3 * total - corrected, "corrections": corrected}
    assert shop.state("safe")["visitors"] == queue.visits
    assert [letter for agent in AGENTS for letter in shop.dead(agent)] == []
    ends = Counter(each["reason"] for each in shop.events("exited") if each["agent"] in AGENTS)
    assert ends.keys() == {"drained", "newer_code:shop.refunded", "newer_code:shop.corrected"}
    assert ends["newer_code:shop.refunded"] <= len(TILLS)


def test_an_upcast_that_never_returns_parks_its_agent_until_the_old_code_is_back(shop: Shop) -> None:
    shop.run("watchdog", BEFORE)
    old_node = shop.run("worker", BEFORE)
    shop.wait_running(*AGENTS)
    shop.client.send("safe", Banked(who="ann")).wait(LONG)
    before = shop.agent("safe")["state"]

    broken = shop.joined(shop.run("worker", BROKEN, REGROW_DEADLINE="0.5"))
    shop.retire(old_node)
    wait_until(lambda: shop.agent("safe")["status"] == "parked", "the safe is parked", LONG)

    assert shop.agent("safe")["exit_reason"] == TOO_SLOW
    assert shop.agent("safe")["state"] == before
    shop.wait_on(broken, *TILLS, "book")
    waiting = shop.client.send("safe", Banked(who="bob"))
    shop.joined(shop.run("worker", BEFORE))
    shop.retire(broken)
    assert "safe" in shop.command("revive", "--unreadable")
    assert waiting.wait(LONG).state == "applied"
    assert shop.state("safe") == {"names": "ann bob"}
    reasons = [each["reason"] for each in shop.events("exited")]
    assert [each.partition(" version ")[0] for each in reasons if each != "drained"] == [
        "deadline:reading",
        TOO_SLOW,
    ]
