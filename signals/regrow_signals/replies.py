"""Replies of scripts: arrays whose first element is a word; ``refused`` and a code is raised as its typed refusal.

Text comes from the connection as ``str``, decoded as UTF-8 with ``surrogateescape``: nothing that lies in Redis can
make a reader fail, and what is not UTF-8 is found (``is_text``) and given back byte for byte (``raw``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from regrow_signals import errors

__all__ = ["REFUSALS", "is_text", "pairs", "raise_refusal", "raw", "refusal", "words"]

REFUSALS: Final[Mapping[str, tuple[type[errors.Refused], str]]] = {
    "no_such_agent": (errors.NoSuchAgent, "no agent {0} is registered"),
    "mailbox_full": (errors.MailboxFull, "the mailbox of {0} is full: {1} signals wait, {2} is its bound"),
    "mailbox_exhausted": (
        errors.MailboxExhausted,
        "the mailbox of {0} holds the last possible stream id and takes no entry any more",
    ),
    "dead_full": (
        errors.DeadLettersFull,
        "{0} has {1} dead letters, {2} is the bound: look at them, then retry or drop them",
    ),
    "id_conflict": (errors.IdConflict, "{0}: a signal of id {1} with other content was accepted before"),
    "subscriptions_full": (
        errors.SubscriptionsFull,
        "{0}: {1} has {2} subscriptions, {3} is the bound: end some with unsubscribe",
    ),
    "too_many_subscribers": (
        errors.TooManySubscribers,
        "{0} has {1} subscribers, {2} is the bound of one publish; nobody got it",
    ),
    "fenced": (errors.Fenced, "{0}: this incarnation is not the current one"),
    "conflict": (errors.Conflict, "{0}: version or cursor is not what the step was made from"),
    "not_leader": (errors.NotLeader, "the leader's lease is not ours"),
    "not_idle": (errors.NotIdle, "{1} has something to do, or a process that has not ended"),
    "still_supervised": (
        errors.Refused,
        "{0} is a child of {1}: take it out of the tree, or call terminate_child and delete_child, first",
    ),
    "still_running": (errors.Refused, "{0} has a process that has not ended yet"),
    "not_empty": (
        errors.Refused,
        "{0} still has {1} signals, {2} dead letters and {3} open effects and emits; force deletes them too",
    ),
    "noproc": (
        errors.SupervisorNotFound,
        "{0} was not created: there is no supervisor {1}; `regrow tree` shows those that there are",
    ),
    "supervisor_down": (
        errors.SupervisorNotFound,
        "{0} was not created: supervisor {1} is {2} and starts nobody now",
    ),
    "not_dynamic": (
        errors.NotDynamic,
        '{0} was not created: supervisor {1} is {2}; name one with strategy="dynamic"',
    ),
    "declared_timer": (
        errors.Refused,
        "timer {0} is declared by the agent's class (@every, @cron): take it out of the code",
    ),
    "no_such_letter": (errors.Refused, "{0} has no dead letter {1}"),
}


def words(reply: object, hint: str = "") -> list[Any]:
    """The reply as a list whose first element is its word; a refusal is raised. ``hint`` names what was asked about."""
    if not isinstance(reply, list) or not reply:
        raise errors.StoreError(f"{hint}: unexpected reply {reply!r:.200}")
    found: list[Any] = reply  # pyright: ignore[reportUnknownVariableType]
    if found[0] == "refused":
        raise refusal(found[1:], hint)
    return found


def raise_refusal(reply: object, hint: str = "") -> None:
    """Raise the typed refusal when ``reply`` is one; anything else passes."""
    if isinstance(reply, list) and reply and reply[0] == "refused":
        raise refusal(reply[1:], hint)  # pyright: ignore[reportUnknownArgumentType]


def refusal(rest: Sequence[Any], hint: str) -> errors.Refused:
    """The exception of ``{'refused', code, detail, ...}``; an unknown code is a plain ``Refused`` that shows it."""
    code, details = str(rest[0]), [str(word) for word in rest[1:]]
    kind, message = REFUSALS.get(code, (errors.Refused, "{0}: " + code))
    wanted = message.count("{") - 1
    filled = [*details, *["?"] * (wanted - len(details))]
    text = message.format(hint, *filled)
    extra = details[max(wanted, 0) :]
    return kind(f"{text} ({', '.join(extra)})" if extra else text)


def pairs(flat: Sequence[str]) -> dict[str, str]:
    """``[field, value, ...]`` as HGETALL and XRANGE give it, as a dict."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def is_text(value: str) -> bool:
    """Was the value UTF-8 in Redis? (False: it holds escaped bytes.)"""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def raw(value: str) -> bytes:
    """The bytes as they lie in Redis."""
    return value.encode("utf-8", "surrogateescape")
