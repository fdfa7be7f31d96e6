"""Directives as what a commit appends: emits and effects with their ids, their line in the journal, and a stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from regrow_signals.commits import SUBSCRIBERS, DirectiveAppend, EffectAppend, EmitAppend
from regrow_signals.effect_tags import EffectCancelAppend, EffectTagAppend
from regrow_signals.errors import ImpureHandler
from regrow_signals.limits import Limits
from regrow_signals.publishing import PublishAppend
from regrow_signals.strict_json import dumps
from regrow_workers.asking import Ask, Forward, Reply
from regrow_workers.asking_appends import lay_ask, lay_forward, lay_reply
from regrow_workers.delivery import Delivery
from regrow_workers.directives import CancelEffect, Directive, EffectRun, Emit, Stop
from regrow_workers.emit_fields import OVERHEAD, signal_fields
from regrow_workers.family_directives import (
    Adopt,
    Demonitor,
    LaidOut,
    Monitor,
    Spawn,
    StopChild,
    lay_out_adopt,
    lay_out_demonitor,
    lay_out_monitor,
    lay_out_spawn,
    lay_out_stop_child,
)
from regrow_workers.subscription_appends import lay_subscribe, lay_unsubscribe
from regrow_workers.subscription_directives import Subscribe, Unsubscribe
from regrow_workers.timer_appends import lay_cancel, lay_timer
from regrow_workers.timers import Cancel, TimerDirective
from regrow_workers.trace_context import caused_trace

__all__ = ["NOTHING", "OVERHEAD", "Appends", "lay_out", "signal_fields"]


@dataclass(slots=True)
class Appends:
    """What one transition's directives come to; ``size`` is about its bytes in the commit."""

    emits: list[EmitAppend] = field(default_factory=list[EmitAppend])
    effects: list[EffectAppend] = field(default_factory=list[EffectAppend])
    others: list[DirectiveAppend] = field(default_factory=list[DirectiveAppend])
    journal: str = "[]"
    size: int = 0
    stop: Stop | None = None

    def weight(self) -> int:
        """How many of a commit's appends they come to."""
        return len(self.emits) + len(self.effects) + sum(other.weight for other in self.others)


NOTHING: Final = Appends()
"""Of no directives. Shared: nobody adds to it."""


def lay_out(directives: Sequence[Directive], delivery: Delivery, limits: Limits) -> Appends:
    """Ids come from birth, acceptance id and place, so a signal applied again asks for the same, not for more.

    Raises ``NotStrictJSON`` or ``TooLarge`` for data that cannot be stored, ``DirectiveRefused`` for what can never be
    carried out, ``ImpureHandler`` for an unknown directive.
    """
    appends = Appends()
    lines: list[Mapping[str, str]] = []
    for place, directive in enumerate(directives):
        append_id = f"{delivery.addressee.birth}:{delivery.entry}:{place}"
        layer = next((_LAYERS[kind] for kind in type(directive).__mro__ if kind in _LAYERS), None)
        if layer is None:
            known = ", ".join(sorted(kind.__name__ for kind in _LAYERS))
            raise ImpureHandler(
                f"{type(directive).__name__} is no directive of regrow's; they are {known} (made by effect.run)"
            )
        lines.append(layer(appends, directive, append_id, delivery, limits))
    appends.journal = dumps(lines)
    appends.size += len(appends.journal)
    return appends


def _emit(
    appends: Appends, emit: Emit, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    fields = signal_fields(emit, append_id, delivery, limits)
    if emit.reply_to is not None:
        fields["replyto"] = emit.reply_to
    appends.emits.append(EmitAppend(emit.to or SUBSCRIBERS, fields))
    appends.size += len(fields["data"].encode()) + OVERHEAD
    if emit.to is None:
        appends.others.append(PublishAppend(emit.type, limits))
        return {"publish": emit.type}
    return {"emit": emit.type, "to": emit.to}


def _effect(
    appends: Appends, run: EffectRun, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    args = run.args_json(limits)
    cause = f"{delivery.addressee.birth}:{delivery.entry}"
    appends.effects.append(
        EffectAppend(
            effect_id=append_id,
            name=run.name,
            args=args,
            timeout_ms=run.timeout_ms,
            retries=run.retries,
            idempotent=run.idempotent,
            backoff_ms=run.backoff_ms,
            awaited=run.awaited,
            **caused_trace(delivery.fields, cause, append_id),
        )
    )
    appends.size += len(args.encode()) + OVERHEAD
    if run.tag is None:
        return {"effect": run.name}
    appends.others.append(EffectTagAppend(append_id, run.tag))
    appends.size += OVERHEAD
    return {"effect": run.name, "tag": run.tag}


def _cancel_effect(
    appends: Appends, cancel: CancelEffect, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    del append_id, delivery, limits
    appends.others.append(EffectCancelAppend(cancel.tag, cancel.name or ""))
    appends.size += OVERHEAD
    line = {"cancel_effect": cancel.tag}
    return line if cancel.name is None else {**line, "name": cancel.name}


def _stop(
    appends: Appends, stop: Stop, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    del append_id, delivery, limits
    appends.stop = appends.stop or stop
    return {"stop": stop.reason}


def _family(
    lay_out_one: Callable[[Any, str, Delivery, Limits], LaidOut],
) -> Callable[[Appends, Any, str, Delivery, Limits], Mapping[str, str]]:
    """A directive of ``family_directives.py``."""

    def layer(
        appends: Appends, directive: Any, append_id: str, delivery: Delivery, limits: Limits
    ) -> Mapping[str, str]:
        append, line, size = lay_out_one(directive, append_id, delivery, limits)
        appends.others.append(append)
        appends.size += size + OVERHEAD
        return line

    return layer


_LAYERS: Final[
    Mapping[type[Directive], Callable[[Appends, Any, str, Delivery, Limits], Mapping[str, str]]]
] = {
    Emit: _emit,
    EffectRun: _effect,
    CancelEffect: _cancel_effect,
    Stop: _stop,
    Reply: lay_reply,
    Ask: lay_ask,
    Forward: lay_forward,
    TimerDirective: lay_timer,
    Cancel: lay_cancel,
    Spawn: _family(lay_out_spawn),
    Adopt: _family(lay_out_adopt),
    StopChild: _family(lay_out_stop_child),
    Monitor: _family(lay_out_monitor),
    Demonitor: _family(lay_out_demonitor),
    Subscribe: lay_subscribe,
    Unsubscribe: lay_unsubscribe,
}
"""How each kind of directive is laid out; its line in the journal comes back."""
