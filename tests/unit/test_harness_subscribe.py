"""What a child spec subscribes to: installed with the registration, replaced by a deploy, ended with the record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow import Agent, ChildSpec, Payload, Signal, State, Step, Subscribe, Supervisor, Unsubscribe, handles
from regrow.control import ask_watchdog
from regrow.errors import BadDefinition
from regrow.testing import Harness
from regrow_supervisor.definition import SpecError
from regrow_supervisor.spec_check import check_child
from regrow_workers.stored_child import stored_agent


class Made(Payload, type="order.made"):
    n: int


class Seen(State):
    numbers: tuple[int, ...] = ()


class Listener(Agent[Seen], name="listener"):
    @handles(Made)
    def made(self, state: Seen, made: Made) -> Step[Seen]:
        return state.evolve(numbers=(*state.numbers, made.n))

    @handles("leave")
    def leave(self, state: Seen, signal: Signal) -> Step[Seen]:
        return Unsubscribe("order.*")

    @handles("join")
    def join(self, state: Seen, signal: Signal) -> Step[Seen]:
        return Subscribe("**.made")


def tree(*children: ChildSpec) -> Supervisor:
    return Supervisor("town", [*children, Supervisor("guests", strategy="dynamic", agents=[Listener])])


def heard(town: Harness) -> list[tuple[str, str, int, str]]:
    return [(one.agent, one.pattern, one.priority, one.policy) for one in town.client.subscriptions()]


def deploy(town: Harness, new: Supervisor) -> None:
    definition = json.dumps(new.definition())
    ask_watchdog(town.client.connection, town.client.keys, "tree", {"name": "town", "definition": definition})
    town.run()


def test_a_specs_subscriptions_are_there_from_the_start() -> None:
    wanted: list[str | Subscribe] = ["order.*", Subscribe("**", priority=5, policy="latest")]
    town = Harness(tree(Listener.child("a", subscribe=wanted), Listener.child("b", subscribe=["order.made"])))

    town.publish(Made(n=1))
    town.run()

    assert heard(town) == [
        ("a", "order.*", 0, "refuse"),
        ("a", "**", 5, "latest"),
        ("b", "order.made", 0, "refuse"),
    ]
    assert town.state("a", Listener).numbers == town.state("b", Listener).numbers == (1,)


def test_a_deploy_replaces_them_and_leaves_what_the_agent_asked_for_itself() -> None:
    town = Harness(tree(Listener.child("a", subscribe=["order.*", "ticket.*"])))
    town.send("a", "join")
    town.run()

    deploy(town, tree(Listener.child("a", subscribe=[Subscribe("ticket.*", priority=1), "new.*"])))
    assert sorted(heard(town)) == [
        ("a", "**.made", 0, "refuse"), ("a", "new.*", 0, "refuse"), ("a", "ticket.*", 1, "refuse")
    ]  # fmt: skip

    deploy(town, tree(Listener.child("a")))
    assert heard(town) == [("a", "**.made", 0, "refuse")]


def test_a_deploy_that_changes_nothing_of_it_leaves_an_unsubscription_alone() -> None:
    town = Harness(tree(Listener.child("a", subscribe=["order.*"])))
    town.send("a", "leave")
    town.run()

    deploy(town, tree(Listener.child("a", subscribe=["order.*"]), Listener.child("b")))
    assert heard(town) == []


def test_a_child_that_is_taken_off_the_record_hears_nothing_more_and_again_once_it_is_back() -> None:
    town = Harness(tree(Listener.child("a", subscribe=["order.*"])))
    deploy(town, tree())
    assert heard(town) == []

    deploy(
        town, tree(Listener.child("a", subscribe=["order.*"], max_mailbox=7))
    )  # another tree than the first
    assert heard(town) == [("a", "order.*", 0, "refuse")]


def test_agents_made_at_run_time_subscribe_too() -> None:
    town = Harness(tree())
    town.client.start_child("town/guests", Listener.child("x", subscribe=["order.*"]))
    town.send("y", "leave", create=Listener.child(under="town/guests", subscribe=["order.*", "ticket.*"]))
    town.run()

    assert heard(town) == [("x", "order.*", 0, "refuse"), ("y", "ticket.*", 0, "refuse")]
    town.client.terminate_child("town/guests", "x")
    town.client.start_child("town/guests", Listener.child("x", subscribe=["order.*"]))
    assert ("x", "order.*", 0, "refuse") in heard(town)


def test_a_restart_changes_nothing() -> None:
    town = Harness(tree(Listener.child("a", subscribe=["order.*"])))
    town.kill("a")
    town.run()
    town.publish(Made(n=1))
    town.run()

    assert town.state("a", Listener).numbers == (1,)
    assert town.record("a")["subscriptions"] == "1"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("order.*", "not a list of patterns"),
        ([5], "neither a pattern nor Subscribe"),
        (["order.**x"], "segment"),
        (["a.*.**", "a.**.*"], r"a\.\*\.\*\* stands twice"),
    ],
)
def test_a_spec_that_cannot_be_says_so(wanted: Any, told: str) -> None:
    with pytest.raises(BadDefinition, match=rf"child 'a': subscribe: .*{told}"):
        Listener.child("a", subscribe=wanted)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("order.*", "not a list"),
        ([["order.*", 0]], "not pattern, priority, policy"),
        ([["order.*", 101, "hold"]], "priority=101"),
        ([["order.*", 0, "never"]], "policy='never'"),
        ([["a.**.*", 0, "hold"]], r"write a\.\*\*\.\* as a\.\*\.\*\*"),
    ],
)
def test_a_stored_spec_that_cannot_be_is_refused(wanted: Any, told: str) -> None:
    stored = stored_agent(Listener.child("a"))
    stored["start"]["subscribe"] = wanted

    with pytest.raises(SpecError, match=told):
        check_child(stored, "town")
