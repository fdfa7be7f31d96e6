"""The chat: a conversation's transitions, tools and all, killed at every step, and the model that is none."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from examples.chat.__main__ import judge
from examples.chat.app import (
    NEW_CHAT,
    Chat,
    Conversation,
    Message,
    Said,
    ToolCall,
    answered,
    book,
    complete,
    tree,
    weather,
)
from examples.chat.stub import Provider, completion
from regrow import Context, Reply, Signal
from regrow.testing import Harness, KillStep, PendingEffect

ASKS = Message(role="user", text="The weather in Kyoto, and a table in Kyoto")
WANTS = Message(
    role="assistant",
    calls=(
        ToolCall(id="call-1-0", tool="weather", about="Kyoto"),
        ToolCall(id="call-1-1", tool="book", about="Kyoto"),
    ),
)


def told(call: str, text: str) -> Message:
    return Message(role="tool", text=text, call=call)


def said(text: str, reply_to: str | None = None) -> tuple[Said, Context]:
    signal = Said(text=text)
    return signal, Context.example(Signal.of(signal), reply_to=reply_to)


def test_what_is_said_goes_to_the_model_with_all_that_was_said_before() -> None:
    before = Conversation(messages=(ASKS,))
    signal, ctx = said("hello", "somebody")

    after, directives = Chat.cmd(before, signal, ctx=ctx)

    assert (after.thinking, after.sent, after.asked_by) == (True, 2, ("somebody",))
    assert directives == [complete.run((ASKS, Message(role="user", text="hello")))]


@pytest.mark.parametrize("busy", [{"thinking": True, "sent": 1}, {"open_calls": ("call-1-0",)}])
def test_what_is_said_meanwhile_waits_for_its_turn(busy: dict[str, Any]) -> None:
    chat, directives = Chat.cmd(Conversation(messages=(ASKS,), **busy), said("and a taxi")[0])

    assert directives == []
    assert [message.text for message in chat.messages] == [ASKS.text, "and a taxi"]


def test_model_is_asked_again_if_something_was_said_while_it_thought() -> None:
    late = Message(role="user", text="and a taxi")
    answer = Message(role="assistant", text="sunny")

    chat, directives = Chat.cmd(
        Conversation(messages=(ASKS, late), sent=1, thinking=True, asked_by=("one",)),
        complete.done(effect="e", result=answer),
    )

    assert directives == [complete.run((ASKS, late, answer))]
    assert chat.asked_by == ("one",)


def test_tools_are_called_at_once_and_the_model_goes_on_when_all_are_back() -> None:
    chat = Conversation(messages=(ASKS,), sent=1, thinking=True, asked_by=("one",))

    chat, directives = Chat.cmd(chat, complete.done(effect="e-1", result=WANTS))
    assert directives == [
        weather.run(WANTS.calls[0]).tagged("call-1-0"),
        book.run(WANTS.calls[1]).tagged("call-1-1"),
    ]
    chat, directives = Chat.cmd(chat, book.done(effect="e-3", result=told("call-1-1", "table 1")))
    assert directives == []
    chat, directives = Chat.cmd(chat, weather.done(effect="e-2", result=told("call-1-0", "sunny")))
    assert directives == [complete.run(chat.messages)]
    chat, directives = Chat.cmd(
        chat, complete.done(effect="e-4", result=Message(role="assistant", text="There."))
    )

    assert directives == [Reply("There.", to="one")]
    assert (chat.thinking, chat.open_calls, chat.asked_by) == (False, (), ())


def test_failure_is_an_answer_too() -> None:
    chat, directives = Chat.cmd(
        Conversation(thinking=True, asked_by=("one",)),
        complete.failed(effect="e", error="down", attempts=21),
    )

    assert (chat.thinking, directives) == (False, [Reply("Sorry: down", to="one")])


def test_tool_that_failed_is_told_to_the_model_under_its_call(harness: type[Harness]) -> None:
    chats = harness(tree)
    chats.client.send("chat-1", Said(text=ASKS.text), create=NEW_CHAT)
    chats.run()
    chats.complete(chats.effects("chat-1")[0], WANTS)
    chats.run()
    sunny, table = chats.effects("chat-1")
    chats.complete(sunny, told("call-1-0", "sunny"))

    while table.id in [each.id for each in chats.effects("chat-1")]:
        chats.fail(table, "closed on Mondays")
        chats.advance(60)

    assert chats.state("chat-1", Chat).messages[-2:] == (
        told("call-1-0", "sunny"),
        told("call-1-1", "closed on Mondays"),
    )
    assert [each.name for each in chats.effects("chat-1")] == ["complete"]


def effect_of(chats: Harness) -> PendingEffect | None:
    return next(iter(chats.effects("chat-1")), None)


@pytest.mark.parametrize("step", get_args(KillStep))
def test_chat_goes_on_though_its_slot_is_killed_and_an_executor_dies_in_every_effect(
    harness: type[Harness], step: KillStep
) -> None:
    chats = harness(tree)
    chats.client.send("chat-1", Said(text=ASKS.text), id="q-1", create=NEW_CHAT)
    chats.run()
    calls: dict[str, int] = {}
    while (effect := effect_of(chats)) is not None:
        chats.kill("chat-1", at=step)
        chats.crash(effect)
        chats.advance(1)
        calls[effect.name] = calls.get(effect.name, 0) + 1
        if effect.name == "complete":
            pieces = list(completion(effect.args["messages"]))
            made = [ToolCall(**call) for piece in pieces for call in piece.get("calls", ())]
            text = "".join(piece.get("text", "") for piece in pieces)
            chats.complete(effect, Message(role="assistant", text=text, calls=tuple(made)))
        else:
            chats.complete(effect, told(effect.args["call"]["id"], f"{effect.name} it is"))
        chats.run()

    chat = chats.state("chat-1", Chat)
    assert calls == {"complete": 2, "weather": 1, "book": 1}
    assert [message.role for message in chat.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert chats.client.ask("chat-1", Said(text=ASKS.text), id="q-1", timeout=0) if chat.asked_by else True
    assert chats.dead_letters("chat-1") == []


def test_restaurant_knows_a_key_again() -> None:
    provider = Provider()

    assert provider.book("k-1", "Lima") == provider.book("k-1", "Lima") == {"table": "table 1 in Lima"}
    assert provider.book("k-2", "Lima") == {"table": "table 2 in Lima"}
    assert provider.tables == {"Lima": 2}


def test_verdict_sees_what_is_there_twice() -> None:
    answer = answered(Conversation(), "x")[0]
    findings = judge([answer], [["x"]], {"Kyoto": 2, "Lima": 1}, ["y"])

    assert [finding.holds for finding in findings] == [False] * 4
