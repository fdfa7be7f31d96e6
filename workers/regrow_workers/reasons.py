"""Why a worker ended: from its wait status, what its slot says and what the node did to it. Pure.

The table (kind, whether the signal in hand is charged, whether the supervisor's restart intensity is):

| what happened                                             | reason              | in hand | intensity |
| --------------------------------------------------------- | ------------------- | ------- | --------- |
| released, by ``Stop()`` or because it was asked to         | what the slot says  | none    | yes |
| released, since somebody else sent it SIGTERM               | signal:SIGTERM      | none    | no  |
| the node is draining, and it released or was killed for it | drained             | none    | no  |
| superseded: another life owns the agent                    | superseded          | none    | no  |
| released: another node has code for the next signal or for the stored schema | newer_code:... | none | no |
| an exception in a handler (dead-lettered in the same step) | exception:...       | none    | yes |
| an exception outside of handlers                           | exception:...       | attempt | yes |
| it could not start                                         | start_failed:...    | none    | yes |
| its stored state or record cannot be read by this code     | unreadable_state:...| none    | no, it is parked |
| killed by us: over its deadline, over its memory           | deadline, memory    | attempt | yes |
| killed by us: over its deadline while it read its state    | deadline:reading... | none    | no  |
| the same twice running, with no commit in between          | unreadable_state:...| none    | no, it is parked |
| killed by us: it started more processes than it may        | processes           | attempt | yes |
| ended by a MemoryError                                    | memory              | attempt | yes |
| killed by us: no progress                                  | frozen              | attempt | yes |
| the same, and somebody had stopped it (SIGSTOP)            | frozen              | kill    | yes |
| killed by us: not up in time                               | start_timeout       | none    | yes |
| killed by us: the time to shut down ran out                | killed              | none    | yes |
| killed by us: an operator's order, superseded              | as said             | none    | no  |
| SIGKILL that none of ours sent                             | signal:SIGKILL      | kill    | yes |
| another signal                                             | signal:<name>       | attempt | yes |
| any other exit, also 0 without a release                   | exit:<code>         | attempt | yes |
| the spawner died                                           | spawner_lost        | kill    | no  |

Whether an end counts against the intensity is OTP's question of the restart type and of who asked for it; the last
column says no only where the end is not the agent's doing at all. A permanent child that stops normally counts.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Literal

from regrow_workers.os_signals import signal_name
from regrow_workers.slots import Phase, Reading

__all__ = [
    "Charge",
    "ExitReason",
    "Killed",
    "Knowledge",
    "WorkerExit",
    "explain",
    "is_expected",
    "spawner_lost",
]

Charge = Literal["attempt", "kill", "none"]

REASON_LENGTH = 300
UNREADABLE = "unreadable_state"
"""The kind of an end after which the supervisor parks the agent: no restart would mend it."""
READING = "deadline:reading"
"""Its reading of the stored state ran over the deadline: an endless upcast, or a machine that gave it no processor.

It is tried again. Whoever records the end adds version and cursor; where they are those of the last end as well, he
records ``UNREADABLE`` instead (``lua/parts/exits.lua``)."""
SHUTDOWN = "shutdown"
"""The reason of a worker that was asked to stop, as OTP has it."""
ASKED = "\0asked"
"""What its slot says then: no reason of a ``Stop()`` can be that."""
NEWER_CODE = "newer_code"
"""The kind of an end that leaves the agent to a node with other code; then the signal type, if one is the reason."""
MEMORY = "MemoryError"
"""What a worker's slot says when it was refused memory and ended for it."""


class WorkerExit(IntEnum):
    """Exit codes of workers. Each counts only together with the phase that the worker noted in its slot."""

    RELEASED = 0
    BOOT_FAILED = 69
    CRASHED = 70
    SUPERSEDED = 71
    FAILED = 72
    RECYCLED = 73
    UNREADABLE = 74
    HANDED_OVER = 75


