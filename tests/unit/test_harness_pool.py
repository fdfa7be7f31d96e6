"""Pooled agents in the Harness: the same tree, killed at the same steps, comes to the same states."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrow import Agent, Emit, Payload, Signal, State, Step, Stop, Supervisor, handles
from regrow.testing import Harness
from regrow.testing.stepped_worker import KillStep

Isolation = Literal["process", "pool"]
STEPS = get_args(KillStep)


class Add(Payload, type="pool.add"):
    n: int


class Numbers(State):
    seen: tuple[int, ...] = ()


class Keeper(Agent[Numbers], name="pool-keeper"):
    @handles(Add)
    def add(self, numbers: Numbers, add: Add) -> Step[Numbers]:
        return numbers.evolve(seen=(*numbers.seen, add.n))

    @handles("pool.forward")
    def forward(self, numbers: Numbers, signal: Signal) -> Step[Numbers]:
        return numbers, Emit("pool.add", {"n": signal.value["n"]}, to=signal.value["to"])

    @handles("pool.raise")
    def fail(self, numbers: Numbers, _signal: Signal) -> Step[Numbers]:
        raise ValueError("told to raise")

    @handles("pool.stop")
    def stop(self, _numbers: Numbers, _signal: Signal) -> Step[Numbers]:
        return Stop()


def harness(*isolations: Isolation, **more: Any) -> Harness:
    children = [
        Keeper.child(f"a{place}", isolation=isolation, max_restarts=100, max_kills=5)
        for place, isolation in enumerate(isolations)
    ]
    return Harness(Supervisor("pool", children, max_restarts=100), **more)


def seen(h: Harness, agent: str) -> list[int]:
    return list(h.state(agent, Keeper).seen)


def test_a_pooled_agent_applies_what_it_is_sent_and_rests() -> None:
    h = harness("pool")
    assert h.status("a0") == "idle"

    h.send("a0", Add(n=1))
    assert h.status("a0") == "queued"
    h.run()

    assert (seen(h, "a0"), h.status("a0"), h.incarnation("a0")) == ([1], "idle", 1)


def test_agents_of_both_kinds_send_each_other_signals() -> None:
    h = harness("pool", "process", "pool")

    h.send("a0", "pool.forward", {"to": "a1", "n": 1})
    h.send("a1", "pool.forward", {"to": "a2", "n": 2})
    h.send("a2", "pool.forward", {"to": "a2", "n": 3})
    h.run()

    assert (seen(h, "a1"), seen(h, "a2")) == ([1], [2, 3])


@pytest.mark.parametrize("isolation", ["process", "pool"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_each_signal_is_applied_once(step: KillStep, isolation: Isolation) -> None:
    h = harness(isolation)
    h.kill("a0", at=step, times=2)

    for n in range(5):
        h.send("a0", Add(n=n))
    h.run()

    assert seen(h, "a0") == [0, 1, 2, 3, 4]
    assert h.dead_letters("a0") == []
    # A slot's death is an agent's only where it was running; who has claimed does not claim again.
    died = step == "in_handler" or (isolation == "process" and step != "before_claim")
    assert (h.incarnation("a0") > 1) is died


def test_a_signal_that_kills_its_slot_is_tried_as_often_as_allowed_and_its_neighbour_is_not_touched() -> None:
    h = harness("pool", "pool")
    h.kill("a0", at="in_handler", reason="deadline", times=2)

    for n in (1, 2):
        h.send("a0", Add(n=n))
        h.send("a1", Add(n=n))
    h.run()

    assert [letter["reason"] for letter in h.dead_letters("a0")] == ["max_attempts"]
    assert (seen(h, "a0"), seen(h, "a1")) == ([2], [1, 2])
    assert (h.incarnation("a0"), h.incarnation("a1")) == (3, 1)


def test_an_exception_costs_one_restart_and_a_stop_is_one() -> None:
    h = harness("pool")

    h.send("a0", "pool.raise")
    h.send("a0", Add(n=1))
    h.run()
    assert (seen(h, "a0"), h.incarnation("a0")) == ([1], 2)
    assert h.record("a0")["exit_reason"].startswith("exception:ValueError")

    h.send("a0", "pool.stop")
    h.run()
    assert (h.incarnation("a0"), h.record("a0")["exit_reason"]) == (3, "normal")


def test_a_bad_agent_is_parked_and_no_brother_hears_of_it() -> None:
    children = [Keeper.child(name, isolation="pool") for name in ("bad", "good")]
    h = Harness(Supervisor("pool", children, max_restarts=0))

    h.send("bad", "pool.raise")
    h.send("good", Add(n=1))
    h.run()

    assert (h.status("bad"), seen(h, "good"), h.incarnation("good")) == ("parked", [1], 1)
    h.send("bad", Add(n=2))
    h.run()
    assert (seen(h, "bad"), h.waiting("bad")) == ([], 1)


def test_a_lost_node_and_a_drained_one_hand_their_agents_on() -> None:
    h = harness("pool", "pool", nodes=2)
    h.lose_node(1)
    for agent in ("a0", "a1"):
        h.send(agent, Add(n=1))
    h.run()
    h.advance(10)
    h.add_node()
    h.run()
    h.drain_node(2)
    for agent in ("a0", "a1"):
        h.send(agent, Add(n=2))
    h.run()

    assert (seen(h, "a0"), seen(h, "a1")) == ([1, 2], [1, 2])
    assert (h.incarnation("a0"), h.incarnation("a1")) == (1, 1)


def test_a_dead_watchdog_costs_pooled_agents_nothing_and_its_successor_restarts_them() -> None:
    h = harness("pool")
    h.kill_watchdog()

    h.send("a0", "pool.raise")
    h.send("a0", Add(n=1))
    h.run()

    assert (seen(h, "a0"), h.incarnation("a0")) == ([1], 2)


EVENTS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2)),
    st.tuples(st.just("forward"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("kill"), st.integers(0, 2), st.sampled_from(STEPS)),
    st.tuples(st.just("raise"), st.integers(0, 2)),
    st.tuples(st.just("step")),
    st.tuples(st.just("watchdog")),
    st.tuples(st.just("drain")),
)


@settings(max_examples=40, deadline=None)
@given(
    isolations=st.lists(st.sampled_from(["process", "pool"]), min_size=3, max_size=3),
    events=st.lists(EVENTS, max_size=25),
)
def test_whatever_is_killed_each_accepted_signal_is_applied_once_and_in_order(
    isolations: list[Isolation], events: list[tuple[Any, ...]]
) -> None:
    h = harness(*isolations)
    sent: dict[str, list[int]] = {"a0": [], "a1": [], "a2": []}
    raised = dict.fromkeys(sent, 0)
    nodes = 0

    for number, (what, *args) in enumerate(events):
        match what, args:
            case "send", [agent]:
                h.send(f"a{agent}", Add(n=number))
                sent[f"a{agent}"].append(number)
            case "forward", [agent, target]:
                h.send(f"a{agent}", "pool.forward", {"to": f"a{target}", "n": number})
                sent[f"a{target}"].append(number)
            case "kill", [agent, step]:
                h.kill(f"a{agent}", at=step)
            case "raise", [agent]:
                h.send(f"a{agent}", "pool.raise")
                raised[f"a{agent}"] += 1
            case "watchdog", []:
                h.kill_watchdog()
            case "drain", []:
                h.add_node()
                nodes += 1
                h.drain_node(nodes)
            case _:
                h.step()
    h.run()

    for agent, numbers in sent.items():
        assert sorted(seen(h, agent)) == sorted(numbers)
        assert h.waiting(agent) == 0
        assert [letter["reason"] for letter in h.dead_letters(agent)] == ["exception"] * raised[agent]
