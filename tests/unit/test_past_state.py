"""An agent's state at an earlier version, from its journal."""

from __future__ import annotations

import json

import pytest

from regrow import Agent, Payload, Signal, State, Step, Supervisor, handles
from regrow.errors import BadInput
from regrow.past_state import PastState, past_state
from regrow.testing import Harness
from regrow_signals import views


class Add(Payload, type="past.add"):
    n: int


class Sum(State):
    total: int = 0


class Adder(Agent[Sum], name="past-adder"):
    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        return state.evolve(total=state.total + add.n)

    @handles("past.look")
    def look(self, state: Sum, signal: Signal) -> Step[Sum]:
        return None


@pytest.fixture
def tree() -> Harness:
    """Versions 1 and 2 in commits of their own, 3, 4 and 5 in one; 5 changes nothing."""
    tree = Harness(Supervisor("past", [Adder.child("a", init={"total": 1})]))
    for n in (1, 2):
        tree.send("a", Add(n=n))
        tree.run()
    tree.send("a", Add(n=3))
    tree.send("a", Add(n=4))
    tree.send("a", "past.look")
    tree.run()
    return tree


def at(tree: Harness, version: int) -> PastState:
    lines = tree.client.connection.command(views.journal(tree.client.keys, "a"))
    return past_state("a", tree.record("a"), [line for _, line in lines], version)


def total(tree: Harness, version: int) -> int:
    return int(json.loads(at(tree, version).state)["total"])


def test_the_state_at_the_end_of_each_commit_is_there(tree: Harness) -> None:
    assert [total(tree, version) for version in (0, 1, 2, 5)] == [1, 2, 4, 11]
    assert at(tree, 2).line["type"] == "past.add"


def test_inside_a_commit_it_is_known_where_nothing_changed_up_to_a_kept_one(tree: Harness) -> None:
    assert total(tree, 4) == 11


def test_else_the_nearest_kept_versions_are_named(tree: Harness) -> None:
    with pytest.raises(BadInput, match=r"version 3 lies inside a commit.* nearest are 2 and 5"):
        at(tree, 3)


def test_versions_that_never_were_or_are_gone_are_told(tree: Harness) -> None:
    with pytest.raises(BadInput, match="it is at version 5"):
        at(tree, 6)
    with pytest.raises(BadInput, match="not in its journal any more; it reaches back to version 7"):
        past_state("a", {"version": "9", "state": "{}"}, [{"version": "7", "state": "{}"}], 3)


def test_what_a_journal_that_was_emptied_holds_is_said() -> None:
    with pytest.raises(BadInput, match="it is empty"):
        past_state("a", {"version": "9"}, [], 3)
