"""Limits said by a type, by a child, or left to a setting: the nearest word counts, wherever the agent runs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, cast

import pytest

from regrow import Agent, Payload, State, Step, Supervisor, handles
from regrow.testing import Harness
from regrow_signals.errors import BadDefinition, MailboxFull
from regrow_signals.limits import Limits
from regrow_supervisor.spec import child_definition
from regrow_workers.agent_limits import LIMITS, OF_A_PROCESS

SAID: dict[str, Any] = {
    "guard": "off",
    "deadline": 30.0,
    "max_memory": 64 << 20,
    "max_processes": 0,
    "max_state": 200,
    "max_mailbox": 3,
    "max_attempts": 4,
    "max_kills": 5,
    "max_signals": 6,
    "max_growth": 7 << 20,
}


class Grown(Payload, type="limits.grown"):
    to: int


class Looked(Payload, type="limits.looked"):
    pass


class Note(State):
    text: str = ""
    at: float = 0


class Plain(Agent[Note], name="limits-plain"):
    @handles(Grown)
    def grown(self, note: Note, grown: Grown) -> Step[Note]:
        return note.evolve(text="x" * grown.to)

    @handles(Looked)
    def looked(self, note: Note, looked: Looked) -> Step[Note]:
        return note.evolve(at=time.time())


class Strict(Plain, name="limits-strict", guard="enforce", max_state=100, max_memory="64MiB", deadline=2):
    pass


class Stricter(Strict, name="limits-stricter", deadline=timedelta(seconds=1)):
    pass


def limits_of(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in LIMITS if getattr(spec, name) is not None}


def test_a_type_speaks_for_its_children_and_a_child_for_itself() -> None:
    assert limits_of(Plain.child("a")) == {}
    own = {"guard": "enforce", "max_state": 100, "max_memory": 64 << 20, "deadline": 2.0}
    assert limits_of(Strict.child("a")) == own
    assert limits_of(Strict.child("a", max_state="1KiB", guard="off")) == {
        **own,
        "max_state": 1024,
        "guard": "off",
    }


def test_a_type_inherits_what_it_does_not_say() -> None:
    assert limits_of(Stricter.child("a")) == {**limits_of(Strict.child("a")), "deadline": 1.0}


def test_every_limit_can_be_said_in_both_places_and_is_stored_with_the_child() -> None:
    whole: type[Plain] = cast("Any", type)("Whole", (Plain,), {}, name="limits-whole", **SAID)
    by_type = child_definition(whole.child("a"))["start"]
    by_child = child_definition(Plain.child("a", **SAID))["start"]

    assert set(SAID) == set(LIMITS)
    assert by_type == {**by_child, "type": "limits-whole"}
    stored = {**SAID, "deadline_ms": 30_000}
    del stored["deadline"]
    assert stored.items() <= by_type.items()


@pytest.mark.parametrize("name", sorted(OF_A_PROCESS))
def test_a_pooled_child_may_not_say_the_limits_of_a_process_and_its_types_do_not_count_for_it(
    name: str,
) -> None:
    said: dict[str, Any] = {name: 5}
    with pytest.raises(BadDefinition, match=f"child 'a': {name}: a pooled agent has no process of its own"):
        Plain.child("a", isolation="pool", **said)

    whole: type[Plain] = cast("Any", type)("Whole", (Plain,), {}, name=f"limits-{name}", **said)
    moved = whole.child("a").with_(isolation="pool")
    assert getattr(whole.child("a"), name) == 5
    assert getattr(whole.child("a", isolation="pool"), name) is None
    assert getattr(moved, name) is None and moved.named("b").isolation == "pool"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"deadline": 0}, "X: deadline=0"),
        ({"max_state": "much"}, "X: max_state='much'"),
        ({"max_attempts": 0}, "X: max_attempts: 0 must be a whole number of 1 or more"),
        ({"max_memry": 1}, "X: unknown keyword 'max_memry'; there are name, aliases, .*, max_memory"),
    ],
)
def test_a_type_whose_limit_makes_no_sense_is_refused_when_it_is_defined(
    words: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadDefinition, match=message):
        type("X", (Plain,), {}, name="limits-x", **words)


def test_a_child_may_be_guarded_otherwise_than_its_brother_and_its_type() -> None:
    children = [Plain.child("a"), Plain.child("lax", guard="off"), Strict.child("b", guard="warn")]
    tree = Harness(Supervisor("guarded", children))
    for agent in ("a", "lax", "b"):
        tree.send(agent, Looked())
    tree.run()

    assert "time.time()" in tree.dead_letters("a")[0]["error"]
    assert tree.dead_letters("lax") == tree.dead_letters("b") == []
    assert tree.state("lax", Plain).at > 0


def test_a_child_may_have_a_larger_or_smaller_state_than_others() -> None:
    children = [Plain.child("a"), Plain.child("small", max_state=60), Plain.child("large", max_state="1KiB")]
    tree = Harness(Supervisor("sizes", children), limits=Limits(max_state_bytes=200))
    for agent, size in (("a", 300), ("small", 100), ("large", 900), ("large", 1200)):
        tree.send(agent, Grown(to=size))
    tree.run()

    letters = {
        agent: [each["reason"] for each in tree.dead_letters(agent)] for agent in ("a", "small", "large")
    }
    assert list(letters.values()) == [["state_too_large"]] * 3
    assert (len(tree.state("large", Plain).text), tree.incarnation("large")) == (900, 1)


def test_what_a_child_says_stands_in_its_record_and_a_new_word_counts_from_its_next_start() -> None:
    tree = Harness(Supervisor("crowd", strategy="dynamic", agents=[Plain]))
    tree.client.start_child("crowd", Plain.child("a", max_mailbox=1, max_attempts=3))
    tree.client.terminate_child("crowd", "a")
    tree.send("a", Grown(to=1))
    with pytest.raises(MailboxFull):
        tree.send("a", Grown(to=2))

    tree.client.start_child("crowd", Plain.child("a", max_mailbox=2, max_state=90, guard="warn"))
    names = ("max_mailbox", "max_attempts", "max_kills", "max_state", "guard")
    assert [tree.record("a")[name] for name in names] == ["2", "", "", "90", "warn"]
