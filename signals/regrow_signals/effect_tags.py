"""Tags of effects: what a commit writes of them, and the cancelling of all effects of an agent that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from regrow_signals.answers import answer
from regrow_signals.calls import Arg, Call
from regrow_signals.commits import DirectiveAppend
from regrow_signals.keys import Keys
from regrow_signals.scripts import declare

__all__ = ["EffectCancelAppend", "EffectTagAppend", "cancel_tagged"]

CANCEL: Final = declare(
    "effect_cancel",
    keys=["tags", "cancelling", "effects", "agent"],
    args=["prefix", "agent_id", "tag", "name"],
)


def cancel_tagged(keys: Keys, agent: str, tag: str, name: str = "") -> Call[tuple[int, int]]:
    """Cancel an agent's effects of this tag (of one ``name``; empty: of any): how many never ran, how many are to stop.

    Those in executors' hands are told to; their outcome is ``cancelled``, or what the call comes to before it hears it.
    Raises ``NoSuchAgent``.
    """
    names = (keys.effect_tags(agent), keys.cancelling, keys.effects, keys.agent(agent))
    args = (f"{keys.tag}:", agent, tag, name)

    def parse(reply: Any) -> tuple[int, int]:
        _, waiting, stopping = answer(reply, agent)
        return int(waiting), int(stopping)

    return Call(CANCEL, names, args, parse, repeatable=True, hint=agent)


@dataclass(frozen=True, slots=True)
class EffectTagAppend(DirectiveAppend):
    """Goes with an effect that has a tag."""

    kind: ClassVar[str] = "effect_tag"
    effect_id: str
    tag: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return keys.effect_tags(agent), keys.effect(self.effect_id)

    def words(self) -> Sequence[Arg]:
        return self.effect_id, self.tag


@dataclass(frozen=True, slots=True)
class EffectCancelAppend(DirectiveAppend):
    """Cancel this agent's effects of a tag; ``name`` empty: of any name."""

    kind: ClassVar[str] = "effect_cancel"
    tag: str
    name: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return (keys.effect_tags(agent),)

    def words(self) -> Sequence[Arg]:
        return self.tag, self.name
