"""Limits of agents' code, said once for a type (class keywords) or for one child; what both leave out is a setting's.

``class Support(Agent[Desk], name="support", deadline=30)`` and ``Support.child("support", deadline=60)`` take the same
words; the child's comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, get_args

from regrow_signals.durations import Duration, size_bytes, to_seconds
from regrow_signals.errors import BadDefinition, BadInput
from regrow_workers.purity import GuardMode

__all__ = ["LIMITS", "OF_A_PROCESS", "LimitWords", "Size", "checked_limits"]

Size = int | str


OF_A_PROCESS: Final = frozenset({"max_memory", "max_processes", "max_signals", "max_growth"})
"""Limits of an agent's own process: a pooled one shares its slot's, where nobody can tell whose memory it is."""


class LimitWords(TypedDict, total=False):
    """What a type or a child may say; None and left out are the same."""

    guard: GuardMode | None
    """What an impure handler meets: ``"enforce"``, ``"warn"``, ``"off"``."""
    deadline: Duration | None
    """Longest transition."""
    max_memory: Size | None
    """Most private memory of its process."""
    max_processes: int | None
    """Most processes that its worker may start; their memory counts as its own."""
    max_state: Size | None
    """Largest state, as JSON."""
    max_mailbox: int | None
    """Most signals that wait."""
    max_attempts: int | None
    """Tries of a signal whose process dies in it."""
    max_kills: int | None
    """The same where the death may not be the signal's fault."""
    max_signals: int | None
    """Applied signals after which a fresh process goes on; unset: never."""
    max_growth: Size | None
    """Growth of its process after which a fresh one goes on; unset: never."""


def checked_limits(where: str, said: Mapping[str, object]) -> dict[str, Any]:
    """The limits that are said, durations in seconds and sizes in bytes. ``BadDefinition`` names the one at fault."""
    return {
        name: check(where, name, said[name]) for name, check in _CHECKS.items() if said.get(name) is not None
    }


def _seconds(where: str, name: str, value: Any) -> float:
    try:
        return to_seconds(value, name)
    except BadInput as error:
        raise BadDefinition(f"{where}: {error}") from None


def _bytes(where: str, name: str, value: Any) -> int:
    try:
        return size_bytes(value, name)
    except BadInput as error:
        raise BadDefinition(f"{where}: {error}") from None


def _count(where: str, name: str, value: object, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadDefinition(f"{where}: {name}: {value!r} must be a whole number of {least} or more")
    return value


def _count_or_zero(where: str, name: str, value: object) -> int:
    return _count(where, name, value, least=0)


def _guard(where: str, name: str, value: object) -> object:
    if value not in get_args(GuardMode):
        raise BadDefinition(f'{where}: {name}={value!r} must be "enforce", "warn" or "off"')
    return value


_CHECKS: Final[Mapping[str, Callable[[str, str, Any], Any]]] = {
    "guard": _guard,
    "deadline": _seconds,
    "max_memory": _bytes,
    "max_processes": _count_or_zero,
    "max_state": _bytes,
    "max_mailbox": _count,
    "max_attempts": _count,
    "max_kills": _count,
    "max_signals": _count,
    "max_growth": _bytes,
}

LIMITS: Final = tuple(_CHECKS)
