"""A supervisor's record in its hash: read again it is the same, a small change writes little, junk is refused."""

from __future__ import annotations

from typing import Any

import pytest

from regrow_signals.errors import CorruptKey
from regrow_supervisor import events as ev
from regrow_supervisor.codec import changes, from_fields, to_fields
from regrow_supervisor.decide import decide
from regrow_supervisor.states import SupervisorState


def record(count: int = 3) -> SupervisorState:
    """A supervisor that is in the middle of a group restart, with a message waiting."""
    children = [
        {"id": f"a{number}", "start": {"type": "t", "init": {"text": "ü"}}} for number in range(count)
    ]
    definition = {"strategy": "one_for_all", "max_restarts": 5, "max_seconds": 5, "children": children}
    states: dict[str, SupervisorState] = {}

    def feed(event: ev.Event) -> None:
        states.update(decide(states, event, 1_000_000).states)

    feed(ev.StartTree(path="root", definition=definition))
    for number in range(count):
        feed(ev.Started(path="root", child=f"a{number}", incarnation=1))
    feed(ev.Exited(path="root", child="a0", incarnation=1, reason="crash"))
    feed(ev.CountChildren(path="root", request="r"))
    return states["root"]


def test_a_record_read_again_is_the_record() -> None:
    state = record()
    assert state.waiting is not None
    assert state.plan
    assert state.queue

    assert from_fields(to_fields(state)) == state


def test_a_change_of_one_child_of_a_thousand_writes_a_few_small_fields() -> None:
    old = record(1000)
    event = ev.Exited(path="root", child="a999", incarnation=1, reason="shutdown")

    new = decide({"root": old}, event, 1_000_000).states["root"]
    difference = changes(old, new)

    assert set(difference.set) == {"child:a999", "child:a998", "plan", "waiting"}
    assert sum(len(text) for text in difference.set.values()) < 1000
    assert difference.delete == ()


def test_the_changes_of_a_forgotten_child_and_a_handled_message_delete_their_fields() -> None:
    old = record()
    new = old.fork()
    del new.children["a1"]
    new.queue.clear()

    assert set(changes(old, new).delete) == {"child:a1", "spec:a1", *(f"q:{number}" for number in old.queue)}


def test_the_version_is_read_and_never_written() -> None:
    fields = to_fields(record())

    assert "version" not in fields
    assert from_fields({**fields, "version": "7"}).version == 7


JUNK: list[tuple[str, Any]] = [
    ("status", "dancing"),
    ("path", ""),
    ("incarnation", "many"),
    ("definition", "[]"),
    ("definition", "{"),
    ("stamps", '["x"]'),
    ("plan", "{}"),
    ("plan", "[1]"),
    ("waiting", "[]"),
    ("waiting", "{}"),
    ("waiting", '{"for":"start"}'),
    ("waiting", '{"for":["start"]}'),
    ("definition", "{}"),
    ("spent", "[]"),
    ("version", "x"),
    ("child:a1", "{}"),
    ("child:a1", '{"place":1,"status":"dancing","incarnation":1}'),
    ("child:a1", '{"place":1,"status":"running","incarnation":"1"}'),
    ("child:a1", '{"place":1,"status":"running","incarnation":1,"unknown":1}'),
    ("child:a1", '{"place":1,"status":"running","incarnation":1,"stamps":["x"]}'),
    ("child:zz", '{"place":1,"status":"running","incarnation":1}'),
    ("spec:a1", "null"),
    ("spec:a1", "{}"),
    ("q:x", "[]"),
    ("q:1", "{}"),
    ("q:1", "[" * 100_000),
]


@pytest.mark.parametrize(("name", "text"), JUNK, ids=[f"{name}-{text[:30]}" for name, text in JUNK])
def test_junk_in_a_record_is_refused_by_name(name: str, text: str) -> None:
    fields = to_fields(record())

    with pytest.raises(CorruptKey, match=r"supervisor '(root)?'"):
        from_fields({**fields, name: text})


@pytest.mark.parametrize("name", ["status", "definition", "plan", "next_place", "spec:a1"])
def test_a_missing_field_is_refused(name: str) -> None:
    fields = to_fields(record())
    del fields[name]

    with pytest.raises(CorruptKey):
        from_fields(fields)