class Killed(StrEnum):
    """Why the node sent SIGKILL to a worker of its own."""

    DEADLINE = "deadline"
    FROZEN = "frozen"
    MEMORY = "memory"
    PROCESSES = "processes"
    START_TIMEOUT = "start_timeout"
    SHUTDOWN_TIME = "killed"
    OPERATOR = "operator"
    SUPERSEDED = "superseded"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the node knows of an ended worker besides its status and its slot."""

    killed: Killed | None = None
    draining: bool = False
    asked: bool = False
    """By the node, to stop."""
    was_stopped: bool = False
    why: str = ""
    """It was killed for this, in words."""


@dataclass(frozen=True, slots=True)
class ExitReason:
    """``reason`` as it goes to Redis; ``charge`` for the signal in hand; ``charged`` for the restart intensity."""

    reason: str
    charge: Charge
    charged: bool
    error: str = ""


_KILL_CHARGES: dict[Killed, tuple[Charge, bool]] = {
    Killed.DEADLINE: ("attempt", True),
    Killed.FROZEN: ("attempt", True),
    Killed.MEMORY: ("attempt", True),
    Killed.PROCESSES: ("attempt", True),
    Killed.START_TIMEOUT: ("none", True),
    Killed.SHUTDOWN_TIME: ("none", True),
    Killed.OPERATOR: ("none", False),
    Killed.SUPERSEDED: ("none", False),
    Killed.DRAINED: ("none", False),
}


def explain(status: int, slot: Reading, known: Knowledge) -> ExitReason:
    """``status`` is an exit code, or minus the number of the signal that ended the process."""
    if status == -signal.SIGKILL:
        return _sigkill(slot, known)
    if status < 0:
        name = signal_name(-status)
        return ExitReason(f"signal:{name}", "attempt", True, f"the process was ended by {name}")
    ours = _our_exit(status, slot, known)
    if ours is not None:
        return ours
    return ExitReason(f"exit:{status}", "attempt", True, f"the process ended itself with exit code {status}")


def is_expected(reason: str) -> bool:
    """OTP's normal ends: ``normal``, ``shutdown``, ``shutdown:<text>``."""
    return reason in ("normal", "shutdown") or reason.startswith("shutdown:")


def spawner_lost() -> ExitReason:
    return ExitReason("spawner_lost", "kill", False)


def _sigkill(slot: Reading, known: Knowledge) -> ExitReason:
    if known.killed is None:
        error = "the process was ended by a SIGKILL that regrow did not send"
        return ExitReason(f"signal:{signal_name(signal.SIGKILL)}", "kill", True, error)
    if known.killed is Killed.DEADLINE and slot.phase is Phase.READING:
        return ExitReason(READING, "none", False, "reading its state took longer than the deadline")
    charge, charged = _KILL_CHARGES[known.killed]
    if known.killed is Killed.FROZEN and known.was_stopped:
        charge = "kill"
    if not slot.entry:
        charge = "none"
    return ExitReason(str(known.killed), charge, charged, known.why)


def _our_exit(status: int, slot: Reading, known: Knowledge) -> ExitReason | None:
    match (status, slot.phase):
        case (WorkerExit.RELEASED, Phase.RELEASED):
            if slot.said == ASKED:
                return _asked(known)
            return ExitReason(slot.said[:REASON_LENGTH] or "normal", "none", True)
        case (WorkerExit.RECYCLED, Phase.RECYCLED):
            # Only where it gets no successor: it was asked to stop meanwhile, or its end was decided.
            if known.killed is not None:
                return ExitReason(str(known.killed), "none", _KILL_CHARGES[known.killed][1])
            return _asked(known)
        case (WorkerExit.SUPERSEDED, Phase.SUPERSEDED):
            return ExitReason("superseded", "none", False)
        case (WorkerExit.FAILED, Phase.FAILED):
            # Its commit has put the traceback into the agent's last_error.
            return ExitReason(f"exception:{slot.said}"[:REASON_LENGTH], "none", True)
        case (WorkerExit.CRASHED, Phase.CRASHED) if slot.said == MEMORY:
            return ExitReason(
                Killed.MEMORY, "attempt", True, "MemoryError: it wanted more than max_memory allows"
            )
        case (WorkerExit.CRASHED, Phase.CRASHED):
            return ExitReason(f"exception:{slot.said}"[:REASON_LENGTH], "attempt", True, slot.said)
        case (WorkerExit.BOOT_FAILED, Phase.BOOT_FAILED):
            return ExitReason(f"start_failed:{slot.said}"[:REASON_LENGTH], "none", True, slot.said)
        case (WorkerExit.HANDED_OVER, Phase.HANDED_OVER):
            return ExitReason(f"{NEWER_CODE}:{slot.said}".rstrip(":"), "none", False)
        case (WorkerExit.UNREADABLE, Phase.UNREADABLE):
            return _unreadable(slot.said)
        case _:
            return None


def _unreadable(said: str) -> ExitReason:
    return ExitReason(f"{UNREADABLE}:{said}"[:REASON_LENGTH], "none", False, said)


def _asked(known: Knowledge) -> ExitReason:
    if known.draining:
        return ExitReason(Killed.DRAINED, "none", False)
    if known.asked:
        return ExitReason(SHUTDOWN, "none", True)
    # Like an operator's kill: a transient agent is not to be ended by it, and nobody is to blame.
    return ExitReason(f"signal:{signal_name(signal.SIGTERM)}", "none", False)
