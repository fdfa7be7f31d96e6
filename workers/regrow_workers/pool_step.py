"""One slice of one pooled agent: what was claimed becomes a commit, and what follows if the agent's life ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from regrow_signals import agents
from regrow_signals.agents import Owner
from regrow_signals.calls import Call
from regrow_signals.commits import is_plain
from regrow_signals.errors import UnreadableState
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.nodes import ExitReport, report_exit
from regrow_signals.pool import Claimed, PlainCommit, plain_commit
from regrow_workers import batch
from regrow_workers.agent import Agent
from regrow_workers.batch import CommitPlan, Ends
from regrow_workers.fail_points import FailPoints
from regrow_workers.fork_copies import leave_if_copied
from regrow_workers.pool_hand import InHand
from regrow_workers.reasons import REASON_LENGTH, UNREADABLE
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Slot
from regrow_workers.tracebacks import exception_line, exception_trace

__all__ = ["apply_claimed", "cannot_read"]


def apply_claimed(
    claimed: Claimed,
    agent_type: type[Agent[Any]],
    slot: Slot,
    *,
    keys: Keys,
    limits: Limits,
    settings: NodeSettings,
    fail: FailPoints,
    refused: Mapping[str, tuple[str, str]],
    clock: Callable[[], float],
    check: Callable[[], object],
) -> PlainCommit | list[Call[Any]]:
    """Apply the first entries, up to the bounds of a slice; what makes it true: a commit, or several calls.

    While it runs the progress slot says for whom. An exception that is no handler's (initial data that does not fit, a
    defect of ours) ends this agent's life, not the slot. ``check`` raises where the process is not fit to go on: with
    this agent in hand, whose doing it is.
    """
    owner = claimed.owner

    def begin(entry: str) -> None:
        slot.begin(entry)
        fail.reach("in_handler")

    slot.note(Phase.STORING)
    slot.hold(InHand(owner.agent, owner.incarnation, claimed.deadline_ms).to_text())
    slot.note(Phase.READING)
    try:
        plan = batch.plan(
            agent_type,
            claimed.loaded,
            claimed.entries,
            limits,
            clock,
            owner=owner,
            before=begin if fail.armed else slot.begin,
            max_signals=settings.read_count,
            check_every=settings.check_every,
            refused=refused,
        )
        work = _made_true(keys, limits, owner, plan)
    except MemoryError:
        raise
    except UnreadableState as error:
        return cannot_read(keys, owner, str(error))
    except Exception as error:  # noqa: BLE001  whatever it is, it is this agent's alone
        leave_if_copied()
        reason = f"exception:{exception_line(error)}"
        return [_end(keys, owner, reason, error=exception_trace(error))]
    leave_if_copied()
    check()
    slot.note(Phase.STORING)
    return work


def _made_true(keys: Keys, limits: Limits, owner: Owner, plan: CommitPlan) -> PlainCommit | list[Call[Any]]:
    if plan.taken and plan.ends is None and is_plain(plan.commit):
        return plain_commit(limits, plan.commit)
    calls: list[Call[Any]] = [agents.commit(keys, limits, plan.commit)] if plan.taken else []
    return calls if plan.ends is None else [*calls, *_ends(keys, owner, plan.ends)]


def cannot_read(keys: Keys, owner: Owner, why: str) -> list[Call[Any]]:
    """No signal is to blame and no restart would help: its supervisor parks it. Not claimed if it has no token."""
    end = _end(keys, owner, f"{UNREADABLE}:{why}", error=why, charged=False)
    return [agents.release(keys, owner, reason=UNREADABLE), end] if owner.token else [end]


def _ends(keys: Keys, owner: Owner, ends: Ends) -> list[Call[Any]]:
    """After the commit that says so: as an isolated worker's process would end, and its node report it."""
    if ends.kind == "crash":
        return [_end(keys, owner, ends.reason)]
    reason = ends.reason if ends.kind == "stop" else f"shutdown:{ends.reason}"
    return [agents.release(keys, owner, reason=reason), _end(keys, owner, reason or "normal")]


def _end(keys: Keys, owner: Owner, reason: str, *, error: str = "", charged: bool = True) -> Call[Any]:
    """Told only if this claim is still the agent's: its life may go on in other hands."""
    report = ExitReport(
        owner.node,
        owner.agent,
        owner.incarnation,
        reason[:REASON_LENGTH],
        "none",
        charged=charged,
        error=error,
    )
    return report_exit(keys, report, token=owner.token)
