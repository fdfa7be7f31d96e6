"""Where a reply goes: short text in a signal's ``replyto``, that a state may keep and give to ``Reply`` much later.

``reply:<agent>#<signal>`` is the list in which a client waits that asked ``<agent>`` by the signal of that id; ids are
remembered agent by agent, so both name it. ``agent:<agent>#<tag>#<type>`` is a mailbox: the reply comes as a signal of
that type. ``#`` is in no id and no type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from regrow_signals.calls import Arg
from regrow_signals.commits import DirectiveAppend
from regrow_signals.errors import BadInput
from regrow_signals.ids import check_id, check_type
from regrow_signals.keys import Keys

__all__ = ["AGENT_REPLY", "FAILED", "AgentPlace", "ClientPlace", "ReplyAppend", "parse_place"]

AGENT_REPLY: Final = "agent.reply"
"""The type of a reply to an agent that named none."""

FAILED: Final = ".failed"
"""Follows that type where there will be no reply: the signal became a dead letter."""


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """A client that asked ``agent`` by a signal of id ``signal_id``."""

    agent: str
    signal_id: str

    @property
    def text(self) -> str:
        return f"reply:{self.agent}#{self.signal_id}"

    def key(self, keys: Keys) -> str:
        return keys.reply(f"{self.agent}#{self.signal_id}")


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """An agent that asked another one; ``tag`` tells its questions apart."""

    agent: str
    tag: str
    type: str = AGENT_REPLY

    @property
    def text(self) -> str:
        return f"agent:{self.agent}#{self.tag}#{self.type}"


@dataclass(frozen=True, slots=True)
class ReplyAppend(DirectiveAppend):
    """A reply to a waiting client; ``text`` is its JSON as ``asks.py`` reads it. Without a place it is only counted."""

    kind: ClassVar[str] = "reply"
    place: ClientPlace | None
    text: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        if self.place is None:
            return ()
        asked = self.place.agent
        return (self.place.key(keys), keys.seen(asked), keys.seen_old(asked))

    def words(self) -> Sequence[Arg]:
        return () if self.place is None else (self.place.signal_id, self.text)


def parse_place(text: str) -> ClientPlace | AgentPlace | None:
    """The place that ``text`` names; None for what is none of ours."""
    kind, _, rest = text.partition(":")
    agent, *parts = rest.split("#")
    try:
        check_id(agent, "agent")
        if kind == "reply" and len(parts) == 1:
            return ClientPlace(agent, check_id(parts[0], "signal id"))
        if kind == "agent" and len(parts) == 2:
            check_type(parts[1] + FAILED)
            return AgentPlace(agent, check_id(parts[0], "tag"), parts[1])
    except BadInput:
        pass
    return None
