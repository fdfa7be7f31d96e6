"""Pooled agents as a model that can be searched: queued once, claimed by one slot, freed when it is stuck or dead.

    step in the model    script in signals/regrow_signals/lua
    -------------------  -----------------------------------------------------------------------------------------
    send                 send.lua with parts/ready.lua: accepted, and queued unless it is queued, in hands or ended
    claim                pool_claim.lua: out of the queue, each under a token of its own, into the node's claims
    commit               pool_commit.lua: fenced by the claim's token, based on version and cursor; lets the agent go
    free                 pool_free.lua: what a stuck slot has not begun, or all that a dead one held; the end of the
                         agent in hand is recorded
    decide, hold         decision.lua: the next life, queued if signals wait; a life that ends by the supervisor's word

Redis runs each as one indivisible step; all else is interleaved. A slot that dies may leave its last call on the line,
where it runs late: after the node's first look at what it held, and before its second. A world is one hashable value.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.protocol.invariants import Violation

__all__ = ["PoolFlaw", "PoolScenario", "PoolWorld", "at_rest", "beginning", "check", "successors"]

NOBODY = 0
NONE = -1


class PoolFlaw(StrEnum):
    """One deliberate break each; the search has to find every one."""

    COMMIT_UNFENCED = "a commit does not compare the claim's token"
    FREED_KEEPS_OWNER = "what is freed keeps its owner"
    FREED_UNQUEUED = "what is freed is not queued again"
    RELEASE_FORGETS_BACKLOG = "a commit lets go without a look at the mailbox"
    ONE_LOOK = "a dead slot is looked at once: a claim on its way then stays"
    ALL_CHARGED = "a slot's end is the end of all that it held"
    HOLD_KEEPS_OWNER = "a hold leaves the owner in place"
    QUEUED_TWICE = "a signal queues an agent that is in hands"


class Agent(NamedTuple):
    """Its record and mailbox: ``accepted`` signals, of which those up to ``cursor`` are applied."""

    incarnation: int = 1
    ended: int = 0
    owner: int = NOBODY
    worker: int = NOBODY
    queued: bool = False
    held: bool = False
    accepted: int = 0
    cursor: int = 0
    applied: tuple[int, ...] = ()
    deaths: int = 0
    """What really happened: how often a slot died with it in hand, or it was held."""


class Held(NamedTuple):
    """An agent as its slot has it."""

    agent: int
    token: int
    cursor: int
    upto: int


class Slot(NamedTuple):
    """A process. ``begun``: how many of ``hands`` it has applied; the one at ``running`` is in a transition."""

    number: int
    hands: tuple[Held, ...] = ()
    running: bool = False


class Late(NamedTuple):
    """The last call of a slot that is dead: a claim (no ``commit``), or a commit."""

    slot: int
    commit: Held | None = None


class PoolWorld(NamedTuple):
    """Everything there is. ``dead``: slots whose node has still to look, with the agent in hand and the looks left."""

    agents: tuple[Agent, ...]
    slots: tuple[Slot, ...]
    ready: tuple[int, ...] = ()
    claims: tuple[tuple[int, int], ...] = ()
    exits: tuple[tuple[int, int], ...] = ()
    dead: tuple[tuple[int, int, int, int], ...] = ()
    late: tuple[Late, ...] = ()
    sent: tuple[int, ...] = ()
    next_slot: int = 1
    next_token: int = 1
    crashes: int = 0
    stuck: int = 0
    holds: int = 0


class PoolScenario(NamedTuple):
    """``signals`` of each agent, ``slots``, and how often each fault may happen."""

    name: str
    signals: tuple[int, ...]
    slots: int = 2
    most: int = 2
    crashes: int = 0
    stuck: int = 0
    holds: int = 0
    flaw: PoolFlaw | None = None


Step = tuple[str, PoolWorld, bool]
"""What happens, the world after it, and whether it is a fault, which may stop happening."""


def beginning(scenario: PoolScenario) -> PoolWorld:
    count = len(scenario.signals)
    return PoolWorld(
        agents=(Agent(),) * count,
        slots=tuple(Slot(number) for number in range(1, scenario.slots + 1)),
        sent=(0,) * count,
        next_slot=scenario.slots + 1,
        crashes=scenario.crashes,
        stuck=scenario.stuck,
        holds=scenario.holds,
    )


# Scripts.


def put(world: PoolWorld, agent: int, record: Agent) -> PoolWorld:
    return world._replace(agents=(*world.agents[:agent], record, *world.agents[agent + 1 :]))


def make_ready(world: PoolWorld, agent: int, flaw: PoolFlaw | None = None) -> PoolWorld:
    record = world.agents[agent]
    owned = record.owner != NOBODY and flaw is not PoolFlaw.QUEUED_TWICE
    if owned or record.queued or record.ended == record.incarnation or record.cursor == record.accepted:
        return world
    return put(world, agent, record._replace(queued=True))._replace(ready=(*world.ready, agent))


def send(scenario: PoolScenario, world: PoolWorld, agent: int) -> PoolWorld:
    record = world.agents[agent]
    world = put(world, agent, record._replace(accepted=record.accepted + 1))
    return make_ready(world, agent, scenario.flaw)


def claim(scenario: PoolScenario, world: PoolWorld, slot: int) -> tuple[PoolWorld, tuple[Held, ...]]:
    taken: list[Held] = []
    while world.ready and len(taken) < scenario.most:
        agent, ready = world.ready[0], world.ready[1:]
        record = world.agents[agent]._replace(queued=False)
        world = put(world, agent, record)._replace(ready=ready)
        twice = record.owner != NOBODY and scenario.flaw is not PoolFlaw.QUEUED_TWICE
        if twice or record.ended == record.incarnation or record.cursor == record.accepted:
            continue
        token = world.next_token
        taken.append(Held(agent, token, record.cursor, record.cursor + 1))
        world = put(world, agent, record._replace(owner=token, worker=slot))
        claims = tuple(sorted({*world.claims, (slot, agent)}))
        world = world._replace(claims=claims, next_token=token + 1)
    return world, tuple(taken)


def let_go(scenario: PoolScenario, world: PoolWorld, agent: int) -> PoolWorld:
    record = world.agents[agent]._replace(owner=NOBODY, worker=NOBODY)
    world = put(world, agent, record)
    return world if scenario.flaw is PoolFlaw.RELEASE_FORGETS_BACKLOG else make_ready(world, agent)


def commit(scenario: PoolScenario, world: PoolWorld, slot: int, held: Held) -> PoolWorld:
    world = world._replace(claims=tuple(one for one in world.claims if one != (slot, held.agent)))
    record = world.agents[held.agent]
    if record.owner != held.token and scenario.flaw is not PoolFlaw.COMMIT_UNFENCED:
        return world
    if record.owner != held.token:
        raise Violation("a commit of hands that have let go leaves no trace")
    if record.cursor == held.cursor:
        applied = (*record.applied, *range(held.cursor + 1, held.upto + 1))
        world = put(world, held.agent, record._replace(cursor=held.upto, applied=applied))
    return let_go(scenario, world, held.agent)


def free(scenario: PoolScenario, world: PoolWorld, slot: int, spare: int = NONE) -> PoolWorld:
    for member in world.claims:
        holder, agent = member
        if holder != slot or agent == spare:
            continue
        world = world._replace(claims=tuple(one for one in world.claims if one != member))
        record = world.agents[agent]
        if record.worker != slot or record.owner == NOBODY:
            continue
        if scenario.flaw is PoolFlaw.FREED_KEEPS_OWNER:
            record = record._replace(queued=True)
            world = put(world, agent, record)._replace(ready=(*world.ready, agent))
        elif scenario.flaw is PoolFlaw.FREED_UNQUEUED:
            world = put(world, agent, record._replace(owner=NOBODY, worker=NOBODY))
        elif scenario.flaw is PoolFlaw.ALL_CHARGED:
            world = end(world, agent, record.incarnation)
        else:
            world = let_go(scenario, world, agent)
    return world


def end(world: PoolWorld, agent: int, incarnation: int) -> PoolWorld:
    record = world.agents[agent]
    if record.incarnation != incarnation or record.ended == incarnation:
        return world
    ended = record._replace(ended=incarnation, owner=NOBODY, worker=NOBODY, queued=False)
    return put(world, agent, ended)._replace(exits=(*world.exits, (agent, incarnation)))


def free_dead(scenario: PoolScenario, world: PoolWorld, slot: int, agent: int, incarnation: int) -> PoolWorld:
    """Of a slot that died with ``agent`` in hand (``NONE``: with nobody)."""
    world = free(scenario, world, slot, agent)
    if agent == NONE:
        return world
    world = world._replace(claims=tuple(one for one in world.claims if one != (slot, agent)))
    return end(world, agent, incarnation) if world.agents[agent].worker == slot else world


# Who takes steps.


def successors(scenario: PoolScenario, world: PoolWorld) -> Iterator[Step]:
    for agent, number in enumerate(world.sent):
        if number < scenario.signals[agent]:
            sent = (*world.sent[:agent], number + 1, *world.sent[agent + 1 :])
            yield "a signal is sent", send(scenario, world, agent)._replace(sent=sent), False
    for index, slot in enumerate(world.slots):
        yield from slot_steps(scenario, world, index, slot)
    yield from node_steps(scenario, world)
    for agent, incarnation in world.exits[:1]:
        yield "the watchdog decides", decided(world, agent, incarnation), False
    for agent, record in enumerate(world.agents):
        if world.holds and not record.held and record.ended != record.incarnation:
            held = record._replace(
                held=True, ended=record.incarnation, queued=False, deaths=record.deaths + 1
            )
            if scenario.flaw is not PoolFlaw.HOLD_KEEPS_OWNER:
                held = held._replace(owner=NOBODY, worker=NOBODY)
            yield "an agent is held", put(world, agent, held)._replace(holds=world.holds - 1), True
        if record.held:
            started = record._replace(held=False, incarnation=record.incarnation + 1)
            yield "it is started again", make_ready(put(world, agent, started), agent), False


def decided(world: PoolWorld, agent: int, incarnation: int) -> PoolWorld:
    record, rest = world.agents[agent], world._replace(exits=world.exits[1:])
    if record.incarnation != incarnation or record.held:
        return rest
    return make_ready(put(rest, agent, record._replace(incarnation=incarnation + 1)), agent)


def with_slot(world: PoolWorld, index: int, slot: Slot) -> PoolWorld:
    return world._replace(slots=(*world.slots[:index], slot, *world.slots[index + 1 :]))


def slot_steps(scenario: PoolScenario, world: PoolWorld, index: int, slot: Slot) -> Iterator[Step]:
    number = slot.number
    if not slot.hands:
        after, hands = claim(scenario, world, number)
        if after != world:
            yield "a slot claims", with_slot(after, index, slot._replace(hands=hands)), False
            if world.crashes:
                yield "it dies, its claim on the way", killed(world, index, NONE, Late(number)), True
    elif not slot.running:
        yield "a transition begins", with_slot(world, index, slot._replace(running=True)), False
    else:
        first, rest = slot.hands[0], slot.hands[1:]
        done = with_slot(world, index, slot._replace(hands=rest, running=False))
        yield "it is committed", commit(scenario, done, number, first), False
        if world.crashes:
            yield "it dies, its commit on the way", killed(world, index, NONE, Late(number, first)), True
        if world.stuck:
            freed = free(scenario, world, number, first.agent)
            yield "a slot is stuck, the others are freed", freed._replace(stuck=world.stuck - 1), True
    if world.crashes:
        in_hand = slot.hands[0].agent if slot.running else NONE
        yield "a slot is killed", killed(world, index, in_hand), True


def killed(world: PoolWorld, index: int, agent: int, late: Late | None = None) -> PoolWorld:
    """Another slot takes its place; its node will look at what it held, now and once more."""
    slot = world.slots[index]
    incarnation = world.agents[agent].incarnation if agent != NONE else 0
    if agent != NONE:
        record = world.agents[agent]
        world = put(world, agent, record._replace(deaths=record.deaths + 1))
    world = with_slot(world, index, Slot(world.next_slot))
    return world._replace(
        crashes=world.crashes - 1,
        next_slot=world.next_slot + 1,
        dead=(*world.dead, (slot.number, agent, incarnation, 2)),
        late=world.late if late is None else (*world.late, late),
    )


def node_steps(scenario: PoolScenario, world: PoolWorld) -> Iterator[Step]:
    for index, (slot, agent, incarnation, looks) in enumerate(world.dead):
        others = (*world.dead[:index], *world.dead[index + 1 :])
        last = looks == 1 or scenario.flaw is PoolFlaw.ONE_LOOK
        if looks == 1 and any(late.slot == slot for late in world.late):
            continue  # the second look comes a second later: by then Redis has run it, or never will
        after = free_dead(scenario, world, slot, agent, incarnation)
        rest = others if last else (*others, (slot, NONE, 0, 1))
        yield "a node looks after a dead slot", after._replace(dead=tuple(sorted(rest))), False
    for index, late in enumerate(world.late):
        without = world._replace(late=(*world.late[:index], *world.late[index + 1 :]))
        if late.commit is None:
            yield "a late claim", claim(scenario, without, late.slot)[0], False
        else:
            yield "a late commit", commit(scenario, without, late.slot, late.commit), False
        yield "a call is dropped", without, True


# What must hold.


def check(scenario: PoolScenario, world: PoolWorld) -> None:
    for agent, record in enumerate(world.agents):
        require(
            record.applied == tuple(range(1, record.cursor + 1)), "each signal is applied once and in order"
        )
        require(record.incarnation <= 1 + record.deaths, "one is charged for a slot's death, and nobody else")
        holders = [slot for slot, held in world.claims if held == agent]
        if record.owner != NOBODY:
            require(record.worker in holders, "who is in hands is in the claims of their slot")
            require(record.ended != record.incarnation, "nobody owns a life that is over")
        elif record.ended != record.incarnation and record.cursor < record.accepted:
            require(record.queued and agent in world.ready, "who has work and no owner is in the queue")


def require(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)


def at_rest(scenario: PoolScenario, world: PoolWorld) -> bool:
    """Everything is sent and applied; nobody is in hands, in a queue, on hold or ended."""
    under_way = world.ready or world.claims or world.exits or world.dead or world.late
    idle = all(not slot.hands for slot in world.slots)
    return (
        not under_way
        and idle
        and world.sent == scenario.signals
        and all(
            record.cursor == record.accepted
            and (record.held, record.owner) == (False, NOBODY)
            and record.ended != record.incarnation
            for record in world.agents
        )
    )  # fmt: skip
