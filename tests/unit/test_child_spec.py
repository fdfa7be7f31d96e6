"""Child specs: every field is checked when the spec is made, and the message names child and field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from regrow_signals.errors import BadDefinition
from regrow_workers.agent import Agent
from regrow_workers.child_spec import Backoff, ChildSpec
from regrow_workers.state import State


class Desk(State):
    open: int = 0
    since: datetime | None = None


class Needy(State):
    owner: str


class Support(Agent[Desk], name="support"):
    pass


class Demanding(Agent[Needy], name="demanding"):
    pass


class Branch:
    """A nested supervisor as far as a spec looks."""

    name = "branch"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"support": Support}


def test_defaults() -> None:
    spec = Support.child("support")

    assert (spec.id, spec.agent, spec.supervisor) == ("support", Support, None)
    assert (spec.restart, spec.shutdown, spec.significant) == ("permanent", None, False)
    assert (spec.isolation, spec.resume, spec.init) == ("process", "state", {})
    assert (spec.deadline, spec.max_memory, spec.max_mailbox) == (None, None, None)
    assert (spec.max_attempts, spec.max_kills, spec.backoff, spec.labels) == (None, None, None, {})
    assert (spec.max_restarts, spec.max_seconds, spec.on_exceeded) == (None, None, None)


def test_a_supervisor_may_take_as_long_as_it_needs() -> None:
    spec = ChildSpec(id="branch", supervisor=Branch())

    assert (spec.shutdown, spec.shutdown_ms) == ("infinity", -1)


@pytest.mark.parametrize(
    ("shutdown", "held", "ms"),
    [
        (5, 5.0, 5_000),
        (0.25, 0.25, 250),
        (0.0001, 0.0001, 1),
        (timedelta(seconds=2), 2.0, 2_000),
        (0, "brutal_kill", 0),
        ("brutal_kill", "brutal_kill", 0),
        ("infinity", "infinity", -1),
    ],
)
def test_shutdown(shutdown: Any, held: Any, ms: int) -> None:
    spec = Support.child("support", shutdown=shutdown)

    assert (spec.shutdown, spec.shutdown_ms) == (held, ms)


def test_durations_and_sizes_are_held_in_seconds_and_bytes() -> None:
    spec = Support.child(
        "s", deadline=timedelta(minutes=1), max_memory="256MiB", max_seconds=timedelta(seconds=9)
    )

    assert (spec.deadline, spec.deadline_ms, spec.max_memory, spec.max_seconds) == (
        60.0,
        60_000,
        256 << 20,
        9.0,
    )


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (2, Backoff(2.0, longest=60.0)),
        (timedelta(minutes=2), Backoff(120.0, longest=120.0)),
        (Backoff(0.5, factor=3, longest=10), Backoff(0.5, 3, 10)),
        (None, None),
    ],
)
def test_backoff(given: Any, held: Backoff | None) -> None:
    assert Support.child("s", backoff=given).backoff == held


def test_init_is_held_as_plain_json_values() -> None:
    spec = Support.child("s", init={"open": "3", "since": datetime(2026, 1, 2)})

    assert spec.init == {"open": 3, "since": "2026-01-02T00:00:00"}


def test_init_may_be_a_state() -> None:
    assert Support.child("s", init=Desk(open=3)).init == {"open": 3}


def test_a_spec_can_be_varied() -> None:
    spec = Support.child("s", init={"open": 3}, labels={"gpu": "a100"})

    other = spec.with_(restart="temporary")

    assert (other.restart, other.init, other.labels) == ("temporary", {"open": 3}, {"gpu": "a100"})
    with pytest.raises(BadDefinition, match="restart"):
        spec.with_(restart="never")


def test_a_spec_cannot_be_changed() -> None:
    spec: Any = Support.child("s", labels={"a": "b"}, init={"open": 1})

    with pytest.raises(AttributeError):
        spec.restart = "temporary"
    with pytest.raises(TypeError):
        spec.labels["c"] = "d"
    with pytest.raises(TypeError):
        spec.init["open"] = 2


@pytest.mark.parametrize("kind", ["transient", "temporary"])
def test_children_that_may_end_can_be_significant(kind: Any) -> None:
    assert Support.child("s", restart=kind, significant=True).significant


@pytest.mark.parametrize("child_id", ["", " ", "a b", "a*", "{x}", "ü", "a\n", "x" * 201, 5, None, "-a"])
def test_a_bad_id_is_refused(child_id: Any) -> None:
    with pytest.raises(BadDefinition, match="child id"):
        Support.child(child_id)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"restart": "always"}, "restart: 'always' is none of permanent, transient, temporary"),
        ({"restart": None}, "restart: None"),
        ({"shutdown": -1}, "shutdown=-1"),
        ({"shutdown": "soon"}, "shutdown: 'soon' is not seconds"),
        ({"shutdown": float("nan")}, "shutdown=nan"),
        ({"shutdown": True}, "shutdown=True"),
        ({"significant": "yes", "restart": "transient"}, "significant: 'yes'"),
        ({"significant": True}, "significant: a permanent child"),
        ({"isolation": "thread"}, "isolation: 'thread' is none of process, pool"),
        ({"resume": "anew"}, "resume: 'anew' is none of state, fresh"),
        ({"deadline": 0}, "deadline=0"),
        ({"deadline": "5"}, "deadline='5'"),
        ({"max_memory": "lots"}, "max_memory='lots'"),
        ({"max_memory": 0}, "max_memory=0"),
        ({"max_mailbox": 0}, "max_mailbox: 0 must be a whole number of 1 or more"),
        ({"max_mailbox": 1.5}, "max_mailbox: 1.5"),
        ({"max_attempts": 0}, "max_attempts: 0"),
        ({"max_attempts": True}, "max_attempts: True"),
        ({"max_kills": "many"}, "max_kills: 'many'"),
        ({"max_state": "1 page"}, "max_state='1 page'"),
        ({"guard": "maybe"}, "guard='maybe' must be"),
        ({"backoff": 0}, "backoff=0"),
        ({"backoff": "1"}, "backoff='1'"),
        ({"labels": ["gpu"]}, "labels: "),
        ({"labels": {"gpu": 1}}, "labels: 'gpu': 1"),
        ({"labels": {"": "x"}}, "labels: ''"),
        ({"max_restarts": -1}, "max_restarts: -1"),
        ({"max_seconds": 0}, "max_seconds=0"),
        ({"on_exceeded": "ignore"}, "on_exceeded: 'ignore' is none of escalate, park"),
        ({"init": {"opne": 1}}, "init: Desk: opne: "),
        ({"init": {"open": "many"}}, "init: Desk: open: .*valid integer"),
        ({"init": [1]}, "init: "),
    ],
)
def test_a_wrong_field_is_refused_by_child_and_name(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=f"^child 'desk-1': {told}"):
        Support.child("desk-1", **fields)


def test_a_state_without_defaults_needs_init() -> None:
    with pytest.raises(BadDefinition, match="child 'd': init: Needy: owner: Field required"):
        Demanding.child("d")

    assert Demanding.child("d", init={"owner": "me"}).init == {"owner": "me"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "give exactly one of agent= and supervisor="),
        ({"agent": Support, "supervisor": Branch()}, "give exactly one"),
        ({"agent": Agent}, "Agent is no agent type"),
        ({"agent": int}, "int is no agent type"),
        ({"supervisor": 5}, "5 is not a Supervisor"),
        ({"supervisor": Branch(), "init": {"a": 1}}, "a supervisor has no state"),
    ],
)
def test_a_child_is_an_agent_or_a_supervisor(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=told):
        ChildSpec(id="x", **fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"first": 0}, "first=0"), ({"factor": 0.5}, "factor=0.5"), ({"first": 5, "longest": 1}, "longest=1")],
)
def test_a_backoff_that_cannot_work_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDefinition, match=told):
        Backoff(**fields)
