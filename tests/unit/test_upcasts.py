"""``@upcast``: a stored state of an earlier schema is led to the class's, or said to be unreadable."""

# pyright: reportUnusedClass=false, reportUnknownLambdaType=false, reportRedeclaration=false

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from regrow import Agent, State, upcast
from regrow.errors import BadDefinition, BadPayload, UnreadableState
from regrow_workers.state import encode_state, parse_state

Stored = dict[str, Any]


class Queue(State, schema=3):
    """Schema 1 had names in one text, schema 2 a list of names, schema 3 has them with a priority."""

    waiting: tuple[tuple[str, int], ...] = ()
    closed: int = 0

    @upcast(1)
    @staticmethod
    def split_names(old: Stored) -> Stored:
        old["waiting"] = old.pop("names").split()
        return old

    @upcast(2)
    @classmethod
    def with_priority(cls, old: Stored) -> Stored:
        return {**old, "waiting": [(name, cls.default_priority()) for name in old["waiting"]]}

    @staticmethod
    def default_priority() -> int:
        return 5


# Leading here.


def test_a_chain_of_steps_leads_to_the_class_schema() -> None:
    assert parse_state(Queue, '{"names":"ann bob","closed":2}', 1) == Queue(
        waiting=(("ann", 5), ("bob", 5)), closed=2
    )
    assert parse_state(Queue, '{"waiting":["ann"]}', 2) == Queue(waiting=(("ann", 5),))
    assert parse_state(Queue, '{"waiting":[["ann",1]]}', 3) == Queue(waiting=(("ann", 1),))
    assert parse_state(Queue, '{"waiting":[["ann",1]]}') == Queue(waiting=(("ann", 1),))


def test_from_stored_reads_as_a_worker_does() -> None:
    assert Queue.from_stored({"names": "ann"}, schema=1) == Queue(waiting=(("ann", 5),))


def test_the_dict_that_was_given_to_from_stored_is_left_as_it_is() -> None:
    stored = {"names": "ann", "closed": 1}

    Queue.from_stored(stored, schema=1)

    assert stored == {"names": "ann", "closed": 1}


def test_what_is_led_here_can_be_stored() -> None:
    state = Queue.from_stored({"names": "ann"}, schema=1)

    assert parse_state(Queue, encode_state(state)) == state


def test_a_subclass_has_the_schema_and_the_steps_of_its_base() -> None:
    class Long(Queue):
        note: str = ""

    class Longer(Queue, schema=4):
        note: str

        @upcast(3)
        @staticmethod
        def add_note(old: Stored) -> Stored:
            return {**old, "note": "none"}

    assert Long.from_stored({"names": "ann"}, schema=1).waiting == (("ann", 5),)
    assert Longer.from_stored({"names": "ann"}, schema=1) == Longer(waiting=(("ann", 5),), note="none")


def test_an_agent_class_reads_under_its_own_guard() -> None:
    class Impure(State, schema=2):
        @upcast(1)
        @staticmethod
        def stamp(old: Stored) -> Stored:
            time.time()
            return old

    class Strict(Agent[Impure], name="strict", guard="enforce"):
        pass

    class Lax(Agent[Impure], name="lax", guard="off"):
        pass

    assert Lax.parse_state("{}", 1) == Impure()
    with pytest.raises(UnreadableState, match=r"@upcast\(1\)"):
        Strict.parse_state("{}", 1)


# Unreadable.


def failing(step: Callable[[Stored], Any]) -> type[State]:
    class Failing(State, schema=2):
        open: int = 0

        @upcast(1)
        @staticmethod
        def step_1(old: Stored) -> Stored:
            found: Stored = step(old)
            return found

    return Failing


def by_chance(old: Stored) -> Stored:
    return {**old, "open": random.randrange(9)}


def missing_key(old: Stored) -> Stored:
    return {"open": old["opened"]}


FAILURES: list[tuple[Callable[[Stored], Any], str]] = [
    (missing_key, r"@upcast\(1\), Failing.step_1\(\) raised KeyError: 'opened'"),
    (lambda _: None, r"returned NoneType; it must return the dict of schema 2"),
    (lambda _: [1], r"returned list"),
    (lambda _: {"open": float("nan")}, "not strict JSON"),
    (lambda _: {"open": object()}, "not strict JSON"),
    (lambda _: {1: 2}, "not strict JSON"),
    (lambda _: {"open": "many"}, "stored state does not fit Failing: open"),
    (by_chance, r"randrange\(\) in an upcast is refused; a step computes from the stored state alone"),
]


@pytest.mark.parametrize(("step", "told"), FAILURES)
def test_a_step_that_fails_says_how(step: Callable[[Stored], Any], told: str) -> None:
    with pytest.raises(UnreadableState, match=told):
        failing(step).from_stored({"open": 1}, schema=1)


@pytest.mark.parametrize("text", ["", "junk", "[]", "null", "3", '{"open":NaN}'])
def test_junk_of_an_earlier_schema_is_unreadable_and_reaches_no_step(text: str) -> None:
    def never(_: Stored) -> Stored:
        raise AssertionError

    with pytest.raises(UnreadableState, match="stored state"):
        parse_state(failing(never), text, 1)


def test_a_step_that_was_taken_away_leaves_older_states_unreadable() -> None:
    class Recent(State, schema=3):
        @upcast(2)
        @staticmethod
        def from_2(old: Stored) -> Stored:
            return old

    with pytest.raises(UnreadableState, match=r"schema 1, and Recent has no step @upcast\(1\)"):
        parse_state(Recent, "{}", 1)


