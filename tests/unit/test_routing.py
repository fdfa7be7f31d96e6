"""The matcher: which patterns fit, which wins."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regrow_signals.errors import BadTypeName
from regrow_signals.routing import Pattern, RouteTable, matches

FITS = [
    ("a", "a"),
    ("a.b", "a.b"),
    ("*", "a"),
    ("a.*", "a.b"),
    ("*.b", "a.b"),
    ("*.*", "a.b"),
    ("**", "a"),
    ("**", "a.b.c"),
    ("a.**", "a"),
    ("a.**", "a.b"),
    ("a.**", "a.b.c.d"),
    ("**.c", "c"),
    ("**.c", "a.b.c"),
    ("a.**.c", "a.c"),
    ("a.**.c", "a.b.b.c"),
    ("a.**.c.**", "a.c"),
    ("a.**.c.**", "a.b.c.c.d"),
    ("**.b.**", "a.b.c"),
    ("**.a.**.a.**", "a.a"),
    ("*.**", "a"),
    ("**.*", "a.b"),
    ("a.*.**.d", "a.b.c.d"),
    ("a.*.**.d", "a.b.d"),
    ("**.**", "a"),
    ("order-1.x_y", "order-1.x_y"),
]
DOES_NOT_FIT = [
    ("a", "b"),
    ("a", "a.b"),
    ("a.b", "a"),
    ("*", "a.b"),
    ("a.*", "a"),
    ("a.*", "a.b.c"),
    ("*.*", "a"),
    ("*.b", "b"),
    ("a.**", "b.a"),
    ("a.**", "ab"),
    ("**.c", "a.c.b"),
    ("a.**.c", "a.b"),
    ("a.*.**.d", "a.d"),
    ("**.a.**.a.**", "a"),
    ("*.**.*", "a"),
    ("A", "a"),
    ("ticket.*", "tickets.opened"),
]
BAD = ["", ".", "a.", ".a", "a..b", "a b", "a.*b", "***", "a.b*", "ü", "a\n", "a/b", "x" * 201]
MORE_SPECIFIC = [
    ("a.b", "a.*"),
    ("a.b", "*.b"),
    ("a.*", "a.**"),
    ("a", "a.**"),
    ("*", "**"),
    ("a.*", "*.a"),
    ("*.b", "a.**"),
    ("a.b.**", "a.**"),
    ("**.x.y", "*.**"),
    ("a.*.**", "a.**"),
    ("*.*", "*.**"),
]


@pytest.mark.parametrize(("pattern", "type_name"), FITS)
def test_pattern_fits(pattern: str, type_name: str) -> None:
    assert matches(pattern, type_name)


@pytest.mark.parametrize(("pattern", "type_name"), DOES_NOT_FIT)
def test_pattern_does_not_fit(pattern: str, type_name: str) -> None:
    assert not matches(pattern, type_name)


@pytest.mark.parametrize("text", BAD)
def test_bad_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadTypeName, match="pattern"):
        Pattern.parse(text)


@pytest.mark.parametrize(("narrow", "wide"), MORE_SPECIFIC)
def test_the_more_specific_pattern_sorts_first(narrow: str, wide: str) -> None:
    assert Pattern.parse(narrow) < Pattern.parse(wide)


@pytest.mark.parametrize(("one", "other"), [("**.*", "*.**"), ("**.**", "**"), ("a.**.*.**", "a.*.**")])
def test_two_spellings_of_one_pattern_are_equal(one: str, other: str) -> None:
    assert Pattern.parse(one) == Pattern.parse(other)


def test_best_is_the_most_specific_whatever_the_order_of_registration() -> None:
    routes = [(Pattern.parse(text), text) for text in ("**", "ticket.**", "ticket.*", "ticket.opened")]

    for order in (routes, routes[::-1]):
        table = RouteTable(order)
        assert table.best("ticket.opened") == "ticket.opened"
        assert table.best("ticket.closed") == "ticket.*"
        assert table.best("ticket") == "ticket.**"
        assert table.best("invoice") == "**"


def test_nothing_fits() -> None:
    assert RouteTable([(Pattern.parse("a"), 1)]).best("b") is None


def test_every_keeps_registration_order_among_equals() -> None:
    table = RouteTable([(Pattern.parse(t), i) for i, t in enumerate(["**", "a.*", "**", "a.*", "a.b"])])

    assert table.every("a.b") == [4, 1, 3, 0, 2]


def test_what_is_remembered_of_strangers_types_is_bounded() -> None:
    table = RouteTable([(Pattern.parse("**"), 1)])

    for number in range(3_000):
        assert table.best(f"t{number}") == 1

    assert len(table._remembered) <= 1_000  # pyright: ignore[reportPrivateUsage]


segments = st.sampled_from(["a", "b", "*", "**"])
patterns = st.lists(segments, min_size=1, max_size=4).map(".".join)
types = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map(".".join)


def slow_fits(pattern: list[str], segs: list[str]) -> bool:
    """The definition, word for word."""
    if not pattern:
        return not segs
    if pattern[0] == "**":
        return any(slow_fits(pattern[1:], segs[n:]) for n in range(len(segs) + 1))
    return bool(segs) and pattern[0] in ("*", segs[0]) and slow_fits(pattern[1:], segs[1:])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(patterns, types)
def test_matching_agrees_with_the_definition(pattern: str, type_name: str) -> None:
    assert matches(pattern, type_name) == slow_fits(pattern.split("."), type_name.split("."))


def all_types() -> list[str]:
    found = [""]
    for _ in range(6):
        found += [f"{t}.{s}".strip(".") for t in found for s in "abc" if f"{t}.{s}".strip(".") not in found]
        found = list(dict.fromkeys(found))
        if len(found) > 400:
            break
    return [t for t in found if t]


ALL_TYPES = all_types()


@given(patterns, patterns)
def test_a_narrower_pattern_always_wins(one: str, other: str) -> None:
    first, second = Pattern.parse(one), Pattern.parse(other)
    fits_first = {t for t in ALL_TYPES if first.fits(t)}
    fits_second = {t for t in ALL_TYPES if second.fits(t)}

    if fits_first < fits_second:
        assert first < second
