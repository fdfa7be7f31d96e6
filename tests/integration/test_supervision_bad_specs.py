"""Specs that no client of ours would write, put in as raw requests: refused before anything changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from regrow_supervisor.spec import Supervisor
from tests.integration.test_watchdog import Billing, Support, World

START = {"type": "support"}


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    made = World(redis_url)
    yield made
    assert made.reloads == 0, "a conflict without a cause"
    for connection in (made.look, *made.opened):
        connection.close()


def spec(**fields: Any) -> dict[str, Any]:
    return {"id": "x", "start": START, **fields}


JUNK: list[dict[str, Any]] = [
    spec(limit="often"),
    spec(limit={"max_restarts": "3", "max_seconds": 5}),
    spec(limit={"max_restarts": -1, "max_seconds": 5}),
    spec(limit={"max_restarts": 1, "max_seconds": 0}),
    spec(limit={"max_restarts": 1, "max_seconds": 5, "on_exceeded": "explode"}),
    spec(backoff=3),
    spec(backoff={}),
    spec(backoff={"first_ms": 0, "factor": 2, "longest_ms": 10}),
    spec(backoff={"first_ms": 1, "factor": "x", "longest_ms": 10}),
    spec(backoff={"first_ms": 1, "factor": 2, "longest_ms": 1e300}),
    spec(backoff={"first_ms": 10, "factor": 0.5, "longest_ms": 10}),
    spec(supervisor=5),
    spec(supervisor=None),
    spec(supervisor=[]),
    spec(supervisor={"children": 3}),
    spec(supervisor={"children": [3]}),
    spec(supervisor={"children": [{"id": "y"}]}),
    spec(supervisor={"children": [{"id": "not an id", "start": START}]}),
    spec(supervisor={"strategy": "dance"}),
    spec(supervisor={"limit": 3}),
    spec(supervisor={"limit": {}}),
    spec(supervisor={"children": [{"id": "support", "start": START}]}),
    spec(supervisor={"children": [{"id": "i", "start": {}, "supervisor": {"children": [{"id": "y"}]}}]}),
    spec(type="worker", supervisor={"children": []}, restart="sometimes"),
    spec(start="support"),
    spec(start={"type": 5}),
    spec(start={"type": "support", "init": [1]}),
    spec(start={"type": "support", "labels": 7}),
    spec(start={"type": "support", "max_mailbox": "many"}),
    spec(start={"type": "support", "max_attempts": 0}),
    spec(start={"type": "support", "deadline_ms": "soon"}),
    spec(start={"type": "support", "init": {"opne": 3}}),
    spec(start={"type": "support", "isolation": "cage"}),
    spec(start={"type": "support", "resume": "maybe"}),
    spec(incarnation="seven"),
    spec(template=5, id=7),
    spec(shutdown=-3),
    spec(shutdown="later"),
    spec(significant="yes"),
    spec(restart=None),
    spec(modules=5),
    spec(id="x" * 300),
    spec(id="x/../y z"),
]


@pytest.mark.parametrize("given", JUNK, ids=lambda given: json.dumps(given)[:80])
def test_a_spec_that_cannot_work_is_refused_and_nothing_is_touched(
    world: World, given: dict[str, Any]
) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(Supervisor("desk", [Support.child("support"), Billing.child("billing")]))
    world.settle(watchdog, node)
    before = world.agent("support"), world.agent("billing"), world.record("desk")["version"]
    request = world.ask("start_child", path="desk", spec=json.dumps(given))

    world.settle(watchdog, node)

    answer = world.answer(request)
    assert "error" in answer and answer["message"], answer
    assert (world.agent("support"), world.agent("billing"), world.record("desk")["version"]) == before
    assert world.events("supervisor_crashed") == [] and world.agent("x") == {}


@pytest.mark.parametrize("given", JUNK, ids=lambda given: json.dumps(given)[:80])
def test_a_tree_that_holds_such_a_spec_is_refused_whole(world: World, given: dict[str, Any]) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(Supervisor("desk", [Support.child("support"), Billing.child("billing")]))
    world.settle(watchdog, node)
    if given.get("supervisor") == {"children": [{"id": "support", "start": START}]}:
        pytest.skip("fine in a tree of its own: only in one that runs is the agent taken")
    definition = {"strategy": "one_for_one", "children": [given]}
    fresh = world.ask("tree", name="other", definition=json.dumps(definition))
    changed = world.ask("tree", name="desk", definition=json.dumps(definition))

    world.settle(watchdog, node)

    for request in (fresh, changed):
        answer = world.answer(request)
        assert "error" in answer and answer["message"], answer
    assert world.agent("support")["status"] == world.agent("billing")["status"] == "running"
    assert world.record("other") == {}
    assert world.events("supervisor_crashed") == []
