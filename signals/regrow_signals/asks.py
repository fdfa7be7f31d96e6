"""Asking an agent: the wait for the reply to a signal that was accepted, and what came instead of one.

The reply lies in ``{ns}:reply:<agent>#<signal>``, one JSON element: ``{"ok": value}``, or ``{"dead": reason, "error":
text}``. Reading does not take it away: whoever asks the same id again, as long as ids are remembered, gets the same.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from regrow_signals import mailbox, strict_json
from regrow_signals.calls import Command, Op
from regrow_signals.errors import AskTimeout, BadPayload, Dead, FateUnknown, StoreError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Receipt, Status
from regrow_signals.reply_places import ClientPlace

__all__ = ["ASK_SECONDS", "answer_text", "await_reply", "read_answer"]

T = TypeVar("T")

ASK_SECONDS: Final = 5.0

_SLICE: Final = 1.0
"""One wait in the server, in seconds: a connection that was lost without a word is noticed after it."""

_WHY: Final = {
    "pending": "it waits in the mailbox still",
    "applied": "it was applied, and no handler has replied to it yet",
}


def answer_text(value_json: str) -> str:
    """A reply as it lies in Redis."""
    return f'{{"ok":{value_json}}}'


def await_reply(keys: Keys, limits: Limits, receipt: Receipt, seconds: float) -> Op[Any]:
    """The value of the reply. ``Dead`` at once when the signal became a dead letter, ``AskTimeout`` when time ran out.

    ``FateUnknown`` when Redis was lost meanwhile: the signal is accepted, and may be asked again under its id.
    """
    key = ClientPlace(receipt.agent, receipt.signal_id).key(keys)
    try:
        found: str | None = yield Command(("LINDEX", key, 0), _text, hint=receipt.agent)
        if found is None and receipt.duplicate:
            _refuse_dead((yield mailbox.status(keys, receipt)), receipt)
        left = seconds
        while found is None and left >= 0.001:
            wait = min(left, _SLICE)
            left -= wait
            # Onto itself: the first element is seen, and stays.
            words = ("BLMOVE", key, key, "LEFT", "LEFT", f"{wait:.3f}")
            found = yield Command(words, _text, hint=receipt.agent, wait=wait)
        if found is not None:
            return _value(found, limits, receipt)
        status: Status = yield mailbox.status(keys, receipt)
    except StoreError as error:
        lost = FateUnknown(
            f"{receipt.agent} accepted signal {receipt.signal_id}, and its reply could not be waited for: {error}"
        )
        lost.receipt = receipt
        raise lost from error
    _refuse_dead(status, receipt)
    why = _WHY.get(status.state, status.reason or status.state)
    raise AskTimeout(
        f"{receipt.agent} has not replied to signal {receipt.signal_id} within {seconds:g} s: {why}",
        receipt,
        status.state,
    )


def read_answer(value: Any, as_: type[T], receipt: Receipt) -> T:
    """The reply's value as ``as_``, any type that pydantic knows. ``BadPayload`` says where it does not fit."""
    try:
        return cast("T", TypeAdapter[Any](as_).validate_json(strict_json.dumps(value, max_depth=200)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the reply"
        name = getattr(as_, "__name__", str(as_))
        raise BadPayload(
            f"the reply of {receipt.agent} to {receipt.signal_id} does not fit {name}: {place}: {first['msg']}"
        ) from None


def _value(text: str, limits: Limits, receipt: Receipt) -> Any:
    answer: dict[str, Any] = strict_json.loads(text, max_depth=limits.max_json_depth + 1, what="the reply")
    if "dead" not in answer:
        return answer["ok"]
    raise _dead(receipt, str(answer["dead"]), str(answer.get("error", "")))


def _refuse_dead(status: Status, receipt: Receipt) -> None:
    if status.state in ("dead", "dropped"):
        raise _dead(receipt, status.reason or status.state, "")


def _dead(receipt: Receipt, reason: str, error: str) -> Dead:
    lines = error.strip().splitlines()
    more = f": {lines[-1][:200]}" if lines else ""
    return Dead(
        f"signal {receipt.signal_id} to {receipt.agent} is a dead letter: {reason}{more}",
        receipt,
        reason,
        error,
    )


def _text(reply: Any) -> str | None:
    return None if reply is None else str(reply)
