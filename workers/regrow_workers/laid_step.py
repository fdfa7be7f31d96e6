"""A transition with its directives laid out: what a commit will hold of it, or why no commit can. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from regrow_signals.errors import DirectiveRefused, NotStrictJSON, TooLarge
from regrow_signals.limits import Limits
from regrow_signals.notices import NOTICE, parent_after
from regrow_workers.delivery import Delivery
from regrow_workers.directive_appends import NOTHING, Appends, lay_out
from regrow_workers.directives import Emit
from regrow_workers.outcomes import (
    HookFailed,
    Impossible,
    NewState,
    Outcome,
    Unchanged,
    UnhandledType,
    Unstorable,
    WrongMode,
)
from regrow_workers.tracebacks import exception_trace
from regrow_workers.transition import crashed

__all__ = ["laid_step"]

_UNHANDLED = (UnhandledType, WrongMode)


def laid_step(outcome: Outcome, delivery: Delivery, limits: Limits) -> tuple[Outcome, Appends]:
    """The outcome, another one where its directives cannot be written, and what is to be written."""
    fields = delivery.fields
    if type(outcome) in _UNHANDLED and NOTICE in fields and parent_after(fields) is not None:
        return Unchanged(()), NOTHING  # it changes the agent's parent, whether a handler cares or not
    if type(outcome) is not NewState and type(outcome) is not Unchanged:
        return _with_alerts(outcome, delivery, limits)
    appends = NOTHING
    if outcome.directives:
        try:
            appends = lay_out(outcome.directives, delivery, limits)
        except DirectiveRefused as error:
            return Impossible(error.reason, error.why), NOTHING
        except TooLarge as error:
            return Unstorable("signal_too_large", str(error)), NOTHING
        except NotStrictJSON as error:
            return Unstorable("not_strict_json", str(error)), NOTHING
        except Exception as error:  # noqa: BLE001  a payload's own serializer is the author's code, as the handler is
            return crashed(error), NOTHING
    size = appends.size + (2 * len(outcome.encoded) if type(outcome) is NewState else 0)
    if size > limits.commit_bytes:
        why = f"its step is about {size:,} bytes; a commit holds {limits.commit_bytes:,}"
        return Unstorable("commit_too_large", why), NOTHING
    return outcome, appends


def _with_alerts(outcome: Outcome, delivery: Delivery, limits: Limits) -> tuple[Outcome, Appends]:
    """A failure, and what middleware sends because of it."""
    alerts: Sequence[Emit] = getattr(outcome, "alerts", ())
    if not alerts:
        return outcome, NOTHING
    try:
        appends = lay_out(alerts, delivery, limits)
    except (TooLarge, NotStrictJSON) as error:
        return HookFailed(f"what on_error() sends cannot be sent: {error}"), NOTHING
    except Exception as error:  # noqa: BLE001  a payload's own serializer, as above
        return HookFailed(f"what on_error() sends cannot be sent: {exception_trace(error)}"), NOTHING
    if appends.size > limits.commit_bytes:
        why = f"what on_error() sends is about {appends.size:,} bytes; a commit holds {limits.commit_bytes:,}"
        return HookFailed(why), NOTHING
    return outcome, appends
