"""One signal asks for all effects; each outcome is a signal that fills in its place; the last one joins.

No barrier and no counter beside the state: that a place is empty is what says that its effect is not done.
"""

from __future__ import annotations

import asyncio
import time

from pydantic import Field

from regrow import (
    Agent,
    Context,
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


class CountWords(Payload, type="book.count-words"):
    pages: tuple[str, ...]


class Counted(Payload):
    page: int
    words: int


@effect(retries=10, backoff=0.1)
def count(_run: EffectContext, page: int, text: str) -> Counted:
    """A ``def`` has a process to itself meanwhile: for what computes."""
    time.sleep(0.05)
    return Counted(page=page, words=len(text.split()))


@effect(retries=10, backoff=0.1)
async def ask_counter(_run: EffectContext, page: int, text: str) -> Counted:
    """An ``async def`` waits in one process with all others: for what waits."""
    await asyncio.sleep(0.5)
    return Counted(page=page, words=len(text.split()))


class Count(State):
    words: dict[int, int | None] = Field(default_factory=dict)
    """By page; None until it is counted."""
    asked_by: str | None = None
    joined: int = 0
    """How often all of them were there: once, or this example is wrong."""


class Book(Agent[Count], name="book"):
    @handles(CountWords)
    def start(self, count_: Count, wanted: CountWords, ctx: Context) -> Step[Count]:
        pages = list(enumerate(wanted.pages))
        runs = [(ask_counter if page % 2 else count).run(page, text) for page, text in pages]
        return count_.evolve(words={page: None for page, _ in pages}, asked_by=ctx.reply_to), runs

    @handles(count.done, ask_counter.done)
    def counted(self, count_: Count, done: Done[Counted]) -> Step[Count]:
        words = {**count_.words, done.result.page: done.result.words}
        total = [each for each in words.values() if each is not None]
        if len(total) < len(words):
            return count_.evolve(words=words)
        return count_.evolve(words=words, joined=count_.joined + 1), Reply(sum(total), to=count_.asked_by)

    @handles(count.failed, ask_counter.failed)
    def failed(self, count_: Count, failed: Failed) -> Step[Count]:
        """No page can be left out: whoever asked hears it at once."""
        return Reply(f"cannot be counted: {failed.error}", to=count_.asked_by)


tree = Supervisor("library", [Book.child("book")], max_restarts=100)
