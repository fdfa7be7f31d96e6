"""Progress slots: what a worker notes there can be read by others, also after its death."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from regrow_workers.slots import TEXT_BYTES, Phase, SlotTable


@pytest.fixture
def table() -> Iterator[SlotTable]:
    made = SlotTable.create(20)
    yield made
    made.close()


def test_a_slot_begins_in_phase_boot_with_nothing_in_hand(table: SlotTable) -> None:
    slot = table.take()

    assert slot is not None
    reading = slot.read()
    assert (reading.beats, reading.phase, reading.entry, reading.said) == (0, Phase.BOOT, "", "")


def test_a_transition_shows_its_entry_and_since_when(table: SlotTable) -> None:
    slot = table.take()
    assert slot is not None

    slot.begin("1700000000000-7")

    reading = slot.read()
    assert (reading.phase, reading.entry) == (Phase.APPLYING, "1700000000000-7")
    assert reading.since > 0


def test_noting_a_phase_puts_the_entry_down_and_keeps_what_was_said(table: SlotTable) -> None:
    slot = table.take()
    assert slot is not None
    slot.note(Phase.STORING, "said once")
    slot.begin("5-0")

    slot.note(Phase.IDLE)

    assert (slot.read().phase, slot.read().entry, slot.read().said) == (Phase.IDLE, "", "said once")


def test_an_end_in_a_transition_keeps_what_is_in_hand(table: SlotTable) -> None:
    slot = table.take()
    assert slot is not None
    slot.begin("1700000000000-7")

    slot.end_in_hand(Phase.CRASHED, "MemoryError")

    reading = slot.read()
    assert (reading.phase, reading.entry, reading.said) == (Phase.CRASHED, "1700000000000-7", "MemoryError")


def test_beats_and_work_do_not_disturb_each_other(table: SlotTable) -> None:
    slot = table.take()
    assert slot is not None

    slot.beat()
    slot.begin("5-1")
    slot.beat()

    assert (slot.read().beats, slot.read().entry) == (2, "5-1")


def test_a_long_text_is_cut_at_the_slots_end_and_leaves_the_next_slot_alone(table: SlotTable) -> None:
    first, second = table.take(), table.take()
    assert first is not None and second is not None

    first.note(Phase.FAILED, "é" * 4000)

    assert len(first.read().said.encode("utf-8", "ignore")) <= TEXT_BYTES + 3
    assert (second.read().phase, second.read().said) == (Phase.BOOT, "")


def test_slots_run_out_and_come_back(table: SlotTable) -> None:
    taken = [table.take() for _ in range(20)]

    assert table.take() is None
    first = taken[0]
    assert first is not None
    table.give_back(first)
    again = table.take()
    assert again is not None and again.index == first.index


def test_every_slot_is_a_place_of_its_own(table: SlotTable) -> None:
    slots = [table.take() for _ in range(20)]
    for number, slot in enumerate(slots):
        assert slot is not None
        slot.begin(f"{number + 1}-{number}")

    assert [slot.read().entry for slot in slots if slot] == [f"{n + 1}-{n}" for n in range(20)]


@pytest.mark.parametrize("index", [0, 3, 4, 19])
def test_what_a_killed_child_noted_is_read_by_its_parent(table: SlotTable, index: int) -> None:
    slots = {slot.index: slot for slot in (table.take() for _ in range(20)) if slot}
    pid = os.fork()
    if pid == 0:
        mine = SlotTable.open_slot(table.fd, index)
        mine.beat()
        mine.begin("42-1")
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(pid, 0)

    reading = slots[index].read()
    assert (reading.beats, reading.phase, reading.entry) == (1, Phase.APPLYING, "42-1")


@pytest.mark.parametrize("count", [1, 2, 17])
def test_a_worker_can_map_its_slot_however_few_there_are(count: int) -> None:
    table = SlotTable.create(count)
    try:
        slots = [table.take() for _ in range(count)]
        last = slots[-1]
        assert last is not None and table.take() is None
        SlotTable.open_slot(table.fd, last.index).begin("12-3")
        assert last.read().entry == "12-3"
    finally:
        table.close()


def test_a_copy_that_let_go_of_its_slot_cannot_note_anything() -> None:
    table = SlotTable.create(1)
    slot = table.take()
    assert slot is not None
    mine = SlotTable.open_slot(table.fd, slot.index)
    mine.begin("5-1")

    mine.let_go()

    with pytest.raises(TypeError):
        mine.begin("6-1")
    with pytest.raises(TypeError):
        mine.note(Phase.CRASHED, "text")
    assert slot.read().entry == "5-1"
    table.close()
