"""What OTP makes of (restart type, exit reason). Pure."""

from __future__ import annotations

from regrow_workers.reasons import NEWER_CODE, READING, UNREADABLE

__all__ = [
    "is_expected",
    "is_move",
    "is_shutdown_error",
    "is_slow_reading",
    "is_to_be_restarted",
    "is_unreadable",
    "is_worth_a_report",
    "left_signal_type",
]


def is_move(reason: str) -> bool:
    """Ours: the agent was left to a node with other code. It starts there, alone and uncharged."""
    return reason.partition(":")[0] == NEWER_CODE


def left_signal_type(reason: str) -> str:
    """The type of the signal that it was left for; empty: for none."""
    kind, _, signal_type = reason.partition(":")
    return signal_type if kind == NEWER_CODE else ""


def is_unreadable(reason: str) -> bool:
    """Ours: what is stored of the agent cannot be read, which no restart would mend. It is parked, uncharged."""
    return reason.partition(":")[0] == UNREADABLE


def is_slow_reading(reason: str) -> bool:
    """Ours: it took too long to read its state, for the first time. It is started again, alone and uncharged."""
    return reason.startswith(READING)


def is_expected(reason: str) -> bool:
    """``normal``, ``shutdown`` or ``shutdown`` with information; a kill is not."""
    return reason in ("normal", "shutdown") or reason.startswith("shutdown:")


def is_to_be_restarted(restart: str, reason: str) -> bool:
    """Whether a child that ended by itself comes back."""
    if restart == "permanent":
        return True
    return restart == "transient" and not is_expected(reason)


def is_worth_a_report(restart: str, reason: str) -> bool:
    """Whether an end by itself is reported as ``child_terminated``."""
    return restart == "permanent" or not is_expected(reason)


def is_shutdown_error(restart: str, reason: str, *, brutal: bool, strategy: str, found_dead: bool) -> bool:
    """Whether a child that was stopped ended otherwise than it should.

    Elixir's dynamic supervisor differs a little: stricter on those killed brutally or found dead, milder on
    ``shutdown`` with information.
    """
    permanent = restart == "permanent"
    if strategy == "dynamic":
        if found_dead:
            return not (reason == "normal" and not permanent)
        if brutal:
            return reason != "killed"
        return not (
            reason == "shutdown" or reason.startswith("shutdown:") or (reason == "normal" and not permanent)
        )
    if reason == ("killed" if brutal else "shutdown"):
        return False
    return permanent or not is_expected(reason)
