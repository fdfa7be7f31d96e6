"""Questions and answers: places as text, directives as values, and a tree in which agents ask and reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from regrow import (
    Agent,
    Ask,
    Context,
    Emit,
    Forward,
    Payload,
    Reject,
    Replied,
    Reply,
    Signal,
    State,
    Step,
    Supervisor,
    Unreplied,
    errors,
    handles,
)
from regrow.testing import Harness
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.errors import BadId, BadInput, BadTypeName, NotStrictJSON, TooLarge
from regrow_signals.limits import Limits
from regrow_signals.reply_places import AgentPlace, ClientPlace, parse_place


class Quote(BaseModel):
    item: str
    cents: int


class QuoteGiven(Replied, type="quote.given"):
    value: Quote


class Wanted(Payload, type="wanted"):
    item: str


class Desk(State):
    asked: int = 0
    waiting: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()


class Shop(Agent[Desk], name="shop"):
    @handles(Wanted)
    def wanted(self, desk: Desk, wanted: Wanted, ctx: Context) -> Step[Desk]:
        if wanted.item == "nothing":
            raise Reject("not for sale")
        return desk.evolve(asked=desk.asked + 1), Reply(Quote(item=wanted.item, cents=500), to=ctx.reply_to)

    @handles("later")
    def later(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        return desk.evolve(waiting=(*desk.waiting, str(ctx.reply_to)))

    @handles("answer.all")
    def answer_all(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return desk.evolve(waiting=()), [Reply(signal.value, to=place) for place in desk.waiting]

    @handles("twice")
    def twice(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        return [Reply("first", to=ctx.reply_to), Reply("second", to=ctx.reply_to)]

    @handles("crash")
    def crash(self, desk: Desk, signal: Signal) -> Step[Desk]:
        raise RuntimeError("told to")

    @handles("handed.on")
    def handed_on(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return Forward(to="back")

    @handles("delegate")
    def delegate(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        return Emit(Wanted(item=signal.value), to="back", reply_to=ctx.reply_to)

    @handles("buy")
    def buy(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return Ask(Wanted(item=signal.value), to="back", tag=f"buy-{signal.value}", reply=QuoteGiven)

    @handles("round")
    def round(self, desk: Desk, signal: Signal) -> Step[Desk]:
        return Forward(to="shop")

    @handles(QuoteGiven)
    def quoted(self, desk: Desk, given: QuoteGiven) -> Step[Desk]:
        return desk.evolve(heard=(*desk.heard, f"{given.tag}: {given.value.cents}"))

    @handles("quote.given.failed")
    def not_quoted(self, desk: Desk, signal: Signal) -> Step[Desk]:
        told = Unreplied.model_validate(signal.value)
        return desk.evolve(heard=(*desk.heard, f"{told.tag}: {told.reason}: {told.error}"))


class Back(Agent[Desk], name="back"):
    @handles(Wanted)
    def wanted(self, desk: Desk, wanted: Wanted, ctx: Context) -> Step[Desk]:
        if wanted.item == "nothing":
            raise Reject("not for sale")
        return desk.evolve(asked=desk.asked + 1), Reply(Quote(item=wanted.item, cents=700), to=ctx.reply_to)

    @handles("handed.on")
    def handed_on(self, desk: Desk, signal: Signal, ctx: Context) -> Step[Desk]:
        seen = [signal.type, signal.value, signal.subject, signal.source, signal.causationid, signal.hops]
        return Reply(seen, to=ctx.reply_to)


@pytest.fixture
def tree() -> Harness:
    return Harness(Supervisor("t", [Shop.child("shop"), Back.child("back")]))


def counted(tree: Harness) -> dict[str, int]:
    found = tree.client.connection.command(views.counters(tree.client.keys))
    return {
        name.removeprefix("replies_total|"): number
        for name, number in found.items()
        if "replies_total" in name
    }


# Places.


@pytest.mark.parametrize(
    "place",
    [
        ClientPlace("support", "t-1"),
        ClientPlace("a:b@c/d", "x:y:retry-1"),
        AgentPlace("desk:1", "buy/1"),
        AgentPlace("a", "t", "q.x"),
    ],
)
def test_a_place_is_text_that_can_be_read_again(place: ClientPlace | AgentPlace) -> None:
    assert parse_place(place.text) == place


@pytest.mark.parametrize(
    "text",
    ["", "r", "reply:", "reply:a", "reply:a#", "reply:a#b#c", "reply:a b#c", "agent:a#b", "agent:a#b#c d",
     "agent:a##c", "mailto:a@b", "reply:{x}#y", "agent:a#b#" + "t" * 200],
)  # fmt: skip
def test_text_that_is_no_place_is_none(text: str) -> None:
    assert parse_place(text) is None


# Directives.


def test_directives_are_equal_when_they_ask_for_the_same() -> None:
    ask = Ask(Wanted(item="x"), to="back", tag="t")

    assert ask == Ask("wanted", {"item": "x"}, to="back", tag="t", reply="agent.reply")
    assert ask != Ask(Wanted(item="x"), to="back", tag="u")
    assert ask != Ask(Wanted(item="x"), to="back", tag="t", reply="other")
    assert ask != Emit(Wanted(item="x"), to="back") and Emit(Wanted(item="x"), to="back") != ask
    assert Emit("a", to="b", reply_to="reply:a#b") != Emit("a", to="b")
    assert (
        Reply({"a": 1}, to="reply:a#b") == Reply({"a": 1}, to="reply:a#b") != Reply({"a": 2}, to="reply:a#b")
    )
    assert Forward(to="a") == Forward(to="a") != Forward(to="b")
    assert len({ask, Reply([1], to=None), Forward(to="a")}) == 3


def test_repr_shows_what_is_asked() -> None:
    assert repr(Ask("a", 1, to="b", tag="t")) == "Ask('a', 1, to='b', tag='t')"
    assert repr(Ask("a", 1, to="b", tag="t", reply="q")) == "Ask('a', 1, to='b', tag='t', reply='q')"
    assert repr(Emit("a", to="b", reply_to="reply:a#b")) == "Emit('a', None, to='b', reply_to='reply:a#b')"


ask: Any = Ask
reply: Any = Reply


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: ask("a", to="b", tag="not ok"), BadId, "Ask: tag"),
        (lambda: ask("a", to="b", tag="t", reply="not ok"), BadTypeName, "Ask: reply"),
        (lambda: ask("a", to="b", tag="t", reply="r" * 195), BadTypeName, "Ask: reply"),
        (lambda: Forward(to="not ok"), BadId, "Forward: to"),
        (lambda: reply(1, to=""), BadInput, "Reply: to=''"),
        (lambda: reply(1, to=7), BadInput, "Reply: to=7"),
        (lambda: Emit("a", to="b", reply_to=""), BadInput, "Emit: reply_to"),
    ],
)
def test_what_could_not_be_carried_out_is_refused(make: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        make()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), NotStrictJSON),
        (object(), NotStrictJSON),
        ("x" * 101, TooLarge),
        ({1: 2}, NotStrictJSON),
    ],
)
def test_a_value_that_is_no_strict_json_or_too_large_is_refused(
    value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match="the value of a Reply"):
        Reply(value, to="reply:a#b").value_json(Limits(max_signal_bytes=100))


def test_a_transition_that_replies_is_tested_without_anything_around_it() -> None:
    signal = Signal.of(Wanted(item="x"))
    context = Context.example(signal, reply_to="reply:shop#t-1")

    _, directives = Shop.cmd(Desk(), signal, ctx=context)

    assert directives == [Reply(Quote(item="x", cents=500), to="reply:shop#t-1")]


# Clients ask.


def test_the_reply_comes_back_and_may_be_read_as_a_model(tree: Harness) -> None:
    assert tree.client.ask("shop", Wanted(item="x")) == {"item": "x", "cents": 500}
    assert tree.client.ask("shop", Wanted(item="x"), as_=Quote) == Quote(item="x", cents=500)
    assert tree.client.ask("shop", "wanted", {"item": "x"}, as_=dict[str, Any])["cents"] == 500
    assert counted(tree) == {"type=shop|outcome=given": 3}


def test_a_reply_that_does_not_fit_the_model_is_told_without_its_values(tree: Harness) -> None:
    with pytest.raises(errors.BadPayload, match=r"the reply of shop to t-1 does not fit .*item: ") as caught:
        tree.client.ask("shop", Wanted(item="secret"), id="t-1", as_=dict[str, int])
    assert "secret" not in str(caught.value)


def test_a_reply_may_come_signals_later(tree: Harness) -> None:
    with pytest.raises(errors.AskTimeout) as caught:
        tree.client.ask("shop", "later", id="t-1")
    assert (caught.value.state, caught.value.receipt.signal_id) == ("applied", "t-1")

    tree.send("shop", "answer.all", {"done": [1, None]})
    tree.run()

    assert tree.client.ask("shop", "later", id="t-1") == {"done": [1, None]}
    assert tree.client.status(caught.value.receipt).state == "applied"


def test_the_first_reply_counts(tree: Harness) -> None:
    assert tree.client.ask("shop", "twice") == "first"
    assert counted(tree) == {"type=shop|outcome=given": 1, "type=shop|outcome=repeated": 1}


def test_nobody_asked_and_nothing_is_sent(tree: Harness) -> None:
    receipt = tree.send("shop", Wanted(item="x"))
    tree.run()

    assert tree.fate(receipt).state == "applied"
    assert counted(tree) == {}
    assert tree.directives("shop") == [{"reply": ""}]


@pytest.mark.parametrize("place", ["r", "reply:shop#never-sent", "reply:nobody#t-1"])
def test_a_reply_to_a_place_that_nobody_waits_at_costs_nothing_and_is_counted(
    tree: Harness, place: str
) -> None:
    receipt = tree.send("shop", Wanted(item="x"), replyto=place)
    tree.run()

    assert tree.fate(receipt).state == "applied"
    assert counted(tree) == {"type=shop|outcome=unknown": 1}
    key = tree.client.keys.reply(place.removeprefix("reply:"))
    assert not tree.client.connection.command(Command(("EXISTS", key), int))


@pytest.mark.parametrize(
    ("what", "data", "reason", "error"),
    [
        ("wanted", {"item": "nothing"}, "rejected", "not for sale"),
        ("wanted", {"thing": 1}, "bad_data", "item"),
        ("nobody.handles.this", None, "unhandled", "nobody.handles.this"),
        ("crash", None, "exception", "RuntimeError: told to"),
        ("delegate", "nothing", "rejected", "not for sale"),  # and it is a dead letter of another agent
    ],
)
def test_a_dead_letter_is_told_at_once(
    tree: Harness, what: str, data: object, reason: str, error: str
) -> None:
    for _ in range(2):  # who asks again hears the same
        with pytest.raises(errors.Dead, match=reason) as caught:
            tree.client.ask("shop", what, data, id="t-1", timeout=3600)
        assert caught.value.reason.startswith(reason) and error in caught.value.error
        assert caught.value.receipt.signal_id == "t-1"
    assert tree.status("shop") == "running"


def test_a_signal_whose_process_dies_in_it_is_told_when_it_is_a_dead_letter(tree: Harness) -> None:
    tree.kill("shop", at="in_handler", reason="deadline", times=2)

    with pytest.raises(errors.Dead, match="max_attempts"):
        tree.client.ask("shop", Wanted(item="x"))


def test_a_dead_letter_that_is_retried_may_be_answered_yet(tree: Harness) -> None:
    with pytest.raises(errors.Dead):
        tree.client.ask("shop", "crash", id="t-1")
    [(letter, _)] = tree.client.dead_letters("shop")
    tree.client.connection.command(
        Command(("XADD", tree.client.keys.dead("shop"), "*", "id", "t-1", "type", "wanted", "source", "s",
                 "data", '{"item":"x"}', "replyto", "reply:shop#t-1", "reason", "x"), str))  # fmt: skip
    [_, (mended, _)] = tree.client.dead_letters("shop")
    tree.client.dead_drop("shop", letter)

    tree.client.dead_retry("shop", mended)
    tree.run()

    assert tree.client.ask("shop", "crash", id="t-1") == {"item": "x", "cents": 500}


def test_another_agent_may_answer(tree: Harness) -> None:
    assert tree.client.ask("shop", "delegate", "x")["cents"] == 700


def test_killed_at_any_step_the_reply_comes_once(tree: Harness) -> None:
    for number, step in enumerate(("after_read", "in_handler", "before_commit", "after_commit")):
        tree.kill("shop", at=step)  # type: ignore[arg-type]
        assert tree.client.ask("shop", Wanted(item="x"), id=f"t-{number}")["cents"] == 500

    assert tree.state("shop", Shop).asked == 4
    assert counted(tree) == {"type=shop|outcome=given": 4}


# A signal is handed on.


def test_a_forwarded_signal_is_as_it_was_one_hop_on_and_its_reply_goes_to_who_asked(tree: Harness) -> None:
    seen = tree.client.ask("shop", "handed.on", [1, 2], id="t-1", subject="s", source="web")

    assert seen == ["handed.on", [1, 2], "s", "web", "t-1", 1]


def test_a_ring_of_forwards_ends_at_the_most_hops_and_who_asked_is_told(tree: Harness) -> None:
    with pytest.raises(errors.Dead, match="max_hops"):
        tree.client.ask("shop", "round")

    [letter] = tree.dead_letters("shop")
    assert letter["reason"] == "max_hops" and letter["target"] == "shop"
    assert len(tree.journal("shop")) == Limits().max_hops + 1


# Agents ask each other.


def test_an_agent_is_replied_to_by_a_signal_with_its_tag(tree: Harness) -> None:
    tree.send("shop", "buy", "pen")
    tree.send("shop", "buy", "ink")
    tree.run()

    assert tree.state("shop", Shop).heard == ("buy-pen: 700", "buy-ink: 700")
    assert tree.directives("shop")[0] == {"ask": "wanted", "to": "back", "tag": "buy-pen"}


def test_an_agent_that_asked_is_told_of_a_dead_letter(tree: Harness) -> None:
    tree.send("shop", "buy", "nothing")
    tree.run()

    assert tree.state("shop", Shop).heard == ("buy-nothing: rejected: not for sale",)


def test_an_agent_that_asked_is_told_when_the_other_ones_process_dies_in_it(tree: Harness) -> None:
    tree.kill("back", at="in_handler", reason="memory", times=2)
    tree.send("shop", "buy", "pen")
    tree.run()

    [heard] = tree.state("shop", Shop).heard
    assert heard.startswith("buy-pen: max_attempts:")


def test_the_reply_to_an_agent_that_is_gone_is_a_dead_letter_of_who_replied(tree: Harness) -> None:
    tree.send("back", Wanted(item="x"), replyto=AgentPlace("nobody", "t").text)
    tree.run()

    [letter] = tree.dead_letters("back")
    assert (letter["reason"], letter["type"], letter["target"]) == ("no_such_agent", "agent.reply", "nobody")
    assert json.loads(letter["data"]) == {"tag": "t", "value": {"item": "x", "cents": 700}}
