"""Publishing from outside: one signal to everyone who subscribes to its type, with an answer for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from regrow_signals.answers import answer
from regrow_signals.calls import Arg, Call
from regrow_signals.commits import DirectiveAppend
from regrow_signals.errors import RegrowError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Outgoing, Receipt, entry_words, receipt_of
from regrow_signals.scripts import declare
from regrow_signals.signal import Signal

__all__ = ["PublishAppend", "Published", "publish"]

R = TypeVar("R", bound=Receipt)

PUBLISH: Final = declare(
    "publish",
    keys=["counters", "events", "subscriptions", "wildcards", "subscribers"],
    args=[
        "prefix", "type_name", "max_subscribers", "max_events", "max_mailbox", "max_dead", "window_ms", "max_ids", "id",
        "digest",
    ],
    arg_tail="fields",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published(Generic[R]):
    """What became of a published signal at each subscriber, in the order in which they were served.

    ``refused`` names those that did not get it, each with its error; ``MailboxFull`` is the usual one. Publishing the
    same id again reaches only those. Nobody in either: nobody subscribes to the type.
    """

    signal_id: str
    receipts: tuple[R, ...]
    refused: Mapping[str, RegrowError]


@dataclass(frozen=True, slots=True)
class PublishAppend(DirectiveAppend):
    """Goes with an emit to ``SUBSCRIBERS``: finds whom its type reaches, before anything is written."""

    kind: ClassVar[str] = "publish"
    weight: ClassVar[int] = 100
    type_name: str
    limits: Limits

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        del agent
        return keys.wildcards, keys.subscribers(self.type_name)

    def words(self) -> Sequence[Arg]:
        return self.type_name, self.limits.max_subscribers


def publish(keys: Keys, limits: Limits, signal: Signal) -> Call[Published[Receipt]]:
    """Publish one signal. Each subscriber remembers its id, so a repeat changes nothing for those who have it.

    Raises ``TooManySubscribers``: then nobody got it.
    """
    names = (
        keys.counters, keys.events, keys.subscriptions, keys.wildcards, keys.subscribers(signal.type),
    )  # fmt: skip
    args: tuple[Arg, ...] = (
        f"{keys.tag}:", signal.type, limits.max_subscribers, limits.max_events, limits.max_mailbox, limits.max_dead,
        limits.dedupe_window_ms, limits.dedupe_ids, signal.id, signal.content_digest(), *entry_words(signal),
    )  # fmt: skip

    def parse(reply: Any) -> Published[Receipt]:
        receipts: list[Receipt] = []
        refused: dict[str, RegrowError] = {}
        for agent, *said in answer(reply, signal.type)[1:]:
            result = receipt_of(Outgoing(agent, signal), said)
            if isinstance(result, Receipt):
                receipts.append(result)
            else:
                refused[agent] = result
        return Published(signal.id, tuple(receipts), refused)

    return Call(PUBLISH, names, args, parse, repeatable=True, hint=signal.type)
