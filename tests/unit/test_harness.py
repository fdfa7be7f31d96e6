"""The Harness: a tree in one process that lives, dies and is restarted as it would in production."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from regrow import (
    Agent,
    Client,
    Context,
    EffectContext,
    Emit,
    Payload,
    Signal,
    State,
    Step,
    Stop,
    Supervisor,
    effect,
    handles,
)
from regrow.errors import BadInput, NoSuchAgent
from regrow.testing import Harness, NeverIdle


class Add(Payload, type="add"):
    n: int = 1


class Owed(Payload, type="owed"):
    cents: int


class Sum(State):
    total: int = 0
    at: str = ""


@effect(retries=1)
def pay(run: EffectContext, cents: int) -> int:
    if cents < 0:
        raise ValueError("no such money")
    return cents * 2


class Counter(Agent[Sum], name="harness-counter"):
    @handles(Add)
    def add(self, state: Sum, add: Add, ctx: Context) -> Step[Sum]:
        if add.n == 13:
            raise ValueError("unlucky")
        return state.evolve(total=state.total + add.n, at=ctx.now.isoformat())

    @handles("hoard")
    def hoard(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise MemoryError

    @handles("pass.on")
    def pass_on(self, state: Sum, signal: Signal) -> Step[Sum]:
        return [Emit(Add(n=n), to="b") for n in (1, 2)]

    @handles("ping")
    def ping(self, state: Sum, signal: Signal) -> Step[Sum]:
        return Emit("ping", to="a")

    @handles("stop")
    def stop(self, state: Sum, signal: Signal) -> Step[Sum]:
        return Stop()

    @handles("impure")
    def impure(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(total=int(time.time()))

    @handles(Owed)
    def owed(self, state: Sum, owed: Owed) -> Step[Sum]:
        return pay.run(owed.cents)

    @handles("pay.done")
    def paid(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(total=state.total + 1000)

    @handles("pay.failed")
    def not_paid(self, state: Sum, signal: Signal) -> Step[Sum]:
        return state.evolve(total=-1)


def pair(**options: object) -> Supervisor:
    return Supervisor("pair", [Counter.child("a", **options), Counter.child("b")])  # type: ignore[arg-type]


def test_a_signal_waits_until_the_tree_runs() -> None:
    tree = Harness(pair())
    receipt = tree.send("a", Add(n=2))

    assert (tree.waiting("a"), tree.fate(receipt).state) == (1, "pending")
    tree.run()

    assert tree.state("a", Counter).total == 2
    assert tree.fate(receipt).state == "applied"


def test_directives_and_transitions_can_be_looked_at() -> None:
    tree = Harness(pair())
    tree.send("a", "pass.on")
    tree.run()

    assert tree.directives("a") == [{"emit": "add", "to": "b"}] * 2
    assert [line.outcome for line in tree.journal("b")] == ["applied", "applied"]
    assert tree.state("b", Counter).total == 3


def test_the_clock_moves_only_when_the_test_moves_it() -> None:
    tree = Harness(pair(), now=datetime(2030, 5, 1, tzinfo=UTC))
    tree.advance(timedelta(hours=1))
    tree.send("a", Add())
    tree.run()

    assert tree.state("a", Counter).at == "2030-05-01T01:00:00+00:00"


@pytest.mark.parametrize(
    "step", ["before_claim", "before_read", "after_read", "in_handler", "before_commit", "after_commit"]
)
def test_killed_at_any_step_nothing_is_lost_and_nothing_done_twice(step: str) -> None:
    tree = Harness(pair())
    tree.kill("b", at=step)  # type: ignore[arg-type]
    if step == "before_claim":
        tree.kill("b")
    tree.send("a", "pass.on")
    tree.send("b", Add(n=10))
    tree.run()

    assert tree.state("b", Counter).total == 13
    assert tree.incarnation("b") == (3 if step == "before_claim" else 2)
    assert tree.dead_letters("b") == []


def test_a_signal_that_kills_its_process_is_a_dead_letter_after_its_attempts() -> None:
    tree = Harness(pair())
    tree.kill("a", at="in_handler", reason="deadline", times=2)
    tree.send("a", Add(n=5))
    tree.send("a", Add(n=1))
    tree.run()

    assert [letter["type"] for letter in tree.dead_letters("a")] == ["add"]
    assert "attempts" in tree.dead_letters("a")[0]["reason"]
    assert tree.state("a", Counter).total == 1
    exits = [event["reason"] for event in tree.events() if event["event"] == "exited"]
    assert exits == ["deadline", "deadline"]


def test_a_signal_that_wants_too_much_memory_is_a_dead_letter_after_its_attempts() -> None:
    tree = Harness(pair())
    tree.send("a", "hoard")
    tree.send("a", Add(n=1))
    tree.run()

    assert [letter["reason"] for letter in tree.dead_letters("a")] == ["max_attempts"]
    exits = [event["reason"] for event in tree.events() if event["event"] == "exited"]
    assert exits == ["memory", "memory"]
    assert tree.state("a", Counter).total == 1


def test_an_exception_costs_one_restart_and_one_dead_letter() -> None:
    tree = Harness(pair())
    tree.send("a", Add(n=13))
    tree.send("a", Add(n=1))
    tree.run()

    assert "unlucky" in tree.dead_letters("a")[0]["error"]
    assert (tree.state("a", Counter).total, tree.incarnation("a")) == (1, 2)


def test_the_last_error_of_a_crash_is_its_traceback() -> None:
    tree = Harness(pair())
    tree.send("a", Add(n=13))
    tree.run()

    error = tree.record("a")["last_error"]
    assert error == tree.dead_letters("a")[0]["error"]
    assert "in add" in error and error.endswith("ValueError: unlucky")


def test_a_condemned_signal_says_how_its_process_ended() -> None:
    tree = Harness(pair())
    tree.kill("a", at="in_handler", reason="deadline", times=2)
    tree.send("a", Add(n=1))
    tree.run()

    assert tree.record("a")["last_error"] == (
        "the process ended 2 times with this signal in hand, the last time: deadline; max_attempts is 2"
    )


def test_a_recycled_agent_goes_on_in_the_same_life_and_nobody_hears_of_it() -> None:
    tree = Harness(pair(max_signals=2))
    for _ in range(7):
        tree.send("a", Add())
        tree.run()

    assert (tree.state("a", Counter).total, tree.incarnation("a")) == (7, 1)
    assert [event for event in tree.events() if event["event"] == "exited"] == []


def test_an_impure_handler_is_found() -> None:
    tree = Harness(pair())
    tree.send("a", "impure")
    tree.run()

    assert "time.time()" in tree.dead_letters("a")[0]["error"]


def test_a_supervisor_that_gives_up_is_seen_and_starts_again_after_its_pause() -> None:
    tree = Harness(pair())
    for _ in range(4):
        tree.kill("a")
        tree.run()
    assert tree.status("b") != "running"

    tree.advance(60)

    assert tree.status("a") == tree.status("b") == "running"


def test_a_backoff_passes_with_the_clock() -> None:
    tree = Harness(pair(backoff=30))
    tree.kill("a")
    tree.run()
    assert tree.status("a") != "running"

    tree.advance(10)
    assert tree.status("a") != "running"
    tree.advance(25)
    assert tree.status("a") == "running"


def test_a_lost_node_is_noticed_and_its_agents_go_on_elsewhere() -> None:
    tree = Harness(pair(), nodes=2)
    home = tree.record("a")["node"]
    tree.send("a", Add(n=1))
    tree.lose_node(int(home.rpartition("-")[2]))
    tree.run()
    assert tree.waiting("a") == 1

    tree.advance(10)

    assert tree.record("a")["node"] != home
    assert tree.state("a", Counter).total == 1


def test_a_drained_node_hands_its_agents_over_at_once_and_uncharged() -> None:
    tree = Harness(pair(), nodes=2)
    home = tree.record("a")["node"]
    tree.drain_node(int(home.rpartition("-")[2]))
    tree.run()

    assert tree.record("a")["node"] != home
    assert tree.status("a") == "running"


def test_a_standby_takes_over_from_a_dead_watchdog() -> None:
    tree = Harness(pair())
    tree.kill("a")
    tree.kill_watchdog()
    tree.run()

    assert tree.status("a") == "running"


def test_the_client_is_the_real_one_and_its_waits_let_the_tree_go_on() -> None:
    tree = Harness(Supervisor("pair", [Counter.child("a")], agents=[Counter]))

    assert isinstance(tree.client, Client)
    started = tree.client.start_child("pair", Counter.child("c"))
    assert started.incarnation == 1
    assert tree.client.count_children("pair").active == 2
    tree.client.terminate_child("pair", "c")
    assert tree.status("c") == "stopped"


def test_effects_wait_for_the_test_to_say_what_came_of_them() -> None:
    tree = Harness(pair())
    tree.send("a", Owed(cents=5))
    tree.run()
    (ordered,) = tree.effects()
    assert (ordered.name, ordered.args) == ("pay", {"cents": 5})

    tree.complete(ordered, 10)
    tree.run()

    assert tree.effects() == []
    assert tree.state("a", Counter).total == 1000


def test_effects_can_be_run_and_are_tried_again_after_their_backoff() -> None:
    tree = Harness(pair())
    tree.send("a", Owed(cents=-1))
    tree.run()
    assert tree.run_effects() == 1
    assert tree.run_effects() == 0

    tree.advance(120)
    assert tree.run_effects() == 1
    tree.run()

    assert tree.state("a", Counter).total == -1


def test_a_tree_that_never_rests_is_told() -> None:
    tree = Harness(pair())
    tree.send("a", "ping")

    with pytest.raises(NeverIdle, match="with waiting signals: a"):
        tree.run(max_rounds=50)


def test_mistakes_of_a_test_are_told() -> None:
    tree = Harness(pair())
    with pytest.raises(NoSuchAgent, match="there are a, b"):
        tree.kill("c")
    tree.send("a", "stop")
    tree.client.terminate_child("pair", "b")
    with pytest.raises(BadInput, match="does not run now: it is stopped"):
        tree.kill("b")


def test_trees_side_by_side_do_not_meet() -> None:
    one, other = Harness(pair()), Harness(pair())
    one.send("a", Add(n=1))
    one.run()
    other.run()

    assert (one.state("a", Counter).total, other.state("a", Counter).total) == (1, 0)
