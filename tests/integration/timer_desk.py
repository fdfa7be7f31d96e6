"""An agent that sets timers, for tests of what becomes of them."""

from __future__ import annotations

from typing import Any

from regrow_signals.agents import Loaded, Owner
from regrow_signals.commits import DirectiveAppend
from regrow_signals.timers import TimerAppend
from tests.integration.stage import Stage

__all__ = ["Desk", "raw_of"]


def raw_of(stage: Stage) -> Any:
    """redis-py types its replies as if they could be bytes, and awaited."""
    return stage.raw


class Desk:
    """Agent ``a``, which commits what it is told to."""

    def __init__(self, stage: Stage, agent: str = "a") -> None:
        self.stage = stage
        self.agent = agent
        self.owner: Owner
        self.loaded: Loaded
        self.owner, self.loaded = stage.live(agent)

    def commit(self, *others: DirectiveAppend) -> None:
        """All that waits is taken, one signal more at least, and these directives are committed."""
        entry = self.stage.feed(self.agent)[-1]
        self.stage.commit(self.stage.plan(self.owner, self.loaded, entry, others=others))
        self.owner, self.loaded = self.stage.claim(self.agent, self.owner.token)

    def timer(
        self, tag: str = "t", *, after_ms: int | None = 0, most: int = 1000, **fields: str
    ) -> TimerAppend:
        """A timer of this agent to itself; ``after_ms`` None: of a kind that recurs."""
        record = {
            "kind": "once", "set": f"{self.loaded.birth}:{self.loaded.cursor}:{tag}", "to": self.agent, "tag": tag,
            "type": "late", "data": '{"n":1}', **fields,
        }  # fmt: skip
        return TimerAppend(f"{self.agent}#{tag}", most, record, after_ms)

    def every(self, tag: str = "t", ms: int = 200, missed: str = "skip") -> TimerAppend:
        return self.timer(tag, after_ms=None, kind="every", every_ms=str(ms), missed=missed)

    def age(self, tag: str, ms: int) -> None:
        """It was set, and is due, so much earlier."""
        name = f"{self.agent}#{tag}"
        key = self.stage.keys.timer(name)
        for field in ("set_ms", "due_ms"):
            raw_of(self.stage).hincrby(key, field, -ms)
        raw_of(self.stage).zadd(
            self.stage.keys.timers, {name: float(raw_of(self.stage).hget(key, "due_ms") or 0)}
        )

    def took(self) -> list[dict[str, str]]:
        """The signals of timers that wait for it."""
        return [
            fields
            for fields in self.stage.entries(self.stage.keys.mailbox(self.agent))
            if fields["type"] == "late"
        ]

    def letters(self) -> list[tuple[str, str]]:
        return [
            (letter["reason"], letter["type"])
            for letter in self.stage.entries(self.stage.keys.dead(self.agent))
        ]
