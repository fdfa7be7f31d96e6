"""How ``Reply``, ``Ask`` and ``Forward`` are laid out, and what tells an asking agent of a dead letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrow_signals.asks import answer_text
from regrow_signals.commits import EmitAppend
from regrow_signals.limits import Limits
from regrow_signals.reply_places import FAILED, AgentPlace, ReplyAppend, parse_place
from regrow_signals.signal import FIELDS
from regrow_signals.strict_json import dumps
from regrow_workers.asking import Ask, Forward, Reply
from regrow_workers.delivery import Delivery
from regrow_workers.emit_fields import OVERHEAD, caused_fields, signal_fields
from regrow_workers.trace_context import TRACE_FIELDS

if TYPE_CHECKING:
    from regrow_workers.directive_appends import Appends

__all__ = ["death_notice", "lay_ask", "lay_forward", "lay_reply"]

_ERROR_LENGTH = 2000


def lay_reply(
    appends: Appends, reply: Reply, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """To a client: into its list. To an agent: a signal, as any emit."""
    if reply.to is None:
        return {"reply": ""}
    value = reply.value_json(limits)
    place = parse_place(reply.to)
    if isinstance(place, AgentPlace):
        data = f'{{"tag":{dumps(place.tag)},"value":{value}}}'
        fields = caused_fields(append_id, place.type, data, delivery, limits)
        appends.emits.append(EmitAppend(place.agent, fields))
    else:
        appends.others.append(ReplyAppend(place, answer_text(value)))
    appends.size += len(value.encode()) + OVERHEAD
    return {"reply": reply.to}


def lay_ask(
    appends: Appends, ask: Ask, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """An emit that says where its reply goes: back to this agent."""
    fields = signal_fields(ask, append_id, delivery, limits)
    fields["replyto"] = AgentPlace(delivery.addressee.agent, ask.tag, ask.reply).text
    assert ask.to is not None, "its signature says so"
    appends.emits.append(EmitAppend(ask.to, fields))
    appends.size += len(fields["data"].encode()) + OVERHEAD
    return {"ask": ask.type, "to": ask.to, "tag": ask.tag}


def lay_forward(
    appends: Appends, forward: Forward, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """The signal's own fields, under a new id: it is caused by the one that is handed on."""
    own = [name for name in FIELDS if name not in TRACE_FIELDS]
    fields = {name: value for name in own if isinstance(value := delivery.fields.get(name), str)}
    fields |= caused_fields(append_id, delivery.type, delivery.data, delivery, limits)
    fields["source"] = delivery.signal().source
    appends.emits.append(EmitAppend(forward.to, fields))
    appends.size += sum(map(len, fields.values())) + OVERHEAD
    return {"forward": delivery.type, "to": forward.to}


def death_notice(delivery: Delivery, reason: str, error: str, limits: Limits) -> list[EmitAppend]:
    """If an agent asked by this signal, which is a dead letter now: the signal that tells it."""
    replyto = delivery.fields.get("replyto")
    place = parse_place(replyto) if isinstance(replyto, str) else None
    if not isinstance(place, AgentPlace):
        return []
    data = dumps({"tag": place.tag, "reason": reason, "error": error[-_ERROR_LENGTH:]})
    append_id = f"{delivery.addressee.birth}:{delivery.entry}:dead"
    return [EmitAppend(place.agent, caused_fields(append_id, place.type + FAILED, data, delivery, limits))]
