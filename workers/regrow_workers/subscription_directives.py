"""``Subscribe`` and ``Unsubscribe``: what of the published signals an agent wants, by its own word."""

from __future__ import annotations

from dataclasses import dataclass

from regrow_signals.routing import Pattern
from regrow_signals.subscriptions import Policy, check_subscription
from regrow_workers.directives import Directive

__all__ = ["Subscribe", "Unsubscribe"]


@dataclass(frozen=True, slots=True)
class Subscribe(Directive):
    """Get what is published under types that ``pattern`` fits: ``*`` is one segment, ``**`` any number, also none.

    The higher ``priority`` (-100 to 100) is served first. ``policy`` says what is done while the mailbox is full:
    ``refuse`` tells the publisher, ``hold`` has it wait in the publishing agent's outbox, ``latest`` drops the oldest
    waiting signal of its type for it. It counts for what is published after the commit.
    """

    pattern: str
    priority: int = 0
    policy: Policy = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", check_subscription(self.pattern, self.priority, self.policy))


@dataclass(frozen=True, slots=True)
class Unsubscribe(Directive):
    """End the agent's subscription to ``pattern``, if it has one."""

    pattern: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", Pattern.parse(self.pattern).text)
