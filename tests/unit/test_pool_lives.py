"""What a node does about its slots: how many there are, which is stuck, what a death costs; and what slots serve."""

from __future__ import annotations

import math
import mmap

import pytest

from regrow_signals.pool import SlotName
from regrow_workers.lives import Pauses
from regrow_workers.placement_class import placement_class, queues_of
from regrow_workers.pool_hand import InHand
from regrow_workers.pool_lives import (
    STUCK,
    SlotLife,
    end_in_hand,
    is_stuck,
    missing_slots,
    must_end_slot,
    started_well,
    superfluous,
)
from regrow_workers.reasons import ExitReason, Killed
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Reading, Slot

NOW = 1000.0
TWO = NodeSettings(pool_slots=2, pool_extra_slots=2)
IN_HAND = InHand("device-7", 3)
SIGKILL = ExitReason("signal:SIGKILL", "kill", True)


def slot(
    number: int, phase: Phase = Phase.IDLE, *, since: float = NOW, entry: str = "", holder: str = ""
) -> SlotLife:
    life = SlotLife(
        agent=f"n/{number}",
        incarnation=number,
        node="n",
        slot=Slot(mmap.mmap(-1, mmap.PAGESIZE), 0),
        deadline=5.0,
        name=SlotName("n", number),
    )
    life.forked_at = life.beats_at = life.busy_at = NOW
    life.looked = Reading(1, phase, since, entry, "", holder)
    return life


def stuck(number: int) -> SlotLife:
    return slot(number, Phase.APPLYING, since=NOW - 2 * STUCK, entry="1-0", holder=IN_HAND.to_text())


def test_there_are_as_many_slots_as_wanted() -> None:
    assert missing_slots([], TWO, NOW) == 2
    assert missing_slots([slot(1)], TWO, NOW) == 1
    assert missing_slots([slot(1), slot(2)], TWO, NOW) == 0


def test_one_that_was_asked_to_leave_is_replaced() -> None:
    leaving = slot(1)
    leaving.asked = True

    assert missing_slots([leaving, slot(2)], TWO, NOW) == 1


def test_a_stuck_slot_gets_a_stand_in_while_nobody_idles() -> None:
    busy = slot(2, Phase.APPLYING, since=NOW - STUCK / 2)

    assert is_stuck(stuck(1), NOW) and not is_stuck(busy, NOW)
    assert missing_slots([stuck(1), busy], TWO, NOW) == 1
    assert missing_slots([stuck(1), slot(2)], TWO, NOW) == 0
    assert missing_slots([stuck(1), slot(2, Phase.BOOT)], TWO, NOW) == 0
    assert missing_slots([stuck(1), stuck(2)], TWO, NOW) == 2


def test_stand_ins_are_bounded() -> None:
    assert missing_slots([stuck(1), stuck(2), stuck(3)], TWO, NOW) == 1
    assert missing_slots([stuck(1), stuck(2), stuck(3), stuck(4)], TWO, NOW) == 0
    assert missing_slots([stuck(1), stuck(2)], NodeSettings(pool_slots=2, pool_extra_slots=0), NOW) == 0


def test_extra_slots_go_when_they_were_idle_for_a_while() -> None:
    lives = [slot(1), slot(2), slot(3)]
    assert superfluous(lives, TWO, NOW + 1) == []

    later = NOW + 10
    assert superfluous(lives, TWO, later) == [lives[2]]
    lives[2].busy_at = later
    assert superfluous(lives, TWO, later) == [lives[1]]
    assert superfluous([*lives[:2], stuck(3)], TWO, later) == []
    assert superfluous(lives[:2], TWO, later) == []


def test_the_deadline_is_that_of_the_agent_in_hand() -> None:
    def verdict(deadline_ms: int | None, seconds: float) -> Killed | None:
        holder = InHand("a", 1, deadline_ms).to_text()
        life = slot(1, Phase.APPLYING, since=NOW - seconds, entry="1-0", holder=holder)
        return must_end_slot(life, TWO, NOW, Pauses())

    assert verdict(None, 4.0) is None
    assert verdict(None, 6.0) is Killed.DEADLINE
    assert verdict(100, 0.2) is Killed.DEADLINE
    assert verdict(60_000, 6.0) is None
    assert verdict(-1, 10_000.0) is None


