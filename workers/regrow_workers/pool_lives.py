"""A slot process as its node sees it, and the pure decisions about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from regrow_signals.nodes import ExitReport
from regrow_signals.pool import SlotName
from regrow_workers.lives import TIMED, Life, Pauses, is_stopped, must_end
from regrow_workers.pool_hand import InHand
from regrow_workers.reasons import ExitReason, Killed
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Reading

__all__ = ["STUCK", "SlotLife", "end_in_hand", "is_stuck", "missing_slots", "must_end_slot", "superfluous"]

STUCK: Final = 0.05
"""Seconds in one transition after which others are not to wait for a slot."""

IDLE_SECONDS: Final = 5.0
"""After so long without work an extra slot goes."""

YOUNG: Final = 5.0


@dataclass(slots=True, kw_only=True)
class SlotLife(Life):
    """``agent`` is the slot's name for logs, ``incarnation`` its number."""

    name: SlotName
    looked: Reading = field(default_factory=lambda: Reading(0, Phase.BOOT, 0.0, "", ""))
    """At the last look."""

    freed: tuple[str, str] = ("", "")
    """Holder and entry of the transition for whose sake its other agents were freed."""

    busy_at: float = 0.0

    @property
    def key(self) -> str:
        """No agent's life: those have a name before the ``#``."""
        return f"#{self.incarnation}"

    @property
    def leaves(self) -> bool:
        """It was asked to, or killed."""
        return self.asked or self.killed is not None


def is_stuck(life: SlotLife, now: float) -> bool:
    """In one transition for too long for others to wait."""
    return life.looked.phase in TIMED and now - life.looked.since > STUCK


def must_end_slot(life: SlotLife, settings: NodeSettings, now: float, pauses: Pauses) -> Killed | None:
    """As any worker's; the deadline is that of the agent in hand."""
    in_hand = InHand.from_text(life.looked.holder)
    life.deadline = settings.deadline if in_hand is None else in_hand.deadline(settings.deadline)
    return must_end(
        life,
        life.looked,
        now,
        start_timeout=settings.start_timeout,
        node_timeout=settings.node_timeout,
        pauses=pauses,
        is_stopped=partial(is_stopped, life),
    )


def missing_slots(lives: Collection[SlotLife], settings: NodeSettings, now: float) -> int:
    """How many to start now: the wanted number, and one for each that is stuck while nobody idles, up to a bound."""
    staying = [life for life in lives if not life.leaves]
    short = settings.pool_slots - len(staying)
    if short > 0:
        return short
    stuck = sum(is_stuck(life, now) for life in staying)
    if not stuck or any(life.looked.phase in (Phase.IDLE, Phase.BOOT) for life in staying):
        return 0
    most = settings.pool_slots + settings.pool_extra_slots - len(lives)
    return max(0, min(settings.pool_slots - (len(staying) - stuck), most))


def superfluous(lives: Collection[SlotLife], settings: NodeSettings, now: float) -> list[SlotLife]:
    """Extra slots that nobody has needed for a while, the youngest first."""
    staying = [life for life in lives if not life.leaves]
    extra = len(staying) - settings.pool_slots
    if extra <= 0 or any(is_stuck(life, now) for life in staying):
        return []
    idle = [life for life in staying if life.busy_at and now - life.busy_at > IDLE_SECONDS]
    return sorted(idle, key=lambda life: -life.incarnation)[:extra]


def started_well(life: SlotLife, reading: Reading, now: float) -> bool:
    """Whether it came as far as serving. If not, its successor is given a pause."""
    if reading.phase in (Phase.BOOT, Phase.BOOT_FAILED, Phase.SUPERSEDED) or life.forked_at is None:
        return False
    return reading.phase is not Phase.CRASHED or reading.entry != "" or now - life.forked_at > YOUNG


def end_in_hand(node: str, reading: Reading, reason: ExitReason) -> ExitReport | None:
    """The end of the agent's life that a slot's process was in; None: it had begun nothing."""
    begun = reading.entry or reading.phase is Phase.READING
    in_hand = InHand.from_text(reading.holder) if begun else None
    if in_hand is None:
        return None
    return ExitReport(
        node=node,
        agent=in_hand.agent,
        incarnation=in_hand.incarnation,
        reason=reason.reason,
        charge=reason.charge,
        charged=reason.charged,
        error=reason.error,
        in_hand=reading.entry,
    )
