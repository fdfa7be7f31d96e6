"""Timers as what a commit writes: their ids, their records, their line in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrow_signals.limits import Limits
from regrow_signals.timers import CancelAppend, TimerAppend, timer_id
from regrow_workers.delivery import Delivery
from regrow_workers.emit_fields import OVERHEAD, signal_fields
from regrow_workers.timers import Cancel, Cron, Schedule, TimerDirective
from regrow_workers.trace_context import TRACE_FIELDS

if TYPE_CHECKING:
    from regrow_workers.directive_appends import Appends

__all__ = ["lay_cancel", "lay_timer"]


def lay_timer(
    appends: Appends, timer: TimerDirective, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """A timer without a tag is named by birth, acceptance and place: a signal applied again asks for the same one.

    Its signal begins at no hops: who sets a timer in answer to a timer may do so for ever.
    """
    agent = delivery.addressee.agent
    fields = signal_fields(timer, append_id, delivery, limits)
    record = {name: value for name, value in fields.items() if name not in ("id", "source", "hops")}
    record |= {"set": append_id, "to": timer.to or agent}
    line = {"timer": timer.type}
    if timer.to is not None:
        line["to"] = timer.to
    if timer.tag is not None:
        line["tag"] = record["tag"] = timer.tag
    after_ms = due_ms = None
    if isinstance(timer, Cron):
        # Or one trace would never end.
        record = {name: value for name, value in record.items() if name not in TRACE_FIELDS}
        record |= {"kind": "cron", "expression": timer.expression, "tz": timer.tz, "missed": timer.missed}
        line |= {"cron": timer.expression, "tz": timer.tz}
    elif isinstance(timer, Schedule):
        record["kind"] = "once"
        after_ms, due_ms = timer.after_ms, timer.at_ms
        line |= {"after_ms": str(after_ms)} if due_ms is None else {"at_ms": str(due_ms)}
    # `@` begins no tag.
    name = timer_id(agent, timer.tag or f"@{append_id}")
    appends.others.append(TimerAppend(name, limits.max_timers, record, after_ms, due_ms))
    appends.size += len(fields["data"].encode()) + 2 * OVERHEAD
    return line


def lay_cancel(
    appends: Appends, cancel: Cancel, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    del append_id, limits
    appends.others.append(CancelAppend(timer_id(delivery.addressee.agent, cancel.tag)))
    appends.size += OVERHEAD
    return {"cancel": cancel.tag}
