"""What must hold: in every world (``check_world``) and across every script (``check_step``).

Raises ``Violation`` with the promise that is broken. ``at_rest`` is the quiescence that every reachable world must be
able to reach once faults stop.
"""

from __future__ import annotations

from itertools import pairwise

from tests.protocol.world import (
    NOBODY,
    Budget,
    Call,
    Kind,
    Phase,
    Record,
    Scenario,
    World,
    emitted_by,
    kind_of,
)

__all__ = ["Violation", "at_rest", "check_step", "check_world"]

BY_OWNER = frozenset({"commit", "trying", "release", "reload"})
"""Scripts that only the owner of the current incarnation may have any effect with."""

TWO_OWNERS = "one incarnation never has two owners, nor one after its end"
CLAIMED = frozenset(Phase) - {Phase.FORKED}


class Violation(AssertionError):
    """A promise of the protocol does not hold."""


def require(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)


def check_step(scenario: Scenario, before: World, after: World, call: Call, word: str) -> None:
    """Nothing goes back; one life has one token; a fenced call leaves no trace; only what is over is ended."""
    record = before.agents[call.agent]
    current = record.incarnation == call.incarnation and record.owner == call.token
    if call.script in BY_OWNER:
        require(word != "fenced" or not current, "refused with the owner still ours is no fence")
    if before is after:
        return
    for old, new in zip(before.agents, after.agents, strict=True):
        if old is new:
            continue
        require(new.incarnation >= old.incarnation, "the incarnation never goes back")
        require(new.cursor >= old.cursor, "the cursor never goes back")
        require(new.version >= old.version, "the version never goes back")
        if old.incarnation == new.incarnation:
            first = old.owner == NOBODY and not old.ended
            over = new.owner == NOBODY and new.ended == new.incarnation
            require(new.owner == old.owner or first or over, TWO_OWNERS)
    if call.script in BY_OWNER:
        require(current, f"{call.script} of a life that is over leaves no trace")
    if call.script == "claim":
        require(record.incarnation == call.incarnation, "only the current incarnation is claimed")
    if call.script == "report" and after.agents[call.agent].ended > record.ended:
        check_ended(scenario, before, call)
    if call.script == "commit":
        check_condemned(scenario, call.agent, record, after.agents[call.agent])


def check_ended(scenario: Scenario, before: World, call: Call) -> None:
    """With a twin from a repeated order the death of either ends the life, a needless takeover but a safe one; that
    it was superseded does not."""
    superseded = bool(call.args[2])
    if superseded or not scenario.budget.repeats:
        over = not owners(before, call.agent, before.agents[call.agent])
        require(over, "a life is reported ended only when it is over")


def check_condemned(scenario: Scenario, agent: int, before: Record, after: Record) -> None:
    """A signal is condemned only after it really killed as often as it may."""
    for entry in after.dead[len(before.dead) :]:
        if kind_of(scenario, agent, before.log[entry - 1]) is Kind.POISON:
            require(
                before.deaths >= scenario.max_attempts, "a signal is condemned only for deaths that happened"
            )


def owners(world: World, agent: int, record: Record) -> list[int]:
    """Live processes that could commit now."""
    return [
        one.token
        for one in world.processes
        if one.agent == agent
        and one.phase in CLAIMED
        and one.incarnation == record.incarnation
        and one.token == record.owner
    ]


def check_world(scenario: Scenario, world: World) -> None:
    for agent, record in enumerate(world.agents):
        require(len(owners(world, agent, record)) <= 1, "never two owners able to commit")
        lives = 1 + record.deaths + ended_from_outside(scenario, world)
        require(record.incarnation <= lives, "one restart per death or verdict")
        check_signals(scenario, record)
        check_emits(scenario, world, agent)


def ended_from_outside(scenario: Scenario, world: World) -> int:
    """Faults so far that end a life: a kill, a verdict, a lost node, a drain, a twin that is superseded."""
    had, left = lives_at_stake(scenario.budget), lives_at_stake(world.budget)
    return had - left


def lives_at_stake(budget: Budget) -> int:
    return budget.crashes + budget.verdicts + budget.lost_nodes + budget.drains + budget.repeats


def check_signals(scenario: Scenario, record: Record) -> None:
    """Every accepted signal is applied once and in order, or dead, or waiting."""
    applied, dead, last = record.applied, record.dead, len(record.log)
    require(all(a < b for a, b in pairwise(applied)), "signals are applied in order")
    settled = sorted(entry for entry in applied + dead if entry <= record.cursor or not scenario.latest)
    require(
        settled == list(range(1, record.cursor + 1)), "each signal up to the cursor is settled exactly once"
    )
    waiting = [entry for entry in range(record.cursor + 1, last + 1) if entry not in dead]
    require(list(record.mailbox) == waiting, "the mailbox is what lies after the cursor")
    require(len(set(dead)) == len(dead), "a signal is a dead letter once")
    require(record.version == len(applied), "the version counts the transitions")
    sent = [content for content in record.log if content < 1000]
    require(len(sent) == len(set(sent)), "a signal id is accepted once")


def check_emits(scenario: Scenario, world: World, agent: int) -> None:
    """Every emit of a landed commit is delivered, held or dead, once; per target in the order they were made."""
    record = world.agents[agent]
    made = [
        emitted_by(agent, entry)
        for entry in record.applied
        if kind_of(scenario, agent, record.log[entry - 1]) is Kind.EMITS
    ]
    if not made and not record.held:
        return
    log = world.agents[(agent + 1) % len(world.agents)].log
    first = emitted_by(agent, 0)
    delivered = [content for content in log if first < content < first + 1000]
    on_the_way = delivered + list(record.held)
    require(sorted(on_the_way + list(record.shed)) == made, "an emit is neither lost nor doubled")
    require(on_the_way == sorted(on_the_way), "emits arrive in order")


def at_rest(scenario: Scenario, world: World) -> bool:
    """Nothing is under way, every signal is settled, every agent has its owner."""
    if world.flight or world.orders or world.reports or world.exits or world.deciding:
        return False
    for agent, record in enumerate(world.agents):
        idle = [one for one in world.processes if one.agent == agent and one.phase is Phase.LOADED]
        alive = any(one.token == record.owner and one.incarnation == record.incarnation for one in idle)
        done = world.sent[agent] == len(scenario.signals[agent]) and not record.mailbox and not record.held
        if not alive or not done:
            return False
    return True
