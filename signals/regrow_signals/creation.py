"""Sending to an agent that may not be there yet: registration, the request for its start and the signal in one step.

Nothing is lost if the sender dies right after: what is in the mailbox is applied once the watchdog has started it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from regrow_signals.answers import answer
from regrow_signals.calls import Arg, Call
from regrow_signals.decisions import Register, registration, spec_subscriptions
from regrow_signals.errors import RegrowError
from regrow_signals.ids import check_id, new_id
from regrow_signals.keys import Keys
from regrow_signals.leadership import MAX_EXITS
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Outgoing, Receipt, entry_words, receipt_of
from regrow_signals.scripts import declare

__all__ = ["CREATE_OP", "Creation", "create_and_send", "record_json"]

_LIMITS: Final = Limits()

CREATE_OP: Final = "create"
"""The ``op`` of the request that the script leaves for the watchdog."""

CREATE: Final = declare(
    "create",
    keys=[
        "counters", "agents", "exits", "supervisor", "agent", "mailbox", "dead", "seen", "seen_old", "fate",
    ],
    args=[
        "max_mailbox", "max_dead", "window_ms", "max_ids", "max_exits", "agent_id", "path", "spec", "request",
        "registration", "id", "digest",
    ],
    arg_tail="fields",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Creation:
    """An agent to be made where it is not there: its record, and its child's stored form (JSON) for the watchdog."""

    record: Register
    spec: str


def create_and_send(keys: Keys, limits: Limits, creation: Creation, outgoing: Outgoing) -> Call[Receipt]:
    """Accept one signal; where the agent is not registered, register it first and ask for its start.

    An agent that is there just gets the signal, whatever became of it. Raises what ``send`` raises, and, with nothing
    changed, ``SupervisorNotFound``, ``NotDynamic``. A repeat of a remembered id is harmless.
    """
    new, agent, signal = creation.record, outgoing.agent, outgoing.signal
    path = check_id(new.supervisor, "supervisor")
    names = (
        keys.counters, keys.agents, keys.exits, keys.supervisor(path), keys.agent(check_id(agent, "agent")),
        keys.mailbox(agent), keys.dead(agent), keys.seen(agent), keys.seen_old(agent), keys.fate(agent),
    )  # fmt: skip
    args: tuple[Arg, ...] = (
        limits.max_mailbox, limits.max_dead, limits.dedupe_window_ms, limits.dedupe_ids, MAX_EXITS, agent, path,
        creation.spec, new_id(), record_json(new, limits), signal.id,
        signal.content_digest() if outgoing.remember else "", *entry_words(signal),
    )  # fmt: skip

    def parse(reply: Any) -> Receipt:
        if reply[0] == "corrupt":
            answer(reply, agent)
        result = receipt_of(outgoing, reply)
        if isinstance(result, RegrowError):
            raise result
        return result

    return Call(CREATE, names, args, parse, repeatable=outgoing.remember, hint=agent)


def record_json(new: Register, limits: Limits = _LIMITS) -> str:
    """As the scripts read it: strings and lists only, so that cjson changes nothing."""
    fresh, fields = registration(new)
    flat = {
        name: [word for pair in part.items() for word in pair]
        for name, part in (("fresh", fresh), ("fields", fields), ("first", new.first_entry()))
    }
    named = {"birth": new.birth, "type": new.type, "max_mailbox": fields["max_mailbox"]}
    return json.dumps({**flat, **named, **spec_subscriptions(new, limits)}, ensure_ascii=True)
