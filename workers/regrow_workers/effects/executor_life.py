"""An executor as its node sees it, and the pure decisions about it: must it end, and what of the effect it held."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from regrow_workers.effects import settlement
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.lives import Life, Pauses, must_end
from regrow_workers.reasons import ExitReason, Killed
from regrow_workers.slots import Phase, Reading

__all__ = [
    "GRACE",
    "ExecutorLife",
    "held_in",
    "in_hand",
    "must_end_executor",
    "settle_for_the_dead",
    "started_well",
]

GRACE: Final = 1.0
"""Seconds that a call gets after its own alarm, before it is ended from outside."""

BLOCKED_SECONDS: Final = 10.0
"""How long one call may keep an event loop from going round: all others in it wait as well."""

YOUNG: Final = 5.0


@dataclass(slots=True, kw_only=True)
class ExecutorLife(Life):
    """``agent`` is the executor's name. ``overdue``: what it held when it was killed for being over the time limit."""

    overdue: Held | None = None
    calls: int = 1
    """How many it can have in hand at once; more than one: it is an asyncio executor."""


def held_in(reading: Reading) -> Held | None:
    """What the executor is calling, or was calling when it died; None outside a call."""
    return Held.from_text(reading.said) if reading.phase is Phase.APPLYING else None


def in_hand(life: ExecutorLife) -> int:
    """How many calls it has in hand."""
    reading = life.slot.read()
    if life.calls == 1:
        return int(held_in(reading) is not None)
    return int(reading.said) if reading.phase is Phase.IDLE and reading.said.isdecimal() else 0


def must_end_executor(
    life: ExecutorLife,
    reading: Reading,
    now: float,
    *,
    start_timeout: float,
    node_timeout: float,
    pauses: Pauses,
) -> Killed | None:
    """Why the executor has to be ended by SIGKILL now, or None.

    In a call only its time limit counts: native code may keep the interpreter's lock, and so the progress counter, for
    as long as the author allowed the call to take.
    """
    idle = life.calls > 1 and life.killed is None and reading.phase is Phase.IDLE
    if idle and pauses.spent(reading.since, now) > BLOCKED_SECONDS:
        return Killed.FROZEN
    held = held_in(reading)
    life.deadline = float("inf") if held is None else held.timeout_ms / 1000 + GRACE
    return must_end(life, reading, now, start_timeout=start_timeout, node_timeout=node_timeout, pauses=pauses)


def settle_for_the_dead(
    life: ExecutorLife, reading: Reading, status: int, reason: ExitReason
) -> tuple[Held, Settlement] | None:
    """What to tell of the call that it died in; None: nothing is known but that it is gone, so the effect is abandoned.

    ``status`` is the exit code, or minus the signal's number. A SIGKILL that none of ours sent is no evidence against
    the effect.
    """
    if life.overdue is not None:
        return life.overdue, settlement.after_timeout(life.overdue)
    held = held_in(reading)
    if held is None or life.killed is not None or status == -signal.SIGKILL:
        return None
    return held, settlement.after_crash(held, reason.reason)


def started_well(life: ExecutorLife, reading: Reading, now: float) -> bool:
    """Whether it came as far as its first wait. If not, its successor is given a pause."""
    if reading.phase in (Phase.BOOT, Phase.BOOT_FAILED) or life.forked_at is None:
        return False
    return reading.phase is not Phase.CRASHED or now - life.forked_at > YOUNG
