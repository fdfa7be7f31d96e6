"""How typed callers read replies that may be ``corrupt`` as well as ``refused``, and bound what they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from regrow_signals.calls import Arg
from regrow_signals.errors import BadInput, CorruptKey
from regrow_signals.replies import words

__all__ = ["LAST_ERROR_BYTES", "answer", "cut", "entry_id", "flat", "nothing"]

LAST_ERROR_BYTES: Final = 8192
"""What ``last_error`` holds at most."""


_ENTRY: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def answer(reply: object, hint: str) -> list[Any]:
    """The reply's words; raises the typed refusal, or ``CorruptKey`` naming the key and what is wrong with it."""
    found = words(reply, hint)
    if found[0] == "corrupt":
        raise CorruptKey(f"{hint}: {found[1]} {found[2]}; nothing was changed")
    return found


def nothing(hint: str) -> Callable[[Any], None]:
    """A parser for replies of which only the refusal matters."""

    def parse(reply: Any) -> None:
        answer(reply, hint)

    return parse


def flat(fields: Mapping[str, Any]) -> list[Arg]:
    """``name, value, name, value, ...``."""
    return [word for pair in fields.items() for word in pair]


def cut(text: str, most: int = LAST_ERROR_BYTES) -> str:
    """Text bounded in bytes, with what is no UTF-8 spelled out: a traceback may hold anything."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return data.decode()
    return data[: most - 4].decode("utf-8", "ignore") + " ..."


def entry_id(text: str, what: str) -> str:
    """A stream entry's id in its canonical form, or ``BadInput``."""
    if _ENTRY.fullmatch(text):
        return text
    raise BadInput(f"{what} {text!r:.60} is no stream id (such as 1700000000000-0)")
