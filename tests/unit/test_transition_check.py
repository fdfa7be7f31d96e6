"""``check_transition`` finds each broken promise of a transition, and nothing in an honest one."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from regrow import Agent, Context, Emit, Payload, Reject, State, Step, handles, upcast
from regrow.errors import Unhandled
from regrow.testing import TransitionFaults, check_transition


class Deed(Payload, type="deed"):
    what: str


class Other(Payload, type="other"):
    pass


class Book(State):
    pages: tuple[str, ...] = ()
    notes: list[str] = []  # noqa: RUF012  the mistake that is looked for
    size: float = 0.0


_count = itertools.count()


class Clerk(Agent[Book], name="clerk"):
    @handles(Deed)
    def deed(self, book: Book, deed: Deed, ctx: Context) -> Step[Book]:
        match deed.what:
            case "write":
                return book.evolve(
                    pages=(*book.pages, f"{ctx.now} {ctx.random.random()} {ctx.uuid()}")
                ), Emit(Deed(what="read"), to="reader")
            case "reject":
                raise Reject("not today")
            case "clock":
                return book.evolve(size=time.time())
            case "mutate":
                book.notes.append("x")
                return book.evolve(size=1.0)
            case "differ":
                return book.evolve(size=float(next(_count)))
            case "raise":
                raise ValueError("broken")
            case "nan":
                return book.evolve(size=float("nan"))
            case _:
                return Emit(Deed(what="x" * 300_000), to="reader")


def faults(what: str, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(TransitionFaults) as caught:
        check_transition(Clerk, [Book()], [Deed(what=what)], **options)
    return [(fault.kind, fault.message) for fault in caught.value.faults]


def test_an_honest_transition_passes() -> None:
    states = [Book(), Book(pages=("one",), size=1.5)]

    check_transition(Clerk, states, [Deed(what="write"), Deed(what="reject")])


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("clock", "impure", "time.time()"),
        ("mutate", "impure", "notes"),
        ("differ", "differs", "run again"),
        ("raise", "raises", "ValueError: broken"),
        ("nan", "raises", ""),
        ("huge", "directives", "300"),
    ],
)
def test_each_kind_of_fault_is_found_and_named(what: str, kind: str, words: str) -> None:
    found = faults(what)

    assert [each for each, _ in found] == [kind]
    assert words in found[0][1]


def test_an_exception_may_be_wanted() -> None:
    check_transition(Clerk, [Book()], [Deed(what="raise")], may_raise=ValueError)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(TransitionFaults, match="2 faults in its transition") as caught:
        check_transition(Clerk, [Book()], [Deed(what="clock"), Deed(what="raise")])

    assert "impure: deed on Book(" in str(caught.value)


def test_a_signal_without_a_handler_is_the_tests_mistake() -> None:
    with pytest.raises(Unhandled):
        check_transition(Clerk, [Book()], [Other()])


class Ledger(State, schema=2):
    total: int
    marks: int = 0

    @upcast(1)
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        return {"total": old["sum"], "marks": next(_count) if old.get("odd") else 0}


class Keeper(Agent[Ledger], name="keeper"):
    @handles(Deed)
    def deed(self, ledger: Ledger, _deed: Deed) -> Step[Ledger]:
        if ledger.total < 0:
            raise ValueError("below zero")
        return ledger.evolve(total=ledger.total + 1)


def test_states_of_an_earlier_schema_are_led_here_and_tried() -> None:
    check_transition(
        Keeper, [Ledger(total=1)], [Deed(what="add")], stored=[(1, {"sum": 5}), (2, {"total": 6})]
    )


def test_what_is_wrong_with_a_state_of_an_earlier_schema_is_told() -> None:
    stored: list[tuple[int, dict[str, Any]]] = [(1, {}), (1, {"sum": 1, "odd": True}), (1, {"sum": -1})]

    with pytest.raises(TransitionFaults) as caught:
        check_transition(Keeper, [], [Deed(what="add")], stored=stored)

    told = [(fault.kind, fault.message) for fault in caught.value.faults]
    assert [kind for kind, _ in told] == ["unreadable", "differs", "raises"]
    assert told[0][1] == "@upcast(1), Ledger.from_1() raised KeyError: 'sum'"
    assert "{} of schema 1" in str(caught.value)
