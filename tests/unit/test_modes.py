"""Modes: which handler runs in which, which change is allowed, and what is wrong with a class that says it badly."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest

from regrow import Agent, Emit, Payload, Signal, State, Step, Supervisor, handles
from regrow.errors import BadDefinition, Unhandled, WrongMode
from regrow.testing import Harness


class Opened(Payload, type="order.opened"):
    pass


class Paid(Payload, type="order.paid"):
    cents: int = 0


class Closed(Payload, type="order.closed"):
    pass


class Order(State):
    stage: Literal["draft", "open", "paid", "closed"] = "draft"
    cents: int = 0
    notes: tuple[str, ...] = ()


class Orders(
    Agent[Order],
    name="orders",
    mode_field="stage",
    modes={"draft": ["open"], "open": ["paid", "closed"], "paid": ["closed"]},
):
    @handles(Opened, mode="draft")
    def open(self, order: Order, opened: Opened) -> Step[Order]:
        return order.evolve(stage="open")

    @handles(Paid, mode="open")
    def pay(self, order: Order, paid: Paid) -> Step[Order]:
        return order.evolve(stage="paid", cents=paid.cents), Emit("shipping.due", to="nobody")

    @handles(Closed)
    def close(self, order: Order, closed: Closed) -> Step[Order]:
        return order.evolve(stage="closed")

    @handles("order.*", mode=["paid", "closed"])
    def late(self, order: Order, signal: Signal) -> Step[Order]:
        return order.evolve(notes=(*order.notes, f"late {signal.type}"))

    @handles("note")
    def note(self, order: Order, signal: Signal) -> Step[Order]:
        return order.evolve(notes=(*order.notes, "any"))

    @handles("note", mode="closed")
    def note_closed(self, order: Order, signal: Signal) -> Step[Order]:
        return order.evolve(notes=(*order.notes, "closed"))


def test_the_handler_of_the_mode_runs() -> None:
    order, _ = Orders.cmd(Order(), Opened())
    order, directives = Orders.cmd(order, Paid(cents=5))

    assert (order.stage, order.cents) == ("paid", 5)
    assert directives == [Emit("shipping.due", to="nobody")]
    assert Orders.cmd(order, Paid(cents=7))[0].notes == ("late order.paid",)


def test_of_two_of_one_pattern_the_one_that_names_the_mode_runs() -> None:
    assert Orders.cmd(Order(stage="open"), Signal.of("note"))[0].notes == ("any",)
    assert Orders.cmd(Order(stage="closed"), Signal.of("note"))[0].notes == ("closed",)


def test_a_signal_that_the_mode_does_not_handle_is_told_from_one_that_nobody_does() -> None:
    told = r"stage is 'draft': order.paid is handled in 'open' by Orders.pay\(\)"
    with pytest.raises(WrongMode, match=told):
        Orders.cmd(Order(), Paid())
    with pytest.raises(Unhandled) as never:
        Orders.cmd(Order(), Signal.of("never.heard"))
    assert not isinstance(never.value, WrongMode)


def test_a_change_that_is_not_allowed_is_refused() -> None:
    told = r"Orders.close\(\) changed stage from 'draft' to 'closed'; 'draft' may become open"
    with pytest.raises(WrongMode, match=told):
        Orders.cmd(Order(), Closed())


def orders() -> Harness:
    return Harness(Supervisor("shop", [Orders.child("o-1")]))


def reasons(shop: Harness) -> list[tuple[str, str]]:
    return [(letter["reason"], letter["type"]) for letter in shop.dead_letters("o-1")]


def test_jido_8_transitions_that_do_not_allow_it_leave_mode_and_state_unchanged() -> None:
    shop = orders()
    shop.send("o-1", Closed())
    shop.run()

    assert shop.state("o-1", Orders) == Order()
    assert reasons(shop) == [("wrong_mode", "order.closed")]
    assert shop.status("o-1") == "running" and shop.incarnation("o-1") == 1
    [letter] = shop.dead_letters("o-1")
    assert "'draft' may become open" in letter["error"]


def test_jido_7_a_machine_goes_through_its_modes() -> None:
    shop = orders()
    for what in (Paid(cents=1), Opened(), Opened(), Paid(cents=2), Closed()):
        shop.send("o-1", what)
    shop.run()

    order = shop.state("o-1", Orders)
    assert (order.stage, order.cents) == ("closed", 2)
    wrong = [kind for reason, kind in reasons(shop) if reason == "wrong_mode"]
    assert wrong == ["order.paid", "order.opened"]


class Stage(Enum):
    OFF = "off"
    ON = "on"


class Lamp(State):
    stage: Stage = Stage.OFF


class Lamps(
    Agent[Lamp], name="lamps", mode_field="stage", modes={Stage.OFF: [Stage.ON], Stage.ON: [Stage.OFF]}
):
    @handles("switch", mode=Stage.OFF)
    def switch_on(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        return lamp.evolve(stage=Stage.ON)

    @handles("switch", mode=Stage.ON)
    def switch_off(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        return lamp.evolve(stage=Stage.OFF)


def test_modes_may_be_an_enum() -> None:
    assert Lamps.cmd(Lamp(), Signal.of("switch"))[0].stage is Stage.ON
    assert Lamps.cmd(Lamp(stage=Stage.ON), Signal.of("switch"))[0].stage is Stage.OFF


class Dimmable(Lamps, name="dimmable"):
    @handles("switch", mode="on")
    def keep_on(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        return lamp


def test_a_class_takes_over_modes_and_replaces_handlers_mode_by_mode() -> None:
    assert Dimmable.cmd(Lamp(), Signal.of("switch"))[0].stage is Stage.ON
    assert Dimmable.cmd(Lamp(stage=Stage.ON), Signal.of("switch"))[0].stage is Stage.ON


def define(**words: Any) -> None:
    class Broken(Agent[Order], name="broken", **words):  # pyright: ignore[reportUnusedClass]
        @handles("x", mode="open")
        def x(self, order: Order, signal: Signal) -> Step[Order]:
            return order


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({}, r"Broken.x\(\) names modes; say which field of Order holds the mode"),
        ({"mode_field": "stge"}, "'stge' is no field of Order; did you mean 'stage'"),
        ({"mode_field": "cents"}, "annotate Order.cents with the modes there are"),
        ({"mode_field": "stage", "modes": {"opn": []}}, "modes 'opn' is no mode; did you mean 'open'"),
        (
            {"mode_field": "stage", "modes": {"open": ["pade"]}},
            "modes: 'open' 'pade' is no mode; did you mean 'paid'",
        ),
        ({"mode_field": "stage", "modes": {"open": "paid"}}, "must be a list of modes"),
        ({"mode_field": "stage", "modes": ["open"]}, "must say what may follow"),
        (
            {"mode_field": "stage", "unhandled_in_mode": "drop"},
            "unhandled_in_mode='drop' must be 'dead_letter' or 'postpone'",
        ),
    ],
)
def test_what_is_wrong_with_modes_is_said_when_the_class_is_defined(words: Any, told: str) -> None:
    with pytest.raises(BadDefinition, match=told):
        define(**words)


def test_a_handler_for_a_mode_that_is_none_is_found() -> None:
    with pytest.raises(BadDefinition, match=r"Broken.x\(\): mode 'opne' is no mode; did you mean 'open'"):

        class Broken(Agent[Order], name="broken", mode_field="stage"):  # pyright: ignore[reportUnusedClass]
            @handles("x", mode="opne")
            def x(self, order: Order, signal: Signal) -> Step[Order]:
                return order


def test_two_handlers_of_one_pattern_in_one_mode_are_refused() -> None:
    with pytest.raises(BadDefinition, match="both handle 'x' in mode 'open'"):

        class Broken(Agent[Order], name="broken", mode_field="stage"):  # pyright: ignore[reportUnusedClass]
            @handles("x", mode=["open", "paid"])
            def x(self, order: Order, signal: Signal) -> Step[Order]:
                return order

            @handles("x", mode=["draft", "open"])
            def y(self, order: Order, signal: Signal) -> Step[Order]:
                return order


def test_modes_without_a_field_are_refused() -> None:
    with pytest.raises(BadDefinition, match="modes names modes; say which field"):

        class Broken(Agent[Order], name="broken", modes={"open": ["paid"]}):  # pyright: ignore[reportUnusedClass]
            pass
