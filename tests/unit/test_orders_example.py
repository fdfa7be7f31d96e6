"""The order saga: its transitions, the way of an order through the whole shop, and who judges the books."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.orders import bank
from examples.orders.app import (
    NEW_ORDER,
    STOCK,
    Answer,
    Desk,
    Order,
    OrderPlaced,
    Orders,
    Release,
    Report,
    Reports,
    Reserved,
    Shelf,
    Stage,
    Warehouse,
    charge_order,
    refund,
    ship,
    tree,
)
from examples.orders.bank import DECLINED, Bank, Line
from examples.orders.verdict import Evidence, judge
from regrow import Context, Emit, Signal
from regrow.errors import WrongMode
from regrow.testing import Harness

YES, NO = Answer(accepted=True, number="n-1"), Answer(accepted=False)
PLACED = OrderPlaced(item="lamp", quantity=2, cents=19_99, card="4111-1111", address="1 High Street")


def context(signal: Any) -> Context:
    return Context.example(Signal.of(signal), agent_id="o-1")


@pytest.mark.parametrize(
    ("stage", "signal", "after", "directives"),
    [
        ("reserving", Reserved(in_stock=True), "charging", [charge_order.run("o-1", 19_99, "4111-1111")]),
        ("reserving", Reserved(in_stock=False), "sold out", []),
        ("charging", charge_order.done(effect="e", result=YES), "shipping", [ship.run("o-1", "1 High Street")]),
        (
            "charging", charge_order.done(effect="e", result=NO), "declined",
            [Emit(Release(order="o-1"), to="warehouse")],
        ),
        ("shipping", ship.done(effect="e", result=YES), "shipped", []),
        (
            "shipping", ship.done(effect="e", result=NO), "refunding",
            [Emit(Release(order="o-1"), to="warehouse"), refund.run("o-1", "", 19_99)],
        ),
        ("refunding", refund.done(effect="e", result=YES), "refunded", []),
        (
            "refunding", refund.in_doubt(effect="e", attempts=1), "refund in doubt",
            [Emit(Report(order="o-1", cents=19_99, what="refunded or not?"), to="desk")],
        ),
        (
            "refunding", refund.failed(effect="e", error="time-out", attempts=1), "stuck",
            [Emit(Report(order="o-1", cents=19_99, what="time-out"), to="desk")],
        ),
    ],
)  # fmt: skip
def test_each_answer_leads_an_order_on(
    stage: Stage, signal: Any, after: Stage, directives: list[Any]
) -> None:
    order = Order(stage=stage, cents=19_99, card="4111-1111", address="1 High Street")

    found, asked = Orders.cmd(order, signal, ctx=context(signal))

    assert (found.stage, asked) == (after, directives)


def test_an_order_that_has_ended_takes_nothing() -> None:
    with pytest.raises(WrongMode):
        Orders.cmd(Order(stage="shipped"), charge_order.done(effect="e", result=YES))


@pytest.mark.parametrize("killed", ["o-1", "warehouse", "desk"])
def test_a_parcel_that_cannot_be_sent_is_refunded_or_reported_and_its_goods_come_back(
    harness: type[Harness], killed: str
) -> None:
    shop = harness(tree)
    shop.kill("warehouse", at="before_commit")
    shop.client.send("o-1", PLACED, id="o-1", create=NEW_ORDER)
    shop.run()
    shop.kill(killed, at="before_commit")
    for answer in (YES, NO):
        shop.complete(shop.effects("o-1")[0], answer)
        shop.run()

    [doubtful] = shop.effects("o-1")
    assert doubtful.name == "refund"
    shop.crash(doubtful)
    shop.run()

    assert shop.state("o-1", Orders).stage == "refund in doubt"
    assert shop.state("desk", Desk).open == (Report(order="o-1", cents=19_99, what="refunded or not?"),)
    assert shop.state("warehouse", Warehouse) == Shelf()
    assert shop.effects() == []


def test_a_bank_that_is_asked_to_refund_and_does_not_answer_is_a_doubt(
    harness: type[Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(bank, "post", silent)
    shop = harness(tree)
    shop.client.send("o-1", PLACED, create=NEW_ORDER)
    shop.run()
    for answer in (YES, NO):
        shop.complete(shop.effects("o-1")[0], answer)
        shop.run()

    assert shop.run_effects() == 1
    shop.run()

    assert shop.state("o-1", Orders).stage == "refund in doubt"


def test_bank_does_once_what_it_is_asked_for_under_one_key_and_pays_back_as_often_as_it_is_asked(
    tmp_path: Path,
) -> None:
    log = tmp_path / "bank.jsonl"
    stub = Bank(log, slow=0, flaky=10**9)

    first = stub.called("charge", "k-1", {"order": "o-1", "cents": 5})
    assert stub.called("charge", "k-1", {"order": "o-1", "cents": 5}) == first
    assert stub.called("charge", "k-2", {"order": "o-2", "cents": 5, "card": DECLINED})[1] == {
        "accepted": False
    }
    for _ in range(2):
        stub.called("refund", "", {"order": "o-1", "cents": 5})
    stub.close()

    assert bank.read(log) == [Line("charge", "o-1", 5), Line("refund", "o-1", 5), Line("refund", "o-1", 5)]
    assert stub.repeated == 1


GOOD = Evidence(
    orders={
        "o-1": Order(stage="shipped", cents=500),
        "o-2": Order(stage="refunded", cents=70),
        "o-3": Order(stage="refund in doubt", cents=9),
        "o-4": Order(stage="declined", cents=1),
    },
    shelf=Shelf(stock={**STOCK, "lamp": STOCK["lamp"] - 2}, reserved={"o-1": ("lamp", 2)}),
    reports=Reports(open=(Report(order="o-3", cents=9, what="refunded or not?"),)),
    dead_letters=[],
    open_effects=0,
    bank=[
        *(Line("charge", order, cents) for order, cents in (("o-1", 500), ("o-2", 70), ("o-3", 9))),
        Line("parcel", "o-1"),
        Line("refund", "o-2", 70),
    ],
)  # fmt: skip


def failing(found: Evidence, placed: int = 4) -> list[str]:
    return [finding.text for finding in judge(found, placed) if not finding.holds]


def test_books_balance_whether_or_not_a_doubtful_refund_took_place() -> None:
    assert failing(GOOD) == []
    assert failing(replace(GOOD, bank=[*GOOD.bank, Line("refund", "o-3", 9)])) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bank": [*GOOD.bank, Line("refund", "o-2", 70)]}, "no refund was repeated, but: o-2"),
        ({"bank": [*GOOD.bank, Line("charge", "o-1", 500)]}, "what its agent says, but: o-1"),
        ({"bank": GOOD.bank[:-1]}, "what its agent says, but: o-2"),
        ({"bank": [Line("charge", "o-1", 499), *GOOD.bank[1:]]}, "the bank holds 5.08: 5.00 of shipped orders"),
        ({"bank": [*GOOD.bank, Line("parcel", "o-4")]}, "what its agent says, but: o-4"),
        ({"reports": Reports()}, "1 doubtful refunds, each reported"),
        ({"shelf": Shelf()}, "the goods of 1 shipped orders"),
        ({"shelf": Shelf(reserved={"o-1": ("lamp", 2)})}, "the goods of 1 shipped orders"),
        ({"dead_letters": ["o-1: order.placed: max_kills"]}, "no dead letter, but: o-1: order.placed: max_kills"),
        ({"open_effects": 1}, "1 effects left"),
        ({"orders": {**GOOD.orders, "o-4": Order(stage="charging")}}, "4 of 4 orders have ended"),
    ],
)  # fmt: skip
def test_verdict_finds_what_does_not_balance(changes: dict[str, Any], says: str) -> None:
    assert any(says in text for text in failing(replace(GOOD, **changes)))


def test_verdict_misses_an_order() -> None:
    assert any("4 of 5 orders" in text for text in failing(GOOD, placed=5))
