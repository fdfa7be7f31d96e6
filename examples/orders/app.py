"""One agent for each order, a warehouse, and a desk where people look at what no program can settle.

    new ─> reserving ─> charging ─> shipping ─> shipped
               │            │           └─> refunding ─> refunded
               │            │                  ├─> refund in doubt   reported, never repeated
               │            │                  └─> stuck             reported
               │            └─> declined       (goods released)
               └─> sold out

What the provider answers is a result, also if it says no. An exception says that nothing is known: what honours an
idempotency key (``charge_order``, ``ship``) is then tried again, under the same key; what does not (``refund``) is not.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regrow import (
    Agent,
    Context,
    Done,
    EffectContext,
    Emit,
    Failed,
    InDoubt,
    Payload,
    State,
    Step,
    Supervisor,
    effect,
    handles,
)
from regrow.errors import FateUnknown

from . import bank

Stage = Literal[
    "new", "reserving", "sold out", "charging", "declined", "shipping", "shipped",
    "refunding", "refunded", "refund in doubt", "stuck",
]  # fmt: skip

ENDS: tuple[Stage, ...] = ("sold out", "declined", "shipped", "refunded", "refund in doubt", "stuck")

STOCK = {"kettle": 100_000, "lamp": 100_000, "globe": 3}


class OrderPlaced(Payload, type="order.placed"):
    item: str
    quantity: int
    cents: int
    card: str
    address: str


class Reserve(Payload, type="warehouse.reserve"):
    order: str
    item: str
    quantity: int


class Release(Payload, type="warehouse.release"):
    order: str


class Reserved(Payload, type="warehouse.reserved"):
    in_stock: bool


class Report(Payload, type="desk.report"):
    order: str
    cents: int
    what: str


class Answer(Payload):
    """Of a provider. ``accepted``: a no is an answer, too."""

    accepted: bool
    number: str = ""


@effect(timeout=10, retries=20, backoff=0.1)
def charge_order(run: EffectContext, order: str, cents: int, card: str) -> Answer:
    """The bank knows ``run.id`` again, so a second try charges nothing."""
    return Answer(**bank.post("charge", key=run.id, order=order, cents=cents, card=card))


@effect(timeout=10, retries=20, backoff=0.1)
def ship(run: EffectContext, order: str, address: str) -> Answer:
    """So does the carrier."""
    return Answer(**bank.post("parcel", key=run.id, order=order, address=address))


@effect(timeout=10, idempotent=False)
def refund(_run: EffectContext, order: str, payment: str, cents: int) -> Answer:
    """The bank pays back as often as it is asked to. If it was asked and did not answer, that is in doubt, too."""
    try:
        return Answer(**bank.post("refund", order=order, payment=payment, cents=cents))
    except TimeoutError as error:
        raise FateUnknown("asked to refund, the bank did not answer") from error


class Order(State):
    stage: Stage = "new"
    cents: int = 0
    card: str = ""
    address: str = ""
    payment: str = ""


class Orders(
    Agent[Order],
    name="order",
    mode_field="stage",
    modes={
        "new": ["reserving"],
        "reserving": ["charging", "sold out"],
        "charging": ["shipping", "declined", "stuck"],
        "shipping": ["shipped", "refunding", "stuck"],
        "refunding": ["refunded", "refund in doubt", "stuck"],
    },
):
    @handles(OrderPlaced, mode="new")
    def placed(self, order: Order, placed: OrderPlaced, ctx: Context) -> Step[Order]:
        after = order.evolve(stage="reserving", cents=placed.cents, card=placed.card, address=placed.address)
        wanted = Reserve(order=ctx.agent_id, item=placed.item, quantity=placed.quantity)
        return after, Emit(wanted, to="warehouse")

    @handles(Reserved, mode="reserving")
    def reserved(self, order: Order, reserved: Reserved, ctx: Context) -> Step[Order]:
        if not reserved.in_stock:
            return order.evolve(stage="sold out")
        return order.evolve(stage="charging"), charge_order.run(ctx.agent_id, order.cents, order.card)

    @handles(charge_order.done, mode="charging")
    def charged(self, order: Order, done: Done[Answer], ctx: Context) -> Step[Order]:
        if not done.result.accepted:
            return order.evolve(stage="declined"), released(ctx)
        after = order.evolve(stage="shipping", payment=done.result.number)
        return after, ship.run(ctx.agent_id, order.address)

    @handles(ship.done, mode="shipping")
    def shipped(self, order: Order, done: Done[Answer], ctx: Context) -> Step[Order]:
        if done.result.accepted:
            return order.evolve(stage="shipped")
        after = order.evolve(stage="refunding")
        return after, [released(ctx), refund.run(ctx.agent_id, order.payment, order.cents)]

    @handles(refund.done, mode="refunding")
    def refunded(self, order: Order, done: Done[Answer], ctx: Context) -> Step[Order]:
        if not done.result.accepted:
            return order.evolve(stage="stuck"), reported(order, ctx, "the bank refused to refund")
        return order.evolve(stage="refunded")

    @handles(refund.in_doubt, mode="refunding")
    def refund_in_doubt(self, order: Order, _doubt: InDoubt, ctx: Context) -> Step[Order]:
        return order.evolve(stage="refund in doubt"), reported(order, ctx, "refunded or not?")

    @handles(charge_order.failed, ship.failed, refund.failed, mode=["charging", "shipping", "refunding"])
    def failed(self, order: Order, failed: Failed, ctx: Context) -> Step[Order]:
        return order.evolve(stage="stuck"), reported(order, ctx, failed.error)


def released(ctx: Context) -> Emit:
    return Emit(Release(order=ctx.agent_id), to="warehouse")


def reported(order: Order, ctx: Context, what: str) -> Emit:
    return Emit(Report(order=ctx.agent_id, cents=order.cents, what=what), to="desk")


class Shelf(State):
    stock: dict[str, int] = STOCK
    reserved: dict[str, tuple[str, int]] = Field(default_factory=dict)


class Warehouse(Agent[Shelf], name="warehouse"):
    """Every signal is applied once, so counting is all it takes."""

    @handles(Reserve)
    def reserve(self, shelf: Shelf, wanted: Reserve) -> Step[Shelf]:
        left = shelf.stock.get(wanted.item, 0) - wanted.quantity
        if left < 0:
            return Emit(Reserved(in_stock=False), to=wanted.order)
        after = shelf.evolve(
            stock={**shelf.stock, wanted.item: left},
            reserved={**shelf.reserved, wanted.order: (wanted.item, wanted.quantity)},
        )
        return after, Emit(Reserved(in_stock=True), to=wanted.order)

    @handles(Release)
    def release(self, shelf: Shelf, given_back: Release) -> Step[Shelf]:
        item, quantity = shelf.reserved[given_back.order]
        return shelf.evolve(
            stock={**shelf.stock, item: shelf.stock[item] + quantity},
            reserved={order: what for order, what in shelf.reserved.items() if order != given_back.order},
        )


class Reports(State):
    open: tuple[Report, ...] = ()


class Desk(Agent[Reports], name="desk"):
    @handles(Report)
    def report(self, reports: Reports, report: Report) -> Step[Reports]:
        return reports.evolve(open=(*reports.open, report))


# The kills of `python -m examples.orders` are no fault of the tree: it must not give up over them.
tree = Supervisor(
    "shop",
    [
        Warehouse.child("warehouse"),
        Desk.child("desk"),
        Supervisor("orders", strategy="dynamic", agents=[Orders], max_restarts=1000),
    ],
    max_restarts=1000,
)

NEW_ORDER = Orders.child(under="shop/orders", isolation="pool")
"""``client.send("o-17", OrderPlaced(...), create=NEW_ORDER)``"""
