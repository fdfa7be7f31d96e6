"""State: evolve validates, the stored form is strict JSON, other versions' fields are dropped or kept."""

# pyright: reportUnusedClass=false, reportUnusedFunction=false
# (classes that must be refused are defined for that alone)
from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr, computed_field, field_validator, model_validator

from regrow_signals.errors import BadDefinition, BadInput, BadPayload, NotStrictJSON, TooLarge
from regrow_workers.state import State, changed_fields, encode_state, parse_state
from regrow_workers.upcasts import upcast


class Address(BaseModel):
    city: str = ""


class Desk(State):
    open: int = Field(default=0, ge=0)
    names: tuple[str, ...] = ()
    ratio: float = 0.0
    notes: list[str] = Field(default_factory=list[str])
    home: Address = Address()


class Loose(State):
    value: Any = None


class Newer(State, schema=3):
    open: int = 0

    @upcast(2)
    @staticmethod
    def from_2(old: dict[str, Any]) -> dict[str, Any]:
        return old


def test_evolve_gives_a_copy_and_leaves_the_original() -> None:
    desk = Desk(open=1, names=("a",))

    other = desk.evolve(open=2, names=("a", "b"))

    assert (desk.open, desk.names) == (1, ("a",))
    assert (other.open, other.names) == (2, ("a", "b"))
    assert other == Desk(open=2, names=("a", "b"))


def test_evolve_without_changes_is_an_equal_copy() -> None:
    desk = Desk(open=1)

    assert desk.evolve() == desk
    assert desk.evolve() is not desk


def test_evolve_coerces_as_the_constructor_does() -> None:
    assert Desk().evolve(ratio=3).ratio == 3.0
    assert Desk().evolve(names=["a"]).names == ("a",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"open": -1}, "open: .*greater than or equal to 0"),
        ({"open": "many"}, "open: .*valid integer"),
        ({"open": None}, "open: "),
        ({"ratio": float("nan")}, "ratio: .*finite"),
        ({"ratio": float("inf")}, "ratio: .*finite"),
        ({"names": (1,)}, "names.0: .*valid string"),
        ({"home": {"city": 5}}, "home.city: "),
        ({"opne": 1}, "no field 'opne'; did you mean 'open'"),
        ({"open": 1, "zzzzz": 1}, "no field 'zzzzz'; there are: home, names"),
    ],
)
def test_evolve_refuses_and_names_the_field(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadPayload, match=told):
        Desk().evolve(**changes)


def test_a_refusal_does_not_quote_the_value() -> None:
    with pytest.raises(BadPayload) as refused:
        Desk().evolve(open="hunter2-secret")

    assert "hunter2" not in str(refused.value)


def test_field_validators_run_in_evolve() -> None:
    class Upper(State):
        name: str = ""

        @field_validator("name")
        @classmethod
        def upper(cls, value: str) -> str:
            return value.upper()

    assert Upper().evolve(name="a").name == "A"


class Span(State):
    first: int = 0
    last: int = 10

    @model_validator(mode="after")
    def in_order(self) -> Span:
        if self.first > self.last:
            raise ValueError("first must not be after last")
        return self


def test_model_validators_see_all_changes_at_once() -> None:
    assert Span().evolve(first=20, last=30) == Span(first=20, last=30)
    with pytest.raises(BadPayload, match="first must not be after last"):
        Span().evolve(first=20)
    with pytest.raises(BadPayload, match="did you mean 'first'"):
        Span().evolve(firts=1)