def test_a_later_schema_is_not_read() -> None:
    with pytest.raises(UnreadableState, match="schema 4, newer than this code: Queue is of schema 3"):
        parse_state(Queue, "{}", 4)


def test_unreadable_is_a_kind_of_bad_payload() -> None:
    assert issubclass(UnreadableState, BadPayload)


# Definitions.


@pytest.mark.parametrize("schema", [0, -1, True, "1", 1.0, None])
def test_a_step_names_the_schema_that_it_leads_from(schema: Any) -> None:
    with pytest.raises(BadDefinition, match="whole number of 1 or more"):
        upcast(schema)


@pytest.mark.parametrize(("schema", "steps", "gap"), [(2, [], 1), (5, [], 4), (4, [1, 3], 2), (4, [1, 2], 3)])
def test_a_gap_in_the_chain_is_refused(schema: int, steps: list[int], gap: int) -> None:
    body = {f"from_{step}": staticmethod(upcast(step)(_step(f"Gappy.from_{step}"))) for step in steps}

    told = rf"nothing leads from schema {gap} to {gap + 1}: add a step @upcast\({gap}\)"
    with pytest.raises(BadDefinition, match=told):
        defined("Gappy", body, schema)


def defined(name: str, body: dict[str, Any], schema: int) -> Any:
    """What a class statement does."""
    make_class: Any = getattr(State, "__class__")  # noqa: B009
    return make_class(name, (State,), {"__module__": __name__, "__qualname__": name, **body}, schema=schema)


def _step(qualname: str) -> Callable[[Stored], Stored]:
    def step(old: Stored) -> Stored:
        return old

    step.__qualname__, step.__name__ = qualname, qualname.rpartition(".")[2]
    return step


def test_a_step_beyond_the_schema_is_refused() -> None:
    with pytest.raises(
        BadDefinition, match=r"@upcast\(2\) leads to schema 3, but the class is schema=2; .*schema=3"
    ):

        class Beyond(State, schema=2):
            @upcast(1)
            @staticmethod
            def from_1(old: Stored) -> Stored:
                return old

            @upcast(2)
            @staticmethod
            def from_2(old: Stored) -> Stored:
                return old


def test_a_step_without_a_raised_schema_is_refused() -> None:
    with pytest.raises(BadDefinition, match="schema=2"):

        class Forgotten(State):
            @upcast(1)
            @staticmethod
            def from_1(old: Stored) -> Stored:
                return old


def test_two_steps_from_one_schema_are_refused() -> None:
    with pytest.raises(BadDefinition, match=r"from_1 and again are both @upcast\(1\)"):

        class Twice(State, schema=2):
            @upcast(1)
            @staticmethod
            def from_1(old: Stored) -> Stored:
                return old

            @upcast(1)
            @staticmethod
            def again(old: Stored) -> Stored:
                return old


def test_two_steps_of_one_name_are_refused() -> None:
    with pytest.raises(BadDefinition, match=r"step, marked @upcast\(1\), is defined again below"):

        class Lost(State, schema=3):
            @upcast(1)
            @staticmethod
            def step(old: Stored) -> Stored:
                return old

            @upcast(2)  # type: ignore[no-redef]
            @staticmethod
            def step(old: Stored) -> Stored:  # noqa: F811
                return old


def test_one_method_is_one_step() -> None:
    with pytest.raises(BadDefinition, match="marked by @upcast twice"):

        class Both(State, schema=3):
            @upcast(2)
            @upcast(1)
            @staticmethod
            def step(old: Stored) -> Stored:
                return old


def test_a_plain_method_is_refused() -> None:
    with pytest.raises(BadDefinition, match=r"put @staticmethod right below @upcast\(1\)"):

        class Plain(State, schema=2):
            @upcast(1)
            def from_1(self, old: Stored) -> Stored:
                return old


def no_argument() -> Stored:
    return {}


def two_arguments(old: Stored, more: Stored) -> Stored:
    return {**old, **more}


def by_name(*, old: Stored) -> Stored:
    return old


@pytest.mark.parametrize("step", [no_argument, two_arguments, by_name])
def test_a_wrong_arity_is_refused(step: Any) -> None:
    step.__name__, step.__qualname__ = "from_1", "Narrow.from_1"

    with pytest.raises(BadDefinition, match=r"must take one argument, the stored state of schema 1"):
        defined("Narrow", {"from_1": staticmethod(upcast(1)(step))}, 2)


def test_an_async_step_is_refused() -> None:
    with pytest.raises(BadDefinition, match="neither async nor a generator"):

        class Waiting(State, schema=2):
            @upcast(1)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
            @staticmethod
            async def from_1(old: Stored) -> Stored:
                return old


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(BadDefinition, match="not int objects"):
        upcast(1)(3)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


def test_a_changed_step_is_changed_code() -> None:
    def code_of(closed: int) -> str:
        class Desk(State, schema=2):
            @upcast(1)
            @staticmethod
            def from_1(old: Stored) -> Stored:
                return {**old, "closed": closed}

        class Support(Agent[Desk], name="support"):
            pass

        return Support.definition.code

    class Desk(State, schema=2):
        @upcast(1)
        @staticmethod
        def from_1(old: Stored) -> Stored:
            return {**old, "open": 1}

    class Support(Agent[Desk], name="support"):
        pass

    assert code_of(1) == code_of(1)
    assert code_of(1) != Support.definition.code
