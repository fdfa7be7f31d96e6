"""One pooled agent for each chat, made by its first message; the conversation is its state.

    you ─ Said ─> Chat ─ complete ─> model ─┬─ text: the answer
                   ^                        └─ calls: weather, book ...
                   └──────── results ────────────┘

The model and its tools are ``async def`` effects: a thousand chats wait in one process. ``client.ask`` gets the answer
of the model, however many tools, deaths and seconds lie between.
"""

from __future__ import annotations

from typing import Literal

from regrow import (
    Agent,
    Context,
    Directive,
    Done,
    EffectContext,
    Failed,
    Payload,
    Reply,
    State,
    Step,
    Supervisor,
    effect,
    handles,
)

from . import provider

SHOWN = 500
"""Characters that are shown of an answer while it streams."""


class ToolCall(Payload):
    id: str
    """Of this call in this chat, given by the model."""
    tool: Literal["weather", "book"]
    about: str


class Message(Payload):
    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    """What the model wants to know before it answers."""
    call: str = ""
    """Of a tool's message: which call it answers."""


class Said(Payload, type="chat.said"):
    text: str


@effect(timeout=20, retries=20, backoff=0.1)
async def complete(run: EffectContext, messages: tuple[Message, ...]) -> Message:
    """Asking a model twice does no harm. A stream that breaks off is an exception: another try.

    What has come so far is for whoever watches; what counts is the result.
    """
    words: list[str] = []
    calls: list[ToolCall] = []
    async for piece in provider.stream("chat", {"messages": [each.model_dump() for each in messages]}):
        words.append(piece.get("text", ""))
        run.progress({"text": "".join(words)[-SHOWN:]})
        calls += [ToolCall(**call) for call in piece.get("calls", ())]
    return Message(role="assistant", text="".join(words), calls=tuple(calls))


@effect(timeout=20, retries=20, backoff=0.1)
async def weather(_run: EffectContext, call: ToolCall) -> Message:
    """Only looks."""
    found = await provider.post("weather", {"place": call.about})
    return Message(role="tool", text=found["weather"], call=call.id)


@effect(timeout=20, retries=20, backoff=0.1)
async def book(run: EffectContext, call: ToolCall) -> Message:
    """``run.id`` is the same on every try, and the restaurant knows it again: one table."""
    found = await provider.post("book", {"place": call.about}, key=run.id)
    return Message(role="tool", text=found["table"], call=call.id)


class Conversation(State):
    messages: tuple[Message, ...] = ()
    sent: int = 0
    """So many of them does the model know, or is it thinking about."""
    open_calls: tuple[str, ...] = ()
    thinking: bool = False
    asked_by: tuple[str, ...] = ()
    """Where the next answer goes."""


class Chat(Agent[Conversation], name="chat"):
    @handles(Said)
    def said(self, chat: Conversation, said: Said, ctx: Context) -> Step[Conversation]:
        asked_by = (*chat.asked_by, ctx.reply_to) if ctx.reply_to else chat.asked_by
        chat = heard(chat, Message(role="user", text=said.text)).evolve(asked_by=asked_by)
        return chat if chat.thinking or chat.open_calls else think(chat)

    @handles(complete.done)
    def completed(self, chat: Conversation, done: Done[Message]) -> Step[Conversation]:
        message = done.result
        said_meanwhile = len(chat.messages) > chat.sent
        chat = heard(chat, message).evolve(thinking=False)
        if message.calls:
            return chat.evolve(open_calls=tuple(call.id for call in message.calls)), list(
                map(tool, message.calls)
            )
        if said_meanwhile:
            return think(chat)
        return answered(chat, message.text)

    @handles(weather.done, book.done)
    def tool_done(self, chat: Conversation, done: Done[Message]) -> Step[Conversation]:
        return tool_told(chat, done.result)

    @handles(weather.failed, book.failed)
    def tool_failed(self, chat: Conversation, failed: Failed, ctx: Context) -> Step[Conversation]:
        """After the last of its tries. The subject is the tag: which call it was."""
        return tool_told(chat, Message(role="tool", text=failed.error, call=ctx.signal.subject or ""))

    @handles(complete.failed)
    def failed(self, chat: Conversation, failed: Failed) -> Step[Conversation]:
        """The chat goes on with the next message."""
        return answered(chat.evolve(thinking=False), f"Sorry: {failed.error}")


def tool(call: ToolCall) -> Directive:
    return (weather if call.tool == "weather" else book).run(call).tagged(call.id)


def tool_told(chat: Conversation, message: Message) -> Step[Conversation]:
    """Until all calls are answered, the model waits."""
    left = tuple(call for call in chat.open_calls if call != message.call)
    chat = heard(chat, message).evolve(open_calls=left)
    return chat if left else think(chat)


def heard(chat: Conversation, message: Message) -> Conversation:
    return chat.evolve(messages=(*chat.messages, message))


def think(chat: Conversation) -> tuple[Conversation, Directive]:
    return chat.evolve(thinking=True, sent=len(chat.messages)), complete.run(chat.messages)


def answered(chat: Conversation, text: str) -> tuple[Conversation, list[Directive]]:
    return chat.evolve(asked_by=()), [Reply(text, to=place) for place in chat.asked_by]


tree = Supervisor("chats", strategy="dynamic", agents=[Chat], max_restarts=100)

NEW_CHAT = Chat.child(under="chats", isolation="pool")
"""``client.ask("chat-7", Said(text="..."), create=NEW_CHAT)``"""
