"""``regrow chaos``: who is struck is a matter of the seed alone; when a strike is mended, and what is wrong: tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from click.testing import CliRunner

from regrow.chaos.look import Agent, Look, Node, others_hosts
from regrow.chaos.plan import KINDS, LONGEST, SHORTEST, Strike, choose, kinds_of, strikes
from regrow.chaos.processes import Process
from regrow.chaos.verdict import Wound, explained, faults, is_mended, recoveries, twice_owned, unsettled
from regrow.cli.group import cli
from regrow.errors import BadInput

LEASE = 3.0


def agent(name: str = "a", status: str = "running", **fields: Any) -> Agent:
    kept: dict[str, Any] = {"pid": 10, "node": "n1", "incarnation": 1, "pooled": False, "dealt_with": 5}
    return Agent(name, status, **{**kept, **fields})


def look(*agents: Agent, leader: str = "one", **targets: dict[str, Process]) -> Look:
    nodes = {"n1": Node("n1", "worker", "here", 7)}
    return Look({each.id: each for each in agents or (agent(),)}, nodes, leader, targets)  # type: ignore[arg-type]


def wound(kind: Any, name: str, before: Look, *, pid: int = 10, frozen: float = 0.0) -> Wound:
    return Wound(Strike(1, kind, frozen, 0.0), name, pid, 100.0, before)


def test_the_same_seed_gives_the_same_strikes_and_another_one_others() -> None:
    first, again, other = (list(islice(strikes(KINDS, seed), 200)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert {strike.kind for strike in first} == set(KINDS)
    stops = [strike.frozen for strike in first if strike.frozen]
    assert 20 < len(stops) < 90
    assert all(SHORTEST <= each <= LONGEST for each in stops)


def test_of_what_is_there_one_is_chosen() -> None:
    strike = Strike(1, "worker", 0.0, 0.99)

    assert choose(strike, ["a", "b", "c"]) == "c"
    assert choose(strike, []) is None


def test_kinds_are_read_in_their_own_order() -> None:
    assert kinds_of(" slot,worker") == ("worker", "slot")
    for wrong, named in (("worker,init", "init"), (" , ", "nothing")):
        with pytest.raises(ValueError, match=named):
            kinds_of(wrong)


@pytest.mark.parametrize(
    ("struck", "now", "mended"),
    [
        pytest.param(("worker", "a"), look(agent(pid=11)), True, id="another process has the agent"),
        pytest.param(("worker", "a"), look(), False, id="the record still names the killed one"),
        pytest.param(("worker", "a"), look(agent(status="starting", pid=11)), False, id="it is on its way"),
        pytest.param(("worker", "a"), look(agent(status="parked", pid=0)), True, id="its spec parks it"),
        pytest.param(("slot", "s1"), look(slot={"s2": Process(12, 1)}), True, id="another slot"),
        pytest.param(("slot", "s1"), look(slot={}), False, id="none yet"),
        pytest.param(("spawner", "s1"), look(spawner={"s1": Process(12, 1)}), True, id="another spawner"),
        pytest.param(("spawner", "s1"), look(spawner={"s1": Process(10, 1)}), False, id="the same spawner"),
        pytest.param(
            ("spawner", "s1"), look(agent(status="exited "), spawner={"s1": Process(12, 1)}), False, id="unsettled"
        ),
        pytest.param(("node", "n1"), look(), False, id="the node is listed yet"),
        pytest.param(
            ("node", "n1"),
            replace(look(), nodes={"n2": Node("n2", "worker", "here", 8)}),
            True,
            id="another node of its kind",
        ),
        pytest.param(
            ("node", "n1"), replace(look(), nodes={"e": Node("e", "effects", "here", 8)}), False, id="another kind"
        ),
        pytest.param(("watchdog", "w"), look(leader="two"), True, id="another reign"),
        pytest.param(("watchdog", "w"), look(), False, id="its lease may only last"),
        pytest.param(("redis", "redis"), look(leader=""), False, id="nobody leads"),
        pytest.param(("redis", "redis"), look(), True, id="all is well"),
    ],
)  # fmt: skip
def test_when_a_killed_one_is_mended(struck: tuple[Any, str], now: Look, mended: bool) -> None:
    before = look(slot={"s1": Process(10, 1)}, spawner={"s1": Process(10, 1)})

    assert is_mended(wound(*struck, before), now, 101.0, LEASE) is mended


def test_a_reign_that_outlasts_the_lease_was_not_the_killed_ones() -> None:
    assert is_mended(wound("watchdog", "w", look()), look(), 104.6, LEASE)


def test_a_stopped_one_is_mended_after_it_went_on_and_everybody_is_settled() -> None:
    stopped = wound("worker", "a", look(), frozen=2.0)

    assert not is_mended(stopped, look(), 101.9, LEASE)
    assert not is_mended(stopped, look(agent(status="restarting")), 102.1, LEASE)
    assert is_mended(stopped, look(), 102.1, LEASE)
    stopped.mended = 102.5
    assert stopped.took == 0.5


FINE: dict[str, Any] = {
    "before": {"a": agent()}, "after": look(agent(dealt_with=6)), "wounds": [], "events": [], "lost": [],
    "waiting": [], "miscounted": {},
}  # fmt: skip


def test_a_run_in_which_all_came_back_has_no_fault() -> None:
    assert faults(**FINE) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"after": look(agent(status="starting"))}, "a: is starting"),
        ({"after": look(agent("b"))}, "a: is not registered any more"),
        ({"after": look(agent(dealt_with=4))}, "had dealt with 5 signals, now with 4"),
        ({"after": look(leader="")}, "nobody leads"),
        (
            {"events": [{"event": "started", "agent": "a", "incarnation": "2"}] * 2},
            "two owners: a, incarnation 2",
        ),
        ({"lost": ["s1"]}, "accepted and lost: signal s1"),
        ({"waiting": ["s1"]}, "still waiting: signal s1"),
        ({"miscounted": {"a": "has counted 1"}}, "a: has counted 1"),
        ({"wounds": [wound("node", "n1", look())]}, "strike 1 (node n1) was not mended"),
    ],
)
def test_each_kind_of_fault_is_found(changes: dict[str, Any], fault: str) -> None:
    found = faults(**{**FINE, **changes})

    assert len(found) == 1
    assert fault in found[0]


def test_states_that_somebody_wanted_are_told_and_no_fault() -> None:
    held = look(agent(status="held", exit_reason="shutdown"))

    assert unsettled(held) == {}
    assert explained(held) == {"a": "held (shutdown)"}


def test_one_life_is_claimed_once() -> None:
    events = [{"event": "started", "agent": "a", "incarnation": str(life)} for life in (1, 2, 3)]

    assert twice_owned([*events, {"event": "exited", "agent": "a", "incarnation": "1"}]) == []
    assert twice_owned([*events, events[1]]) == ["a, incarnation 2: claimed 2 times"]


def test_recoveries_are_told_by_kind() -> None:
    wounds = [
        wound("worker", "a", look()),
        wound("worker", "a", look()),
        wound("slot", "s", look(), frozen=1.0),
    ]
    wounds[0].mended, wounds[2].mended = 100.02, 101.5

    assert recoveries(wounds) == {
        "worker": {"killed": 2, "stopped": 0, "median_ms": 20.0, "p99_ms": 20.0, "max_ms": 20.0},
        "slot": {"killed": 0, "stopped": 1, "median_ms": 500.0, "p99_ms": 500.0, "max_ms": 500.0},
    }


def test_nodes_of_other_hosts_are_named() -> None:
    assert others_hosts(look()) == ["n1 on here"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kill", "worker,init"], "'init' is none of worker"),
        (["--running"], "say --yes"),
        (["--running", "--yes", "shop:tree"], "leave MODULE:TREE out"),
        (["--send", "a", "t", "{}"], "name MODULE:TREE"),
        (["shop:tree", "--send", "a", "t", "{"], "the data is not JSON"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_started(words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["chaos", *words])

    assert isinstance(result.exception, BadInput)
    assert said in str(result.exception)
