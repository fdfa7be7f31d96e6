"""Restart intensity: a window of stamps in whole seconds, as OTP keeps it. Pure."""

from __future__ import annotations

__all__ = ["count_restart"]


def count_restart(
    stamps: tuple[int, ...], now_ms: int, max_restarts: int, max_seconds: float
) -> tuple[tuple[int, ...], bool]:
    """The stamps with one restart more, and whether that is one too many.

    A stamp exactly ``max_seconds`` old still counts. Stamps are whole seconds, rounded down, as in OTP: a restart
    between ``max_seconds`` and one second more counts or not, as the second marks fall. Stamps from the future (a
    clock went back) are dropped. No more than ``max_restarts + 1`` stamps are kept: older ones decide nothing.
    """
    now = now_ms // 1000
    kept = (*(stamp for stamp in stamps if now - max_seconds <= stamp <= now), now)
    return kept[-(max_restarts + 1) :], len(kept) > max_restarts
