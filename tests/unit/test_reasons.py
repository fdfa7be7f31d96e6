"""Why a worker ended: one row of the table in ``reasons.py`` after another."""

from __future__ import annotations

import signal

import pytest

from regrow_workers.reasons import (
    ASKED,
    ExitReason,
    Killed,
    Knowledge,
    WorkerExit,
    explain,
    is_expected,
    spawner_lost,
)
from regrow_workers.slots import Phase, Reading

SLOW_READ = "reading its state took longer than the deadline"
NOTHING = Knowledge()


def slot(phase: Phase = Phase.IDLE, entry: str = "", said: str = "") -> Reading:
    return Reading(beats=1, phase=phase, since=0.0, entry=entry, said=said)


FOREIGN = "the process was ended by a SIGKILL that regrow did not send"


def ended_by(name: str) -> ExitReason:
    return ExitReason(f"signal:{name}", "attempt", True, f"the process was ended by {name}")


def left_with(code: int) -> ExitReason:
    return ExitReason(f"exit:{code}", "attempt", True, f"the process ended itself with exit code {code}")


BUSY = slot(Phase.APPLYING, entry="5-0")


@pytest.mark.parametrize(
    ("status", "reading", "known", "expected"),
    [
        (0, slot(Phase.RELEASED, said="normal"), NOTHING, ExitReason("normal", "none", True)),
        (0, slot(Phase.RELEASED, said="shutdown"), NOTHING, ExitReason("shutdown", "none", True)),
        (0, slot(Phase.RELEASED, said="shutdown:moved"), NOTHING, ExitReason("shutdown:moved", "none", True)),
        (0, slot(Phase.RELEASED, said="shutdown"), Knowledge(draining=True), ExitReason("shutdown", "none", True)),
        (0, slot(Phase.RELEASED, said=ASKED), Knowledge(asked=True), ExitReason("shutdown", "none", True)),
        (WorkerExit.RECYCLED, slot(Phase.RECYCLED), Knowledge(Killed.OPERATOR), ExitReason("operator", "none", False)),
        (0, slot(Phase.RELEASED, said=ASKED), Knowledge(draining=True), ExitReason("drained", "none", False)),
        (0, slot(Phase.RELEASED, said=ASKED), NOTHING, ExitReason("signal:SIGTERM", "none", False)),
        (WorkerExit.RECYCLED, slot(Phase.RECYCLED), Knowledge(asked=True), ExitReason("shutdown", "none", True)),
        (0, slot(Phase.RELEASED, said="normal"), Knowledge(draining=True), ExitReason("normal", "none", True)),
        (WorkerExit.SUPERSEDED, slot(Phase.SUPERSEDED), NOTHING, ExitReason("superseded", "none", False)),
        (
            WorkerExit.FAILED,
            slot(Phase.FAILED, said="ValueError: no"),
            NOTHING,
            ExitReason("exception:ValueError: no", "none", True),
        ),
        (
            WorkerExit.CRASHED,
            slot(Phase.CRASHED, said="KeyError: 1"),
            NOTHING,
            ExitReason("exception:KeyError: 1", "attempt", True, "KeyError: 1"),
        ),
        (
            WorkerExit.BOOT_FAILED,
            slot(Phase.BOOT_FAILED, said="no state"),
            NOTHING,
            ExitReason("start_failed:no state", "none", True, "no state"),
        ),
        (
            WorkerExit.UNREADABLE,
            slot(Phase.UNREADABLE, said="no step @upcast(1)"),
            NOTHING,
            ExitReason("unreadable_state:no step @upcast(1)", "none", False, "no step @upcast(1)"),
        ),
        (
            -9,
            slot(Phase.READING),
            Knowledge(Killed.DEADLINE),
            ExitReason("deadline:reading", "none", False, SLOW_READ),
        ),
        (
            WorkerExit.HANDED_OVER,
            slot(Phase.HANDED_OVER, said="ticket.split"),
            NOTHING,
            ExitReason("newer_code:ticket.split", "none", False),
        ),
        (WorkerExit.HANDED_OVER, slot(Phase.HANDED_OVER), NOTHING, ExitReason("newer_code", "none", False)),
        (WorkerExit.UNREADABLE, slot(Phase.APPLYING, "1-0"), NOTHING, left_with(74)),
        (-9, BUSY, Knowledge(Killed.DEADLINE), ExitReason("deadline", "attempt", True)),
        (-9, BUSY, Knowledge(Killed.MEMORY), ExitReason("memory", "attempt", True)),
        (-9, BUSY, Knowledge(Killed.FROZEN), ExitReason("frozen", "attempt", True)),
        (-9, BUSY, Knowledge(Killed.FROZEN, was_stopped=True), ExitReason("frozen", "kill", True)),
        (-9, slot(), Knowledge(Killed.FROZEN), ExitReason("frozen", "none", True)),
        (-9, slot(Phase.BOOT), Knowledge(Killed.START_TIMEOUT), ExitReason("start_timeout", "none", True)),
        (-9, BUSY, Knowledge(Killed.SHUTDOWN_TIME), ExitReason("killed", "none", True)),
        (-9, BUSY, Knowledge(Killed.OPERATOR), ExitReason("operator", "none", False)),
        (-9, BUSY, Knowledge(Killed.SUPERSEDED), ExitReason("superseded", "none", False)),
        (-9, BUSY, Knowledge(Killed.DRAINED, draining=True), ExitReason("drained", "none", False)),
        (-9, BUSY, Knowledge(Killed.PROCESSES, why="17"), ExitReason("processes", "attempt", True, "17")),
        (-9, BUSY, NOTHING, ExitReason("signal:SIGKILL", "kill", True, FOREIGN)),
        (-9, BUSY, Knowledge(draining=True), ExitReason("signal:SIGKILL", "kill", True, FOREIGN)),
        (-signal.SIGSEGV, BUSY, NOTHING, ended_by("SIGSEGV")),
        (-42, BUSY, NOTHING, ended_by("SIG42")),
        (3, BUSY, NOTHING, left_with(3)),
    ],
)  # fmt: skip
def test_an_end_has_one_reason_and_one_charge(
    status: int, reading: Reading, known: Knowledge, expected: ExitReason
) -> None:
    assert explain(status, reading, known) == expected


@pytest.mark.parametrize("code", [0, *WorkerExit])
def test_a_handler_that_exits_with_one_of_our_codes_is_not_taken_for_us(code: int) -> None:
    assert explain(code, BUSY, NOTHING) == left_with(int(code))


def test_a_segfault_after_the_ask_to_stop_is_told_as_what_it_is() -> None:
    known = Knowledge(killed=None, draining=True)

    assert explain(-signal.SIGSEGV, BUSY, known).reason == "signal:SIGSEGV"


def test_a_lost_spawner_charges_the_signal_as_a_kill_and_nobody_else() -> None:
    assert spawner_lost() == ExitReason("spawner_lost", "kill", False)


def test_expected_ends_are_otps() -> None:
    assert [is_expected(each) for each in ("normal", "shutdown", "shutdown:x", "drained", "exit:0")] == [
        True, True, True, False, False,
    ]  # fmt: skip
