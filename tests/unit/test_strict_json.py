"""Strict JSON: value out equals value in, or a clean refusal."""

from __future__ import annotations

import enum
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrow_signals.errors import NotStrictJSON, TooLarge
from regrow_signals.strict_json import canonical, check, digest, dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_goes_in_comes_out_equal(value: Any) -> None:
    text = dumps(value)
    assert loads(text) == value
    assert json.loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    "value",
    [2**53 + 1, 2**64, -(2**64), 130775545883395173, -0.0, 1e-400, 5e-324,
     1.7976931348623157e308, [], {}, None, "\0", 10**4299],
    ids=itertools.count(),
)  # fmt: skip
def test_values_at_the_edge_survive(value: Any) -> None:
    back = loads(dumps(value))
    assert back == value and type(back) is type(value)
    assert not isinstance(value, float) or math.copysign(1, back) == math.copysign(1, value)


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, [1, {"a": math.nan}], "\ud800", {"\udcff": 1}, {1: 2}, {None: 1}, {(1,): 2}, {1, 2},
     b"x", object(), Colour.RED, 10**4300, 1 + 2j],
    ids=itertools.count(),
)  # fmt: skip
def test_values_that_json_has_no_word_for_are_refused(value: Any) -> None:
    with pytest.raises(NotStrictJSON, match="data"):
        dumps(value)


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", '{"a":[1e999]}', "9" * 400 + "e0", "1" * 5000,
     '"\\ud800"', '"\\udc00x"',
     '"\x01"', "[1,]", "01", "+1", ".5", "1.", "", " ", "[]{}", '"abc', "nul", "{1:2}", "{'a':1}", "[" * 200_000,
     "\ud800", '"\ud800"', "\ufeff1"],
    ids=itertools.count(),
)  # fmt: skip
def test_text_that_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(NotStrictJSON):
        loads(text)


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(NotStrictJSON):
        loads(b'"\xff\xfe"')


def test_depth_is_bounded_both_ways() -> None:
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    assert loads(dumps(deep)) == deep

    with pytest.raises(NotStrictJSON, match="deeper than 64"):
        dumps([deep])
    with pytest.raises(NotStrictJSON, match="deeper than 64"):
        loads("[" * 65 + "]" * 65)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert loads("[" + ",".join(["[]"] * 1000) + "]") == [[]] * 1000
    assert loads('"' + "[" * 1000 + '"') == "[" * 1000


def test_a_loop_ends_as_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotStrictJSON, match="deeper"):
        dumps(loop)
    with pytest.raises(NotStrictJSON, match="deeper"):
        canonical(loop)


def test_size_is_counted_in_bytes_and_both_figures_are_named() -> None:
    assert dumps("ü", max_bytes=4) == '"ü"'
    with pytest.raises(TooLarge, match="ticket is 4 bytes of JSON; 3 is the bound"):
        dumps("ü", max_bytes=3, what="ticket")
    with pytest.raises(TooLarge):
        check('"ü"', max_bytes=3)


def test_a_key_given_twice_is_refused_on_request() -> None:
    assert loads('{"a":1,"a":2}') == {"a": 2}
    with pytest.raises(NotStrictJSON, match="'a' stands twice"):
        loads('[{"a":1,"a":2}]', unique_keys=True)
    assert loads('{"a":{"a":1}}', unique_keys=True) == {"a": {"a": 1}}


def test_tuples_are_arrays_and_numbers_in_text_are_left_alone() -> None:
    assert dumps((1, (2,))) == "[1,[2]]"
    assert loads('"1e400"') == "1e400"


@given(VALUES)
def test_equal_values_share_a_digest_whatever_the_order_of_keys(value: Any) -> None:
    assert digest({"a": value, "b": 1}) == digest({"b": 1, "a": value})
    assert digest({"a": value}) != digest({"a": [value]})


def test_canonical_sorts_keys() -> None:
    assert (
        canonical({"b": [1, 2.5], "a": {"z": None, "y": "ü"}})
        == '{"a":{"y":"ü","z":null},"b":[1,2.5]}'.encode()
    )