def test_state_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Desk().open = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_unknown_field_in_the_constructor_is_refused() -> None:
    with pytest.raises(ValueError, match="opne"):
        Desk(opne=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    "state",
    [
        Desk(),
        Desk(
            open=3, names=("ü", "\u0000", "NaN", "Infinity"), ratio=1.5, notes=["x"], home=Address(city="Ω")
        ),
        Desk(open=2**64, ratio=-0.0),
        Desk(open=130775545883395173, ratio=5e-324),
        Loose(value=[]),
        Loose(value={}),
        Loose(value=None),
        Loose(value={"a": [1, {"b": []}], "n": 2**53 + 1}),
        Loose(value="NaN"),
        Loose(value="x" * 10_000),
        Loose(value="1" * 10_000),
        Loose(value=10**4299),
    ],
)
def test_stored_form_reads_back_equal(state: State) -> None:
    text = encode_state(state)

    assert parse_state(type(state), text) == state
    assert encode_state(parse_state(type(state), text)) == text


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        {"deep": [float("nan")]},
        "\ud800",
        ["\udfff"],
        [10**4300],
        nested(64),
        nested(500),
        nested(100_000),
        object(),
        {1.5: object()},
    ],
)
def test_what_is_not_strict_json_is_refused(value: Any) -> None:
    with pytest.raises(NotStrictJSON, match="Loose"):
        encode_state(Loose(value=value))


def test_depth_up_to_the_bound_is_stored() -> None:
    state = Loose(value=nested(63))

    assert parse_state(Loose, encode_state(state)) == state


def test_a_list_that_was_filled_with_nan_behind_our_back_is_refused() -> None:
    class Numbers(State):
        all: list[float] = Field(default_factory=list[float])

    state = Numbers()
    state.all.append(float("nan"))

    with pytest.raises(NotStrictJSON):
        encode_state(state)


class Measured(BaseModel):
    value: float = 0.0
    more: Any = None


class Lab(State):
    last: Measured = Measured()
    all: dict[str, Measured] = Field(default_factory=dict[str, Measured])


@pytest.mark.parametrize(
    "state",
    [
        Lab(last=Measured(value=float("inf"))),
        Lab(last=Measured(more=float("nan"))),
        Lab(last=Measured(more=[{"x": (float("-inf"),)}])),
        Lab(all={"a": Measured(value=float("nan"))}),
        Loose(value={"a": [Measured(value=float("inf"))]}),
    ],
)
def test_nan_inside_another_model_is_refused_not_written_as_null(state: State) -> None:
    with pytest.raises(NotStrictJSON, match="is no JSON number"):
        encode_state(state)


def test_too_large_names_both_figures() -> None:
    with pytest.raises(TooLarge, match=r"Desk is 1,0\d\d bytes as JSON; max_state is 1,000"):
        encode_state(Desk(names=("x" * 980,)), max_bytes=1_000)


def test_size_is_counted_in_bytes_of_utf8() -> None:
    encode_state(Loose(value="x" * 40), max_bytes=60)
    with pytest.raises(TooLarge):
        encode_state(Loose(value="ü" * 40), max_bytes=60)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"open": "x"}', '{"open": NaN}', '"\ud800"', '{"open": -1}']
)
def test_stored_junk_is_refused_with_the_class(text: str) -> None:
    with pytest.raises(BadInput, match="Desk"):
        parse_state(Desk, text)


def test_missing_fields_take_their_defaults() -> None:
    assert parse_state(Desk, '{"open": 4}') == Desk(open=4)


def test_fields_of_newer_code_are_kept_and_written_back() -> None:
    state = parse_state(Newer, '{"open": 1, "colour": ["red"]}', 3)

    later = state.evolve(open=2)

    assert later.open == 2
    assert encode_state(later) == '{"open":2,"colour":["red"]}'


def test_fields_that_an_upcast_leaves_in_are_kept_too() -> None:
    assert encode_state(parse_state(Newer, '{"open":1,"colour":"red"}', 2)) == '{"open":1,"colour":"red"}'


class Small(BaseModel, extra="forbid"):
    x: int


class Large(BaseModel, extra="forbid"):
    x: int
    y: int = 0


class Either(State):
    which: Small | Large


