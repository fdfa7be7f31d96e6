"""Publish and subscribe with whole agents: by directive, by client, and under a flood that drops what is in hand."""

from __future__ import annotations

import json

from regrow import Agent, Emit, Payload, Signal, State, Step, Subscribe, Supervisor, Unsubscribe, handles
from regrow.testing import Harness


class Made(Payload, type="order.made"):
    n: int


class Say(Payload, type="say"):
    n: int


class Seen(State):
    numbers: tuple[int, ...] = ()


class Shop(Agent[Seen], name="shop"):
    @handles(Say)
    def say(self, state: Seen, say: Say) -> Step[Seen]:
        return state.evolve(numbers=(*state.numbers, say.n)), Emit(Made(n=say.n))


class Listener(Agent[Seen], name="listener"):
    @handles(Made)
    def made(self, state: Seen, made: Made) -> Step[Seen]:
        return state.evolve(numbers=(*state.numbers, made.n))

    @handles("listen")
    def listen(self, state: Seen, signal: Signal) -> Step[Seen]:
        return Subscribe("order.*", priority=signal.value)

    @handles("leave")
    def leave(self, state: Seen, signal: Signal) -> Step[Seen]:
        return Unsubscribe("order.*")


def shop(**spec: int) -> Harness:
    return Harness(
        Supervisor("town", [Shop.child("shop"), Listener.child("a", **spec), Listener.child("b")])  # type: ignore[arg-type]
    )


def test_agents_subscribe_by_directive_and_hear_what_others_publish() -> None:
    town = shop()
    town.send("a", "listen", 0)
    town.run()
    town.send("shop", Say(n=1))
    town.run()
    town.send("a", "leave")
    town.run()
    town.send("shop", Say(n=2))
    town.run()

    assert town.state("a", Listener).numbers == (1,)
    assert town.state("b", Listener).numbers == ()
    assert town.directives("a") == [{"subscribe": "order.*"}, {"unsubscribe": "order.*"}]
    assert town.directives("shop") == [{"publish": "order.made"}] * 2


def test_a_harness_publishes_as_a_client_does() -> None:
    town = shop()
    town.client.subscribe("a", "order.**")

    told = town.publish(Made(n=5), id="p-1")
    assert [one.agent for one in told.receipts] == ["a"]
    assert town.waiting("a") == 1
    town.run()

    assert town.state("a", Listener).numbers == (5,)
    assert told.receipts[0].status().state == "applied"


def test_publishing_survives_a_death_at_every_step() -> None:
    for at in ("in_handler", "before_commit", "after_commit"):
        town = shop()
        town.client.subscribe("a", "order.made")
        town.client.subscribe("b", "**")
        town.kill("shop", at=at)
        town.send("shop", Say(n=1))
        town.run()

        assert town.state("a", Listener).numbers == town.state("b", Listener).numbers == (1,)


def test_an_agent_whose_signals_give_way_in_its_hands_comes_on_and_none_is_counted_twice() -> None:
    town = shop(max_mailbox=5)
    town.client.subscribe("a", "order.made", policy="latest")
    sent = 0

    def flood(agent: str, incarnation: int, step: str) -> None:
        """Three more each time that `a` is about to commit, until there were 90."""
        nonlocal sent
        del incarnation
        for _ in range(3 if (agent, step) == ("a", "before_commit") and sent < 90 else 0):
            sent += 1
            assert town.publish(Made(n=sent)).refused == {}

    [node] = town._nodes  # pyright: ignore[reportPrivateUsage]
    node._reach = flood  # pyright: ignore[reportPrivateUsage]
    town.send("a", "listen", 0)
    town.run()

    applied = town.state("a", Listener).numbers
    dropped = [letter for letter in town.dead_letters("a") if letter["reason"] == "overflow"]
    numbers = [*applied, *(json.loads(letter["data"])["n"] for letter in dropped)]
    assert sorted(numbers) == list(range(1, sent + 1))
    assert list(applied) == sorted(applied)
    assert len(applied) >= 25 and len(dropped) >= 25
