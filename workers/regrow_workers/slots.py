"""Progress slots: shared memory in which each worker notes what it is at, readable after its death.

A slot has five parts, each with one writer, so no lock is needed:

* the beat counter, bumped by the worker's progress thread twice a second (a process that is frozen, or whose native
  code holds the interpreter lock, does not bump it);
* the work: phase, since when (monotonic, one clock for all processes of the host), acceptance id in hand;
* what the worker said last: a short text, for the reason of its end;
* for whom it works, where it works for many: written while nothing is in hand;
* how often the node has lowered its priority: written by the node, after it did.

A reader may meet a half-written work part: it reads until two looks agree.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

__all__ = ["SLOT_BYTES", "TEXT_BYTES", "Phase", "Reading", "Slot", "SlotTable"]

SLOT_BYTES = 2048
HOLDER_BYTES = 256
_BEATS = struct.Struct("=QQ")  # beats, whether it has child processes
_WORK = struct.Struct("=Qd48p")  # phase, since, entry: two numbers of up to 20 digits and a dash
_LENGTH = struct.Struct("=Q")
_LOWERED = struct.Struct("=Q")
_WORK_AT = _BEATS.size
_LENGTH_AT = _WORK_AT + _WORK.size
_HOLDER_LENGTH_AT = _LENGTH_AT + _LENGTH.size
_HOLDER_AT = _HOLDER_LENGTH_AT + _LENGTH.size
_LOWERED_AT = _HOLDER_AT + HOLDER_BYTES
_TEXT_AT = _LOWERED_AT + _LOWERED.size
TEXT_BYTES = SLOT_BYTES - _TEXT_AT


class Phase(IntEnum):
    """What a worker is at. Those from 10 on are ends: only the worker's own code writes them, so an exit code that
    a handler happened to choose is never taken for one of ours."""

    FREE = 0
    BOOT = 1
    IDLE = 2
    APPLYING = 3
    STORING = 4
    READING = 5
    RELEASED = 10
    SUPERSEDED = 11
    FAILED = 12
    BOOT_FAILED = 13
    CRASHED = 14
    RECYCLED = 15
    UNREADABLE = 16
    HANDED_OVER = 17


_APPLYING = int(Phase.APPLYING)
_note_work, _now = _WORK.pack_into, time.monotonic


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a slot. ``entry`` is the acceptance id in hand, empty outside a transition."""

    beats: int
    phase: Phase
    since: float
    entry: str
    said: str
    holder: str = ""
    has_children: bool = False
    """Whether it had processes of its own at its last beat."""


