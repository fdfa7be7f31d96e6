"""What lies in the watchdog's mailbox is read, or is junk with a reason; nothing in it raises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regrow_supervisor.entries import (
    AgentExited,
    AgentStarted,
    Entry,
    Junk,
    NodeChanged,
    RequestMade,
    read_entry,
    runs,
)


def test_entries_of_nodes_and_clients_are_read() -> None:
    assert read_entry({"kind": "started", "agent": "a", "incarnation": "3", "node": "n", "pid": "7"}) == (
        AgentStarted("a", 3, "n")
    )
    exited = {
        "kind": "exited",
        "agent": "a",
        "incarnation": "3",
        "node": "n",
        "reason": "exit:1",
        "charged": "0",
    }
    assert read_entry(exited) == AgentExited("a", 3, "n", "exit:1", charged=False)
    assert read_entry({"kind": "node", "node": "n", "event": "joined"}) == NodeChanged("n", "joined")
    asked = {"kind": "request", "request": "r", "op": "hold", "target": "a"}
    assert read_entry(asked) == RequestMade("r", "hold", {"target": "a"})


def test_neighbours_that_create_agents_are_answered_together() -> None:
    def create(agent: str) -> RequestMade:
        return RequestMade(f"create {agent}", "create", {"child": agent})

    hold, end = RequestMade("r", "hold", {"target": "a"}), AgentExited("x", 1, "n", "exit:1", charged=True)
    entries: list[Entry] = [
        create("a"),
        create("b"),
        hold,
        create("c"),
        create("d"),
        create("c"),
        end,
        create("e"),
    ]
    numbered = [(f"{number}-0", entry) for number, entry in enumerate(entries)]

    found = [[entry for entry, _ in run] for run in runs(numbered)]

    assert found == [["0-0", "1-0"], ["2-0"], ["3-0", "4-0"], ["5-0"], ["6-0"], ["7-0"]]


def test_an_end_without_a_word_on_it_is_charged() -> None:
    read = read_entry({"kind": "exited", "agent": "a", "incarnation": "1", "reason": "exit:1"})

    assert isinstance(read, AgentExited)
    assert read.charged


def test_junk_says_why() -> None:
    assert read_entry({}) == Junk("unknown kind None")
    assert read_entry({"kind": "exited"}) == Junk("kind=exited without field 'agent'")
    assert read_entry({"kind": b"\xff"}) == Junk("field 'kind' is not UTF-8")
    read = read_entry({"kind": "started", "agent": "a", "incarnation": "-1"})
    assert isinstance(read, Junk)
    assert "is no number" in read.why


def test_a_request_without_an_op_can_still_be_answered() -> None:
    assert read_entry({"kind": "request", "request": "r"}) == Junk("kind=request without field 'op'", "r")


WORDS = st.sampled_from(
    ["kind", "agent", "incarnation", "reason", "node", "event", "request", "op", "started", "exited"]
)
TEXTS = st.one_of(WORDS, st.text(max_size=20), st.just("1"), st.just("\udcff"))


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.binary(max_size=8)), max_size=6))
def test_nothing_in_an_entry_raises(fields: dict[str, str | bytes]) -> None:
    read = read_entry(fields)

    assert isinstance(read, (AgentExited, AgentStarted, Junk, NodeChanged, RequestMade))


@given(st.sampled_from(["started", "exited", "node", "request"]), st.dictionaries(TEXTS, TEXTS, max_size=6))
def test_nothing_under_a_known_kind_raises(kind: str, fields: dict[str, str]) -> None:
    read = read_entry({**fields, "kind": kind})

    if isinstance(read, Junk):
        assert read.why