def test_the_end_of_a_slot_is_that_of_the_agent_in_hand() -> None:
    life = stuck(1)

    end = end_in_hand("n", life.looked, SIGKILL)

    assert end is not None
    assert (end.agent, end.incarnation, end.in_hand, end.charge) == ("device-7", 3, "1-0", "kill")
    between = slot(1, Phase.STORING, holder=IN_HAND.to_text())
    assert end_in_hand("n", between.looked, SIGKILL) is None
    reading = slot(1, Phase.READING, holder=IN_HAND.to_text())
    assert end_in_hand("n", reading.looked, SIGKILL) is not None


def test_a_slot_that_never_served_is_not_replaced_at_once() -> None:
    boot, served = slot(1, Phase.BOOT), slot(2, Phase.STORING)

    assert not started_well(boot, boot.looked, NOW + 1)
    assert started_well(served, served.looked, NOW + 1)
    crashed = slot(3, Phase.CRASHED)
    assert not started_well(crashed, crashed.looked, NOW + 1)
    assert started_well(crashed, crashed.looked, NOW + 60)


@pytest.mark.parametrize("deadline_ms", [None, -1, 5_000])
def test_what_is_in_hand_is_noted_as_text(deadline_ms: int | None) -> None:
    noted = InHand("a/b:c@d", 12, deadline_ms)

    assert InHand.from_text(noted.to_text()) == noted


@pytest.mark.parametrize("text", ["", "1", "1:", "x::a", "1::", "1:5"])
def test_what_is_half_noted_is_nothing(text: str) -> None:
    assert InHand.from_text(text) is None


def test_a_deadline_that_nobody_said_is_the_settings() -> None:
    assert InHand("a", 1).deadline(5.0) == 5.0
    assert InHand("a", 1, -1).deadline(5.0) == math.inf
    assert InHand("a", 1, 250).deadline(5.0) == 0.25


def test_a_slot_notes_for_whom_it_works_beside_the_entry_and_what_it_said() -> None:
    noted = Slot(mmap.mmap(-1, mmap.PAGESIZE), 0)
    noted.note(Phase.STORING, "said once")
    noted.hold(InHand("a" * 200, 1).to_text())
    noted.begin("5-1")

    reading = noted.read()
    assert (reading.entry, reading.said, reading.holder) == (
        "5-1",
        "said once",
        InHand("a" * 200, 1).to_text(),
    )
    noted.end_in_hand(Phase.CRASHED, "MemoryError")
    assert (noted.read().entry, noted.read().holder) == ("5-1", reading.holder)
    noted.clear(Phase.BOOT)
    assert noted.read().holder == ""


# Classes and queues.


def test_a_class_is_the_type_and_the_labels_asked_for() -> None:
    assert placement_class("desk", {}) == "desk"
    assert placement_class("desk", {"zone": "a", "gpu": ""}) == "desk[gpu,zone=a]"


def test_a_slot_serves_types_that_it_has_with_labels_that_its_node_bears() -> None:
    classes = ["desk", "desk[gpu]", "desk[zone=a]", "desk[zone=b]", "stranger", "desk[gpu,zone=a]"]

    assert queues_of(classes, {"desk": 1}, {}) == ["desk@1"]
    assert queues_of(classes, {"desk": 1}, {"zone": "a"}) == ["desk@1", "desk[zone=a]@1"]
    everything = queues_of(classes, {"desk": 1, "other": 1}, {"zone": "a", "gpu": "h100"})
    assert everything == ["desk@1", "desk[gpu]@1", "desk[zone=a]@1", "desk[gpu,zone=a]@1"]


def test_states_of_an_older_schema_are_served_and_those_of_a_newer_one_are_not() -> None:
    assert queues_of(["desk"], {"desk": 3}, {}) == ["desk@1", "desk@2", "desk@3"]


def test_labels_of_any_text_survive() -> None:
    odd = {"a,b": "c]d[=e", "ü": "1 2"}

    assert queues_of([placement_class("desk", odd)], {"desk": 1}, odd) == [
        f"{placement_class('desk', odd)}@1"
    ]
    assert queues_of([placement_class("desk", odd)], {"desk": 1}, {"a": "b"}) == []