@pytest.mark.parametrize("which", [Small(x=1), Large(x=1), Large(x=1, y=2)])
def test_a_union_of_models_is_read_as_what_it_was(which: Small | Large) -> None:
    state = Either(which=which)

    assert encode_state(parse_state(Either, encode_state(state))) == encode_state(state)


def test_kept_fields_survive_an_evolve_with_a_model_validator() -> None:
    assert (
        encode_state(parse_state(Span, '{"first":1,"last":2,"new":3}').evolve(first=2))
        == '{"first":2,"last":2,"new":3}'
    )


def test_richer_types_have_a_stored_form() -> None:
    class Rich(State):
        at: datetime
        price: Decimal = Decimal("1.10")
        tags: frozenset[str] = frozenset()

    state = Rich(at=datetime(2026, 1, 2, tzinfo=UTC), tags=frozenset({"a"}))

    assert parse_state(Rich, encode_state(state)) == state


def test_changed_fields_are_named() -> None:
    assert changed_fields('{"a":1,"b":[1],"c":2}', '{"a":1,"b":[1,2],"d":2}') == ["b", "c", "d"]


@pytest.mark.parametrize("schema", [0, -1, "2", True, 1.5, None])
def test_bad_schema_number_is_refused(schema: Any) -> None:
    with pytest.raises(BadDefinition, match="schema="):

        class Bad(State, schema=schema):
            pass


def test_private_attributes_would_be_lost_and_are_refused() -> None:
    with pytest.raises(BadDefinition, match=r"_cache.*make it a field"):

        class Bad(State):
            _cache: dict[str, int] = PrivateAttr(default_factory=dict)


def test_fields_that_would_not_be_stored_are_refused() -> None:
    with pytest.raises(BadDefinition, match="'hidden' is excluded"):

        class Hiding(State):
            hidden: int = Field(default=0, exclude=True)

    with pytest.raises(BadDefinition, match="computed field 'double'"):

        class Computing(State):
            n: int = 0

            @computed_field  # type: ignore[prop-decorator]
            @property
            def double(self) -> int:
                return self.n * 2


def test_a_field_with_an_alias_is_stored_under_its_name() -> None:
    class Named(State):
        count: int = Field(default=0, alias="c")

    state = parse_state(Named, '{"count":3}')

    assert encode_state(state) == '{"count":3}'
    assert encode_state(state.evolve(count=4)) == '{"count":4}'
    assert parse_state(Named, '{"c":3}') == state


class Inner(BaseModel, serialize_by_alias=True):
    count: int = Field(default=0, validation_alias="c", serialization_alias="d")


def test_aliases_in_inner_models_do_not_matter_either() -> None:
    class Outer(State):
        inner: Inner = Inner()

    state = Outer(inner=Inner.model_validate({"c": 3}))

    assert encode_state(state) == '{"inner":{"count":3}}'
    assert parse_state(Outer, encode_state(state)) == state


def test_a_frozen_field_stays_as_it_is() -> None:
    class Fixed(State):
        name: str = Field(default="a", frozen=True)
        n: int = 0

    assert Fixed().evolve(n=1).n == 1
    with pytest.raises(BadPayload, match="name: "):
        Fixed().evolve(name="b")


def test_frozen_and_forbid_cannot_be_turned_off() -> None:
    with pytest.raises(BadDefinition, match="frozen"):

        class Thawed(State, frozen=False):
            pass

    with pytest.raises(BadDefinition, match="forbid"):

        class Open(State, extra="allow"):
            pass


def test_defaults_are_checked() -> None:
    class Bad(State):
        open: int = Field(default=-1, ge=0)

    with pytest.raises(ValueError, match="open"):
        Bad()


def test_a_class_has_the_schema_of_its_base_unless_it_says_otherwise() -> None:
    class Derived(Newer):
        more: int = 0

    assert (Desk.__regrow_schema__, Newer.__regrow_schema__, Derived.__regrow_schema__) == (1, 3, 3)
