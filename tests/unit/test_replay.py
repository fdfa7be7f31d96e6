"""A journal run again: the same code comes to the same, other code is found at the version where it differs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from regrow import (
    Agent,
    Context,
    Emit,
    Payload,
    Reject,
    Reply,
    Signal,
    State,
    Step,
    Supervisor,
    handles,
    upcast,
)
from regrow.testing import Harness
from regrow_signals import views
from regrow_signals.limits import Limits
from regrow_workers.replay import Replayed, replay


class Add(Payload, type="add"):
    by: int


class Sum(State):
    total: int = 0
    seen: tuple[str, ...] = ()


class Adder(Agent[Sum], name="adder"):
    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        if add.by < 0:
            raise Reject("only upwards")
        return state.evolve(total=state.total + add.by), Emit("added", state.total, to="adder")

    @handles("added")
    def added(self, state: Sum, signal: Signal) -> Step[Sum]:
        return None

    @handles("look")
    def look(self, state: Sum, signal: Signal, ctx: Context) -> Step[Sum]:
        about = (
            ctx.now.isoformat(), ctx.uuid().hex, str(ctx.random.random()), str(signal.subject), str(signal.source),
            str(signal.extensions), str(ctx.reply_to), str(signal.hops), str(signal.traceparent), ctx.agent_id,
        )  # fmt: skip
        return state.evolve(seen=about), Reply(1, to=ctx.reply_to)

    @handles("crash")
    def crash(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise RuntimeError("told to")


class Changed(Agent[Sum], name="changed"):
    """Other code: it counts double from ten on, and emits to somebody else."""

    to: ClassVar = "adder"

    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        if add.by < 0:
            raise Reject("only upwards")
        more = 2 * add.by if add.by >= 10 else add.by
        return state.evolve(total=state.total + more), Emit("added", state.total, to=self.to)

    @handles("added")
    def added(self, state: Sum, signal: Signal) -> Step[Sum]:
        return None


class Elsewhere(Changed, name="elsewhere"):
    to: ClassVar = "other"

    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        return state.evolve(total=state.total + add.by), Emit("added", state.total, to=self.to)


def lived(*signals: Payload | str, **options: Any) -> Harness:
    tree = Harness(Supervisor("t", [Adder.child("adder", **options)]))
    for number, signal in enumerate(signals):
        tree.send("adder", signal, id=f"s-{number}")
        tree.run()
    return tree


def lines_of(tree: Harness) -> list[dict[str, str]]:
    return [
        line
        for _, line in tree.client.connection.command(views.journal(tree.client.keys, "adder", count=1000))
    ]


def again(
    tree: Harness, kind: type[Agent[Any]], lines: Sequence[dict[str, str]] | None = None, **options: Any
) -> Replayed:
    return replay(
        kind, tree.record("adder"), lines_of(tree) if lines is None else lines, agent="adder", **options
    )


def test_the_same_code_comes_to_the_same() -> None:
    tree = lived(Add(by=1), Add(by=-1), "crash", "nobody.handles.this", Add(by=2))
    found = tree.replay("adder")

    assert (found.differs_at, found.rerun) == (None, len(found.steps)) == (None, 7)
    assert [step.again for step in found.steps] == [
        "applied", "unchanged", "rejected", "exception", "unhandled", "applied", "unchanged",
    ]  # fmt: skip
    assert found.steps[0].changes() == {"total": (0, 1)}
    assert found.steps[0].directives == [{"emit": "added", "to": "adder"}]
    assert (found.steps[-2].before, found.steps[-2].after) == (
        '{"total":1,"seen":[]}',
        '{"total":3,"seen":[]}',
    )


def test_all_that_a_handler_can_see_is_as_it_was() -> None:
    tree = lived(init={"total": 5})
    tree.advance(3600)
    tree.send("adder", Signal.of("look", id="s-1", subject="s", source="web", extensions={"a": 1, "b": True}))
    tree.run()
    assert tree.client.ask("adder", "look", id="s-2") == 1

    found = tree.replay("adder")
    assert (found.differs_at, found.rerun) == (None, 2)
    assert json.loads(found.steps[0].after or "")["seen"][3:6] == ["s", "web", "{'a': 1, 'b': True}"]


def test_other_code_is_found_at_the_version_where_it_differs() -> None:
    tree = lived(Add(by=1), Add(by=10), Add(by=2))
    found = again(tree, Changed)

    assert found.differs_at == 3
    [step] = [step for step in found.steps if step.differs]
    assert (step.version, step.outcome, step.again, step.differs) == (3, "applied", "applied", ("state",))
    assert step.changes() == {"total": (1, 21)}


def test_other_directives_and_outcomes_are_found() -> None:
    tree = lived(Add(by=1), Add(by=-1))
    found = again(tree, Elsewhere)

    assert [step.differs for step in found.steps] == [("directives",), (), ("outcome", "state", "directives")]
    assert (found.steps[2].outcome, found.steps[2].again) == ("rejected", "applied")


def test_code_that_crashes_now_is_told_with_its_error() -> None:
    tree = lived("look")
    found = again(tree, Changed)

    assert found.differs_at == 1
    assert (found.steps[0].again, "no handler for 'look'" in found.steps[0].error) == ("unhandled", True)


def test_versions_can_be_chosen() -> None:
    tree = lived(Add(by=1), Add(by=2), Add(by=3))

    assert [step.version for step in again(tree, Adder, first=3, last=4).steps] == [3, 4]
    assert again(tree, Changed, first=7).steps == []


def test_a_journal_that_does_not_reach_back_begins_at_its_first_whole_state() -> None:
    tree = lived(Add(by=1), Add(by=2), Add(by=3))
    lines = lines_of(tree)[1:]
    without = [{name: text for name, text in lines[0].items() if name != "state"}, *lines[1:]]

    assert [step.again for step in again(tree, Adder, lines).steps][:2] == [None, "applied"]
    found = again(tree, Adder, without)
    assert [step.again for step in found.steps][:3] == [None, None, "unchanged"]
    assert "does not reach back" in found.steps[0].why
    assert found.differs_at is None


def test_a_signal_that_is_too_large_is_not_kept_and_the_replay_goes_on_after_it() -> None:
    tree = lived(Add(by=1))
    tree.send("adder", "look", "x" * 20_000, id="large")
    tree.send("adder", Add(by=2), id="s-2")
    tree.run()

    assert "data" not in lines_of(tree)[2] and lines_of(tree)[2]["signal"] == "large"
    found = tree.replay("adder")
    large, after = found.steps[2:4]
    assert (large.again, large.outcome, found.differs_at) == (None, "applied", None)
    assert "its signal is not in the journal" in large.why
    # In the same commit the state after it is not kept: the next whole one is gone on from.
    assert after.again is None and "could not be run again" in after.why
    tree.send("adder", Add(by=4), id="s-3")
    tree.run()
    assert tree.replay("adder").steps[-1].again == "unchanged"
    assert tree.replay("adder").steps[-2].again == "applied"


def test_a_large_signal_that_changed_nothing_is_passed_over() -> None:
    tree = lived(Add(by=1))
    tree.send("adder", "added", "x" * 20_000, id="large")
    tree.send("adder", Add(by=2), id="s-2")
    tree.run()

    found = tree.replay("adder")
    assert [step.again for step in found.steps] == ["applied", "unchanged", None, "applied", "unchanged"]


def test_lines_of_an_earlier_release_have_no_signal_and_are_passed_over() -> None:
    tree = lived(Add(by=1), Add(by=2))
    old = [{name: text for name, text in line.items() if name != "data"} for line in lines_of(tree)]

    found = again(tree, Adder, old)
    assert (found.rerun, found.differs_at) == (0, None)


def test_a_life_that_began_anew_is_recognised() -> None:
    tree = lived(Add(by=1), Add(by=2), resume="fresh")
    tree.kill("adder")
    tree.run()
    tree.send("adder", Add(by=5), id="s-9")
    tree.run()

    assert tree.state("adder", Adder).total == 5
    found = tree.replay("adder")
    assert (found.differs_at, found.rerun) == (None, 6)


def test_impure_code_is_found() -> None:
    counter = iter(range(100))

    class Impure(Agent[Sum], name="impure"):
        @handles(Add)
        def add(self, state: Sum, add: Add) -> Step[Sum]:
            return state.evolve(total=next(counter))

    tree = Harness(Supervisor("t", [Impure.child("adder")]))
    for number in range(3):
        tree.send("adder", Add(by=1), id=f"s-{number}")
        tree.run()

    assert tree.replay("adder").differs_at == 1


def test_states_of_an_earlier_schema_are_led_here_and_not_compared_by_their_digest() -> None:
    class Wider(State, schema=2):
        total: int = 0
        seen: tuple[str, ...] = ()
        unit: str = "piece"

        @upcast(1)
        @staticmethod
        def with_unit(stored: dict[str, Any]) -> dict[str, Any]:
            return {**stored, "unit": "box"}

    class Newer(Agent[Wider], name="adder2"):
        @handles(Add)
        def add(self, state: Wider, add: Add) -> Step[Wider]:
            return state.evolve(total=state.total + add.by), Emit("added", state.total, to="adder")

        @handles("added")
        def added(self, state: Wider, signal: Signal) -> Step[Wider]:
            return None

    tree = lived(Add(by=1), Add(by=2))
    found = again(tree, Newer)

    assert (found.differs_at, found.rerun) == (None, 4)
    assert json.loads(found.steps[-1].after or "") == {"total": 3, "seen": [], "unit": "box"}


class Wider(Sum):
    noted: tuple[str, ...] = ()


class Grown(Agent[Wider], name="grown"):
    """A field with a default was added, as a deploy may do at any time."""

    @handles(Add)
    def add(self, state: Wider, add: Add) -> Step[Wider]:
        if add.by < 0:
            raise Reject("only upwards")
        return state.evolve(total=state.total + self.factor * add.by), Emit("added", state.total, to="adder")

    @handles("added")
    def added(self, state: Wider, signal: Signal) -> Step[Wider]:
        return None

    factor: ClassVar = 1


class GrownOtherwise(Grown, name="grown-otherwise"):
    factor: ClassVar = 2


def test_a_field_with_a_default_is_no_difference_and_hides_none() -> None:
    tree = lived(Add(by=1), Add(by=10), Add(by=-2), Add(by=2))

    found = again(tree, Grown)
    assert (found.differs_at, found.rerun) == (None, len(found.steps)) == (None, 7)
    assert again(tree, GrownOtherwise).differs_at == 1


def test_a_state_that_cannot_be_read_is_told() -> None:
    tree = lived(Add(by=1), Add(by=2))
    lines = lines_of(tree)
    lines[1]["state"] = '{"total": "x"}'

    found = again(tree, Adder, lines)
    assert found.steps[2].again is None and "cannot be read" in found.steps[2].why
    assert found.steps[3].again == "unchanged"


def test_a_journal_of_strangers_text_is_read_without_failing() -> None:
    tree = lived(Add(by=1))
    lines = [{"x": "y"}, {**lines_of(tree)[0], "version": "many", "at_ms": "soon"}]

    assert [step.version for step in again(tree, Adder, lines).steps] == [0, 0]


@pytest.mark.parametrize("count", [3, 250])
def test_many_transitions_in_few_commits(count: int) -> None:
    tree = Harness(Supervisor("t", [Adder.child("adder")]), limits=Limits(journal_entries=1000))
    for number in range(count):
        tree.send("adder", Add(by=number), id=f"s-{number}")
    tree.run()

    found = tree.replay("adder")
    assert (found.differs_at, found.rerun) == (None, 2 * count)
