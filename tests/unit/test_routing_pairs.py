"""The table of pairs, and that it holds every kind of case in which Jido's two matchers disagree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from regrow_signals.routing import Pattern, RouteTable, matches
from tests.routing_pairs import PAIRS, Disagreement


def ways_in_trie(pattern: Sequence[str], segments: Sequence[str]) -> int:
    """How often Jido's trie finds a target that was put under ``pattern``; see ``routing_pairs``."""
    if not pattern or not segments:
        return 0
    head, rest, left = pattern[0], pattern[1:], segments[1:]
    if head == "**":
        return (not rest) + sum(ways_in_trie(rest, left[n:]) for n in range(len(left) + 1))
    return ((not rest) + ways_in_trie(rest, left)) if head in ("*", segments[0]) else 0


def fits_filter(pattern: str, type_name: str) -> bool:
    """What Jido's other matcher says."""
    if pattern.endswith(".**"):
        base = pattern.removesuffix(".**")
        return type_name == base or type_name.startswith(f"{base}.")
    return matches(pattern, type_name)


def disagreement(pattern: str, type_name: str) -> Disagreement | None:
    """Why the two disagree, "" where they do not; None for a reason that has no name."""
    trie = ways_in_trie(pattern.split("."), type_name.split(".")) > 0
    if trie == fits_filter(pattern, type_name):
        return ""
    if not trie:
        return "none" if "**" in pattern else None
    if pattern.endswith(".**") and "*" in pattern.removesuffix(".**"):
        return "literal"
    return "longer" if not pattern.endswith("**") else None


def test_the_table_is_long_enough_and_says_everything_once() -> None:
    assert len(PAIRS) >= 60
    assert len({pair[:2] for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize(("pattern", "type_name", "fits", "why"), PAIRS)
def test_pair(pattern: str, type_name: str, fits: bool, why: Disagreement) -> None:
    assert matches(pattern, type_name) is fits
    assert (RouteTable([(Pattern.parse(pattern), 1)]).best(type_name) == 1) is fits
    assert disagreement(pattern, type_name) == why


def test_jidos_two_matchers_disagree_in_no_other_way() -> None:
    patterns = [".".join(p) for n in (1, 2, 3) for p in itertools.product(("a", "b", "*", "**"), repeat=n)]
    types = [".".join(t) for n in (1, 2, 3, 4) for t in itertools.product("ab", repeat=n)]

    found = {disagreement(pattern, type_name) for pattern in patterns for type_name in types}

    assert found == {why for *_, why in PAIRS}


def test_one_target_is_found_once_where_jidos_trie_finds_it_more_often() -> None:
    assert ways_in_trie(["**", "b", "**"], ["a", "b", "b", "b"]) > 1
    assert RouteTable([(Pattern.parse("**.b.**"), 1)]).every("a.b.b.b") == [1]