class Slot:
    """One worker's slot."""

    def __init__(self, memory: mmap.mmap | bytearray, index: int) -> None:
        self._memory = memory
        self._at = index * SLOT_BYTES
        self._work_at = self._at + _WORK_AT
        self._beats = 0
        self.index = index

    def beat(self, *, has_children: bool = False) -> None:
        """Progress thread only."""
        self._beats += 1
        _BEATS.pack_into(self._memory, self._at, self._beats, has_children)

    def begin(self, entry: str) -> None:
        """A transition begins with this entry in hand. Called for every signal: one pack, no allocation to speak of."""
        _note_work(self._memory, self._work_at, _APPLYING, _now(), entry.encode())

    def note(self, phase: Phase, said: str | None = None) -> None:
        """The worker is at ``phase`` now, nothing in hand; ``said`` is kept for the reason of its end."""
        if said is not None:
            text = said.encode("utf-8", "replace")[:TEXT_BYTES]
            self._memory[self._at + _TEXT_AT : self._at + _TEXT_AT + len(text)] = text
            _LENGTH.pack_into(self._memory, self._at + _LENGTH_AT, len(text))
        _note_work(self._memory, self._work_at, phase, _now(), b"")

    def hold(self, holder: str) -> None:
        """What is begun from now on is for ``holder`` (ASCII, at most 256 bytes). Only with nothing in hand."""
        text = holder.encode("ascii")[:HOLDER_BYTES]
        _LENGTH.pack_into(self._memory, self._at + _HOLDER_LENGTH_AT, len(text))
        self._memory[self._at + _HOLDER_AT : self._at + _HOLDER_AT + len(text)] = text

    def end_in_hand(self, phase: Phase, said: str) -> None:
        """The worker ends in the transition that it is in: what is in hand stays."""
        _, _, entry = self._steady_work()
        self.note(phase, said)
        _note_work(self._memory, self._work_at, phase, _now(), entry)

    def note_lowered(self) -> None:
        """Node only, once the priority of the process is lowered."""
        _LOWERED.pack_into(self._memory, self._at + _LOWERED_AT, self.lowered + 1)

    @property
    def lowered(self) -> int:
        """How often that was."""
        found: int = _LOWERED.unpack_from(self._memory, self._at + _LOWERED_AT)[0]
        return found

    def glance(self) -> tuple[int, float]:
        """Phase and since when, cheaply: one look, which may have met a half-written slot."""
        phase, since, _ = _WORK.unpack_from(self._memory, self._work_at)
        return phase, since

    def let_go(self) -> None:
        """In a copy of the worker's process: the slot is not its own. ``begin`` and ``note`` raise TypeError then."""
        self._memory = cast("bytearray", b"")

    def clear(self, phase: Phase) -> None:
        """Node only, before the slot is given to a worker, and after its end."""
        self._memory[self._at : self._at + SLOT_BYTES] = bytes(SLOT_BYTES)
        self._beats = 0
        self.note(phase)

    def read(self) -> Reading:
        phase, since, entry = self._steady_work()
        beats, has_children = _BEATS.unpack_from(self._memory, self._at)
        (length,) = _LENGTH.unpack_from(self._memory, self._at + _LENGTH_AT)
        start = self._at + _TEXT_AT
        said = self._memory[start : start + min(length, TEXT_BYTES)].decode("utf-8", "replace")
        return Reading(
            beats,
            Phase(phase),
            since,
            entry.decode("ascii", "replace"),
            said,
            self._holder(),
            bool(has_children),
        )

    def _holder(self) -> str:
        (length,) = _LENGTH.unpack_from(self._memory, self._at + _HOLDER_LENGTH_AT)
        start = self._at + _HOLDER_AT
        return (
            self._memory[start : start + min(length, HOLDER_BYTES)].decode("ascii", "replace")
            if length
            else ""
        )

    def _steady_work(self) -> tuple[int, float, bytes]:
        last = _WORK.unpack_from(self._memory, self._work_at)
        for _ in range(100):
            again = _WORK.unpack_from(self._memory, self._work_at)
            if again == last:
                return again
            last = again
        return last


class SlotTable:
    """All slots of one spawner's workers; ``fd`` is handed down to them.

    Each spawner gets a table of its own: workers of a dead spawner may go on for some milliseconds, and must not
    scribble over their successors' slots.
    """

    def __init__(self, fd: int, count: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, count * SLOT_BYTES)
        self._free = list(range(count - 1, -1, -1))

    @classmethod
    def create(cls, count: int) -> SlotTable:
        fd = _anonymous_file()
        # Whole pages: a worker maps the page of its slot, and a file that ends inside it could not be mapped.
        page = mmap.ALLOCATIONGRANULARITY
        os.ftruncate(fd, -(-count * SLOT_BYTES // page) * page)
        return cls(fd, count)

    @classmethod
    def open_slot(cls, fd: int, index: int) -> Slot:
        """A worker's view: only its own page is mapped in. The worker alone writes to it."""
        page = mmap.ALLOCATIONGRANULARITY
        start = index * SLOT_BYTES // page * page
        memory = mmap.mmap(fd, page, offset=start)
        return Slot(memory, (index * SLOT_BYTES - start) // SLOT_BYTES)

    def take(self) -> Slot | None:
        """A free slot in phase boot, or None if all are taken."""
        if not self._free:
            return None
        slot = Slot(self._memory, self._free.pop())
        slot.clear(Phase.BOOT)
        return slot

    def give_back(self, slot: Slot) -> None:
        """Only after the worker's end was seen."""
        slot.clear(Phase.FREE)
        self._free.append(slot.index)

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("regrow-slots")
    # macOS has no memfd: an unlinked file serves, since only its descriptor is handed down.
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
