"""Who gets what is published: subscriptions of agents to patterns of types, made and looked at.

One agent has one subscription to a pattern; the last word about its priority and policy counts. Whom a signal reaches
is decided by a script in the step that publishes; ``reached_by`` is the same rule for people who look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, cast, get_args

from regrow_signals.answers import answer
from regrow_signals.calls import Arg, Call, Command, Op
from regrow_signals.commits import DirectiveAppend
from regrow_signals.errors import BadInput, NoSuchAgent
from regrow_signals.ids import check_id, check_type
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.replies import pairs
from regrow_signals.routing import Pattern
from regrow_signals.scripts import declare

__all__ = [
    "MAX_PRIORITY",
    "Policy",
    "SubscribeAppend",
    "Subscription",
    "UnsubscribeAppend",
    "check_subscription",
    "reached_by",
    "subscribe",
    "subscriptions",
    "unsubscribe",
]

Policy = Literal["refuse", "hold", "latest"]
"""What is done where the subscriber's mailbox is full. ``refuse``: the publisher is told. ``hold``: it waits in the
publishing agent's outbox, as an emit does. ``latest``: the oldest waiting one of its type is dropped for it."""

MAX_PRIORITY: Final = 100

SUBSCRIBE: Final = declare(
    "subscribe",
    keys=["agent", "subscriptions", "wildcards", "subscribers"],
    args=["prefix", "agent_id", "pattern", "priority", "policy", "max_subscribers", "max_patterns"],
)
UNSUBSCRIBE: Final = declare(
    "unsubscribe",
    keys=["agent", "subscriptions", "wildcards", "subscribers"],
    args=["prefix", "agent_id", "pattern"],
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One agent's subscription to one pattern. ``order`` counts all that were made in the namespace."""

    agent: str
    pattern: str
    priority: int
    policy: Policy
    order: int


def check_subscription(pattern: str, priority: int, policy: str) -> str:
    """The pattern in its one spelling; ``BadInput`` names what is wrong with any of the three."""
    text = Pattern.parse(pattern).text
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise BadInput(f"priority={priority!r:.40}: a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}")
    if policy not in get_args(Policy):
        raise BadInput(f"policy={policy!r:.40} is none of {', '.join(get_args(Policy))}")
    return text


@dataclass(frozen=True, slots=True)
class SubscribeAppend(DirectiveAppend):
    """The agent subscribes in its own commit; beyond the bounds the signal ``entry`` becomes a dead letter."""

    kind: ClassVar[str] = "subscribe"
    pattern: str
    priority: int
    policy: Policy
    limits: Limits
    entry: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return _names(keys, agent, self.pattern)

    def words(self) -> Sequence[Arg]:
        bounds = self.limits.max_subscribers, self.limits.max_patterns
        return self.pattern, self.priority, self.policy, *bounds, self.entry


@dataclass(frozen=True, slots=True)
class UnsubscribeAppend(DirectiveAppend):
    """The agent ends a subscription of its own, if it has it."""

    kind: ClassVar[str] = "unsubscribe"
    pattern: str

    def keys(self, keys: Keys, agent: str) -> Sequence[str]:
        return _names(keys, agent, self.pattern)

    def words(self) -> Sequence[Arg]:
        return (self.pattern,)


def subscribe(
    keys: Keys, limits: Limits, agent: str, pattern: str, *, priority: int = 0, policy: Policy = "refuse"
) -> Call[bool]:
    """Subscribe an agent; the value is whether that is new. Raises ``NoSuchAgent``, ``SubscriptionsFull``."""
    text = check_subscription(pattern, priority, policy)
    args = (f"{keys.tag}:", agent, text, priority, policy, limits.max_subscribers, limits.max_patterns)
    return Call(SUBSCRIBE, _names(keys, agent, text), args, _is_one(agent), repeatable=True, hint=agent)


def unsubscribe(keys: Keys, agent: str, pattern: str) -> Call[bool]:
    """End a subscription; the value is whether there was one."""
    text = Pattern.parse(pattern).text
    args = (f"{keys.tag}:", agent, text)
    return Call(UNSUBSCRIBE, _names(keys, agent, text), args, _is_one(agent), repeatable=True, hint=agent)


def subscriptions(
    keys: Keys, *, agent: str | None = None, type_name: str | None = None
) -> Op[list[Subscription]]:
    """Subscriptions of all agents or of one, in the order in which they were made.

    With ``type_name``: whom a signal of this type would reach, in the order in which it would.
    """
    if type_name is not None:
        check_type(type_name)
    if agent is not None:
        key = keys.agent(check_id(agent, "agent"))
        record: dict[str, str] = yield Command(("HGETALL", key), pairs, hint=agent)
        if not record:
            raise NoSuchAgent(f"no agent {agent} is registered")
        patterns = [name.partition(":")[2] for name in record if name.startswith("subscribed:")]
    else:
        listed: dict[str, str] = yield Command(
            ("HGETALL", keys.subscriptions), pairs, hint=keys.subscriptions
        )
        patterns = [name for name in listed if not name.startswith(".")]
    found: list[Subscription] = []
    for pattern in patterns:
        if type_name is None or Pattern.parse(pattern).fits(type_name):
            key = keys.subscribers(pattern)
            flat: dict[str, str] = yield Command(("HGETALL", key), pairs, hint=pattern)
            found += [
                _read(name, pattern, value) for name, value in flat.items() if agent is None or name == agent
            ]
    found.sort(key=lambda one: one.order)
    return found if type_name is None else reached_by(found, type_name)


def reached_by(given: Iterable[Subscription], type_name: str) -> list[Subscription]:
    """Whom a signal reaches: by priority, then specificity, then order; each agent once, by its first subscription."""
    fitting = [(Pattern.parse(one.pattern), one) for one in given]
    fitting = [(pattern, one) for pattern, one in fitting if pattern.fits(type_name)]
    fitting.sort(key=lambda pair: (-pair[1].priority, pair[0].rank, pair[1].order))
    first: dict[str, Subscription] = {}
    for _, one in fitting:
        first.setdefault(one.agent, one)
    return list(first.values())


def _names(keys: Keys, agent: str, pattern: str) -> Sequence[str]:
    return (
        keys.agent(check_id(agent, "agent")), keys.subscriptions, keys.wildcards, keys.subscribers(pattern),
    )  # fmt: skip


def _is_one(agent: str) -> Callable[[Any], bool]:
    return lambda reply: answer(reply, agent)[1] == "1"


def _read(agent: str, pattern: str, value: str) -> Subscription:
    priority, order, policy, *_ = (*value.split(" "), "", "", "")
    number = int(priority) if priority.lstrip("-").isdecimal() else 0
    return Subscription(
        agent, pattern, number, cast("Policy", policy), int(order) if order.isdecimal() else 0
    )
