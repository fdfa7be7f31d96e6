"""The line between node and spawner: whole messages, in order, and its end is noticed after all that was said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_workers.spawner_link import LinkClosed, SpawnerLink, life_key

Ends = tuple[SpawnerLink, SpawnerLink]


@pytest.fixture
def ends() -> Iterator[Ends]:
    node, theirs = SpawnerLink.pair()
    spawner = SpawnerLink(theirs)
    yield node, spawner
    node.close()
    spawner.close()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    node, spawner = ends

    node.send({"do": "start", "key": "a#1"})
    node.send({"do": "signal", "key": "a#1", "signal": 15})

    assert spawner.receive() == [{"do": "start", "key": "a#1"}, {"do": "signal", "key": "a#1", "signal": 15}]


def test_nothing_said_is_nothing_received(ends: Ends) -> None:
    assert ends[0].receive() == []


def test_a_line_break_in_a_text_does_not_split_a_message(ends: Ends) -> None:
    node, spawner = ends

    node.send({"is": "not_forked", "error": "two\nlines \udcff"})

    assert spawner.receive() == [{"is": "not_forked", "error": "two\nlines \udcff"}]


def test_a_message_larger_than_the_sockets_room_waits_and_arrives(ends: Ends) -> None:
    node, spawner = ends
    large = {"text": "x" * 3_000_000}

    node.send(large)
    assert node.wants_to_write

    received = spawner.receive()
    while not received:
        node.flush()
        received = spawner.receive()
    assert received == [large]
    assert not node.wants_to_write


def test_the_end_is_told_after_the_last_message(ends: Ends) -> None:
    node, spawner = ends
    spawner.send({"is": "exited", "key": "a#1"})
    spawner.close()

    assert node.receive() == [{"is": "exited", "key": "a#1"}]
    with pytest.raises(LinkClosed):
        node.receive()


def test_saying_something_to_nobody_is_told() -> None:
    node, theirs = SpawnerLink.pair()
    theirs.close()

    with pytest.raises(LinkClosed):
        node.send({"do": "ping"})
    node.close()


def test_two_lives_never_share_a_key() -> None:
    assert life_key("a", 11) != life_key("a:1", 1) != life_key("a/1", 1)
