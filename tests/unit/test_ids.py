"""Names that may become part of a key, and those that may not."""

from __future__ import annotations

import pytest

from regrow_signals.errors import BadId, BadNamespace, BadTypeName
from regrow_signals.ids import check_id, check_namespace, check_type, new_id


@pytest.mark.parametrize(
    "good", ["a", "support", "a:b", "x:inbox", "desk/7@eu-1", "A.b_c-d", "0", "x" * 200, "state"]
)
def test_usable_ids_pass_unchanged(good: str) -> None:
    assert check_id(good) is good


@pytest.mark.parametrize(
    "bad",
    ["", "x" * 201, "a*", "[ab]", "a?", "..", "a b", "a\nb", "a\n", "ü", "{x}", "}x", "a}b", "-a", "__proto__",
     "\udcff", 7, None],
)  # fmt: skip
def test_ids_that_could_leave_their_key_are_refused_by_rule(bad: object) -> None:
    with pytest.raises(BadId, match="1 to 200 characters"):
        check_id(bad)


def test_refusal_of_a_long_id_is_short() -> None:
    with pytest.raises(BadId) as caught:
        check_id("x" * 10_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("good", ["ticket", "ticket.opened", "a_b.c-d.0", "agent.child.exit"])
def test_type_names_are_segments_joined_by_dots(good: str) -> None:
    assert check_type(good) == good


@pytest.mark.parametrize("bad", ["", ".", "a.", ".a", "a..b", "a.*", "**", "a b", "ü", "a" * 201, "a.b\n", 1])
def test_other_type_names_are_refused(bad: object) -> None:
    with pytest.raises(BadTypeName):
        check_type(bad)


@pytest.mark.parametrize("bad", ["", "{a}", "a}b", "a:b", "a b", "x" * 65, "-a", "a\n"])
def test_namespace_that_is_no_hash_tag_is_refused(bad: str) -> None:
    with pytest.raises(BadNamespace):
        check_namespace(bad)


def test_new_ids_are_usable_and_differ() -> None:
    assert check_id(new_id()) != check_id(new_id())
