"""The census counts what lies in Redis, in steps, and names those that want attention; nothing is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from regrow.large_branches import read_large
from regrow.tree_view import Branch, Leaf, find_path, read_tree
from regrow_signals.census import Group, Tally, take_census
from regrow_signals.commits import DeadAppend
from regrow_signals.connection import Connection
from regrow_signals.decisions import Register, SupervisorWrite
from regrow_signals.errors import NoSuchAgent
from regrow_signals.keys import Keys
from regrow_supervisor.codec import to_fields
from regrow_supervisor.decide import decide
from regrow_supervisor.events import StartChild, StartTree
from regrow_supervisor.states import SupervisorState
from tests.integration.stage import Stage

ROOT: dict[str, Any] = {"strategy": "dynamic", "max_restarts": 3, "max_seconds": 5, "children": []}


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


def crowd(stage: Stage, count: int) -> list[str]:
    """A dynamic supervisor with so many pooled children on record, all of them registered and idle."""
    names = [f"chat-{number}" for number in range(count)]
    states: dict[str, SupervisorState] = dict(decide({}, StartTree(path="chats", definition=ROOT), 0).states)
    for name in names:
        spec = {"id": name, "start": {"type": "chat", "isolation": "pool"}}
        states.update(decide(states, StartChild(path="chats", child=spec), 0).states)
    stage.lead()
    fields = {name: text for name, text in to_fields(states["chats"]).items() if name != "version"}
    stage.decide(
        supervisors=[SupervisorWrite("chats", 0, fields)],
        register=[Register(name, "chat", "chats") for name in names],
    )
    for name in names:
        stage.raw.hset(
            stage.keys.agent(name), mapping={"status": "idle", "isolation": "pool", "class": "chat"}
        )
    return names


def test_everything_is_counted_once_whatever_the_step(stage: Stage) -> None:
    owner, loaded = stage.live("busy")
    entries = stage.feed("busy", 3)
    letter = DeadAppend(entries[0], "bad_data", "no", 1, {"id": "s-1", "type": "ticket.opened"})
    stage.commit(stage.plan(owner, loaded, entries[0], dead=[letter]))
    stage.register(*(f"idle-{number}" for number in range(200)))
    stage.raw.set(stage.keys.agent("idle-7"), "junk")

    for at_once in (10, 1000):
        census = stage.connection.run(take_census(stage.keys, at_once=at_once))

        oldest = int(entries[1].partition("-")[0])
        assert census.agents == 201
        assert census.groups == {
            Group("helpdesk", "desk", "running"): Tally(1, 2, 1, 0, oldest),
            Group("helpdesk", "desk", "registered"): Tally(199),
            Group("", "", "unreadable"): Tally(1),
        }
        assert [(seen.agent, seen.backlog, seen.dead) for seen in census.busiest] == [("busy", 2, 1)]
        assert [seen.agent for seen in census.lettered] == ["busy"]
        assert [seen.agent for seen in census.down] == ["idle-7"]


def test_agents_in_line_for_a_slot_are_counted_by_run_queue(stage: Stage) -> None:
    names = crowd(stage, 3)
    for name, schema in zip(names, ("1", "1", "3"), strict=True):
        stage.raw.hset(stage.keys.agent(name), mapping={"status": "queued", "schema": schema})

    census = stage.connection.run(take_census(stage.keys))

    assert census.queues == {"chat@1": 2, "chat@3": 1}


def test_a_supervisor_with_many_children_is_told_in_sums_with_those_that_want_attention(stage: Stage) -> None:
    names = crowd(stage, 30)
    stage.feed(names[4], 2)
    stage.raw.hset(stage.keys.agent(names[5]), "status", "parked")
    stage.raw.hset(stage.keys.agent(names[4]), "worker", "n1/3")

    (branch,) = read_tree(stage.connection, stage.keys, listed=10).roots

    assert branch.sums is not None
    assert (branch.sums.children, branch.sums.backlog, branch.sums.types) == (30, 2, {"chat": 30})
    assert branch.sums.statuses["parked"] == 1
    assert (branch.status, branch.strategy) == ("running", "dynamic")
    assert branch.budget is not None and branch.budget.max_restarts == 3
    leaves = {leaf.id: leaf for leaf in branch.children if isinstance(leaf, Leaf)}
    assert leaves.keys() == {names[4], names[5]}
    assert (leaves[names[4]].slot, leaves[names[4]].pooled, leaves[names[4]].backlog) == ("n1/3", True, 2)
    json.dumps(read_tree(stage.connection, stage.keys, listed=10).to_json())
    (whole,) = read_tree(stage.connection, stage.keys, listed=None).roots
    assert [leaf.id for leaf in whole.children if isinstance(leaf, Leaf)] == names and whole.sums is None


def test_one_agent_or_one_branch_is_shown_alone(stage: Stage) -> None:
    names = crowd(stage, 30)

    (branch,) = read_tree(stage.connection, stage.keys, listed=10, only=names[7]).roots

    assert [leaf.id for leaf in branch.children if isinstance(leaf, Leaf)] == [names[7]]
    assert branch.sums is None and branch.path == "chats"
    (path, agent) = find_path(stage.connection, stage.keys, "chats")
    assert (path, agent) == ("chats", "")
    (branch,) = read_tree(stage.connection, stage.keys, only="chats").roots
    assert isinstance(branch, Branch) and len(branch.children) == 30
    with pytest.raises(NoSuchAgent, match="nobody"):
        read_tree(stage.connection, stage.keys, only="nobody")


def test_a_small_supervisor_is_not_large(stage: Stage) -> None:
    crowd(stage, 10)

    assert read_large(stage.connection, stage.keys, ["chats"], 10) == {}
