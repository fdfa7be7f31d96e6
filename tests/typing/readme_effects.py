"""The README's program with an effect, word for word: it must type-check under ``mypy --strict`` and pyright strict."""

# fmt: off
# ruff: noqa
from regrow import Agent, Done, EffectContext, Failed, InDoubt, Payload, State, Step, Supervisor, effect, handles

class Receipt(Payload):
    number: str

class OrderPlaced(Payload, type="order.placed"):
    order: str
    cents: int

@effect(timeout=30, idempotent=False)                       # never repeated: after a crash in it, in doubt
def charge(run: EffectContext, order: str, cents: int) -> Receipt:
    return Receipt(number=f"{order}-{run.id}")              # run.id is the same on every try: the idempotency key

class Order(State):
    stage: str = "new"

class Orders(Agent[Order], name="orders"):
    @handles(OrderPlaced)
    def placed(self, order: Order, placed: OrderPlaced) -> Step[Order]:
        return order.evolve(stage="charging"), charge.run(placed.order, placed.cents)

    @handles(charge.done)
    def charged(self, order: Order, done: Done[Receipt]) -> Step[Order]:
        return order.evolve(stage=f"paid: {done.result.number}")

    @handles(charge.failed)
    def refused(self, order: Order, failed: Failed) -> Step[Order]:
        return order.evolve(stage=f"unpaid: {failed.error}")

    @handles(charge.in_doubt)
    def unknown(self, order: Order, doubt: InDoubt) -> Step[Order]:
        return order.evolve(stage="ask the bank")

tree = Supervisor("shop", [Orders.child("orders")])
