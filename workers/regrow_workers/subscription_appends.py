"""How ``Subscribe`` and ``Unsubscribe`` are laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from regrow_signals.limits import Limits
from regrow_signals.subscriptions import SubscribeAppend, UnsubscribeAppend
from regrow_workers.delivery import Delivery
from regrow_workers.emit_fields import OVERHEAD
from regrow_workers.subscription_directives import Subscribe, Unsubscribe

if TYPE_CHECKING:
    from regrow_workers.directive_appends import Appends

__all__ = ["lay_subscribe", "lay_unsubscribe"]


def lay_subscribe(
    appends: Appends, asked: Subscribe, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """Its bounds are those of who commits it."""
    del append_id
    entry = delivery.entry
    appends.others.append(SubscribeAppend(asked.pattern, asked.priority, asked.policy, limits, entry))
    appends.size += OVERHEAD
    return {"subscribe": asked.pattern}


def lay_unsubscribe(
    appends: Appends, asked: Unsubscribe, append_id: str, delivery: Delivery, limits: Limits
) -> Mapping[str, str]:
    """Nothing of it can fail."""
    del append_id, delivery, limits
    appends.others.append(UnsubscribeAppend(asked.pattern))
    appends.size += OVERHEAD
    return {"unsubscribe": asked.pattern}
