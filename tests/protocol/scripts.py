"""The scripts of the model: each takes the world and a call, and answers the next world and a word.

A script is one indivisible step. ``run`` is the only entrance: it looks the script up and checks what must hold across
any step (``invariants.check_step``), whoever made the call and however late it comes.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.protocol.invariants import check_step
from tests.protocol.world import (
    NOBODY,
    Call,
    Flaw,
    Kind,
    Order,
    Plan,
    Record,
    Report,
    Scenario,
    World,
    emitted_by,
    kind_of,
)

__all__ = ["run", "report_call"]

Reply = tuple[World, str]


def run(scenario: Scenario, world: World, call: Call) -> Reply:
    after, word = SCRIPTS[call.script](scenario, world, call)
    check_step(scenario, world, after, call, word)
    return after, word


def put(world: World, agent: int, record: Record) -> World:
    agents = world.agents
    return world._replace(agents=(*agents[:agent], record, *agents[agent + 1 :]))


def fenced(record: Record, call: Call) -> bool:
    """Equality of number and token, never an order of numbers."""
    return record.incarnation != call.incarnation or record.owner != call.token


def accept(record: Record, content: int) -> Record:
    """XADD: the next acceptance id is the length of the log."""
    entry = len(record.log) + 1
    return record._replace(log=(*record.log, content), mailbox=(*record.mailbox, entry))


def send(scenario: Scenario, world: World, call: Call) -> Reply:
    record = world.agents[call.agent]
    content = call.args[0]
    if content in record.log and scenario.flaw is not Flaw.NO_DEDUPE:
        return world, "duplicate"
    if len(record.mailbox) >= scenario.max_mailbox:
        given_way = give_way(scenario, record)
        if given_way is None:
            return world, "full"
        record = given_way
    return put(world, call.agent, accept(record, content)), "accepted"


def give_way(scenario: Scenario, record: Record) -> Record | None:
    """``publish`` with ``policy=latest``: the oldest waiting signal becomes a dead letter, but not one being tried."""
    waiting = [entry for entry in record.mailbox if entry != record.trying]
    if not scenario.latest or not waiting:
        return None
    oldest = waiting[0]
    left = tuple(entry for entry in record.mailbox if entry != oldest)
    return record._replace(mailbox=left, dead=(*record.dead, oldest), dropped=max(record.dropped, oldest))


def claim(scenario: Scenario, world: World, call: Call) -> Reply:
    flaw = scenario.flaw
    record = world.agents[call.agent]
    if record.incarnation != call.incarnation and flaw is not Flaw.CLAIM_IGNORES_INCARNATION:
        return world, "fenced"
    if record.ended == call.incarnation and flaw is not Flaw.CLAIM_AFTER_END:
        return world, "fenced"
    if record.owner not in {NOBODY, call.token} and flaw is not Flaw.OWNER_OVERWRITTEN:
        return world, "fenced"
    if record.owner == call.token and flaw is not Flaw.REPEATED_CLAIM_CHARGES:
        return world, "claimed"
    careful = record.careful_until if record.clean else len(record.log)
    charge = record.charge if record.trying > record.cursor else 0
    kept = record.charge if flaw is Flaw.REPEATED_CLAIM_CHARGES else 0
    claimed = record._replace(
        owner=call.token, careful_until=careful, clean=False, attempts=record.attempts + charge, charge=kept
    )
    first = next((entry for entry in record.mailbox if entry > record.cursor), 0)
    blocked = len(record.held) > scenario.max_outbox
    if record.trying <= record.cursor and record.cursor < first <= careful and not blocked:
        claimed = claimed._replace(trying=first, attempts=0)
    return put(world, call.agent, claimed), "claimed"


def reload(scenario: Scenario, world: World, call: Call) -> Reply:
    return world, "fenced" if fenced(world.agents[call.agent], call) else "loaded"


def mark_trying(scenario: Scenario, world: World, call: Call) -> Reply:
    record = world.agents[call.agent]
    if fenced(record, call):
        return world, "fenced"
    entry, attempts = call.args
    if entry not in record.mailbox:
        return world, "conflict"
    return put(world, call.agent, record._replace(trying=entry, attempts=attempts)), "marked"


def release(scenario: Scenario, world: World, call: Call) -> Reply:
    record = world.agents[call.agent]
    if fenced(record, call) and scenario.flaw is not Flaw.RELEASE_UNFENCED:
        return world, "fenced"
    return put(world, call.agent, record._replace(clean=True)), "released"


def commit(scenario: Scenario, world: World, call: Call) -> Reply:
    flaw, plan = scenario.flaw, call.plan
    record = world.agents[call.agent]
    assert plan is not None
    if fenced(record, call):
        return world, "fenced"
    compares = flaw is not Flaw.CURSOR_NOT_COMPARED
    based = record.version == plan.base_version and (not compares or record.cursor == plan.base_cursor)
    landed = record.version == plan.version and (not compares or record.cursor == plan.cursor)
    if not based and flaw is not Flaw.BASE_NOT_COMPARED:
        if not landed:
            return world, "conflict"
        return world, "fenced" if flaw is Flaw.LANDED_NOT_CHECKED else "landed"
    if gave_way(record, plan) and flaw is not Flaw.DROP_UNNOTICED:
        return world, "conflict"
    return write(scenario, world, call.agent, plan), "committed"


def gave_way(record: Record, plan: Plan) -> bool:
    """A signal of the batch lies in the dead letters since it was read."""
    if record.dropped <= plan.base_cursor:
        return False
    taken = sum(entry > plan.base_cursor for entry in plan.applied) + len(plan.dead)
    return taken != sum(entry <= plan.cursor for entry in record.mailbox)


def write(scenario: Scenario, world: World, agent: int, plan: Plan) -> World:
    """What a commit writes, in one step: state, version, cursor, trim, dead letters, emits."""
    record = world.agents[agent]
    record = record._replace(
        version=plan.version,
        cursor=plan.cursor,
        trying=record.trying if record.trying > plan.cursor else 0,
        applied=plan.applied,
        dead=record.dead + plan.dead,
        mailbox=tuple(entry for entry in record.mailbox if entry > plan.cursor),
    )
    world = put(world, agent, record)
    for entry in plan.applied:
        if entry > plan.base_cursor and kind_of(scenario, agent, record.log[entry - 1]) is Kind.EMITS:
            world = emit(scenario, world, agent, emitted_by(agent, entry))
    return world


def target_of(world: World, agent: int) -> int:
    """With two agents each emits to the other; with one, it emits to itself."""
    return (agent + 1) % len(world.agents)


def emit(scenario: Scenario, world: World, agent: int, content: int) -> World:
    record, target = world.agents[agent], target_of(world, agent)
    queued = bool(record.held) and scenario.flaw is not Flaw.OVERTAKEN
    if queued or len(world.agents[target].mailbox) >= scenario.max_mailbox:
        return put(world, agent, record._replace(held=(*record.held, content)))
    return put(world, target, accept(world.agents[target], content))


def deliver(scenario: Scenario, world: World, call: Call) -> Reply:
    """The relay: the oldest held emit goes to its target, if there is room."""
    record, target = world.agents[call.agent], target_of(world, call.agent)
    if not record.held or len(world.agents[target].mailbox) >= scenario.max_mailbox:
        return world, "nothing"
    content = record.held[0]
    if scenario.flaw is Flaw.RELAY_IN_TWO_STEPS and not call.args:
        after = put(world, target, accept(world.agents[target], content))
        removal = Call("deliver", call.agent, args=(content,))
        return after._replace(flight=tuple(sorted((*after.flight, removal), key=repr))), "delivered"
    if call.args:
        return put(world, call.agent, record._replace(held=record.held[1:])), "delivered"
    world = put(world, call.agent, record._replace(held=record.held[1:]))
    return put(world, target, accept(world.agents[target], content)), "delivered"


def expire(scenario: Scenario, world: World, call: Call) -> Reply:
    """Held too long, with the target still full: the sender's dead letter ``target_full``."""
    record, target = world.agents[call.agent], target_of(world, call.agent)
    full = len(world.agents[target].mailbox) >= scenario.max_mailbox
    if not record.held or not full or scenario.flaw is Flaw.NO_EXPIRY:
        return world, "nothing"
    shed = (*record.shed, record.held[0])
    return put(world, call.agent, record._replace(held=record.held[1:], shed=shed)), "expired"


def kept_owner(scenario: Scenario, record: Record) -> int:
    return record.owner if scenario.flaw is Flaw.OWNER_KEPT_AT_TAKEOVER else NOBODY


def report_call(report: Report) -> Call:
    args = (report.charge, report.in_hand, int(report.superseded))
    return Call("report", report.agent, report.incarnation, args=args)


def report(scenario: Scenario, world: World, call: Call) -> Reply:
    """Ends the life: no owner any more. What a life that claimed had in hand is charged at the next claim."""
    record, flaw = world.agents[call.agent], scenario.flaw
    charge, in_hand, superseded = call.args
    if superseded and record.owner != NOBODY and flaw is not Flaw.SUPERSEDED_IS_AN_END:
        return world, "stale"
    if record.incarnation != call.incarnation and flaw is not Flaw.EXIT_OF_ANY_LIFE:
        return world, "stale"
    if record.ended == record.incarnation:
        return world, "known"
    after = record._replace(ended=record.incarnation)
    if record.owner != NOBODY:
        after = after._replace(owner=kept_owner(scenario, record), charge=charge)
        if in_hand > record.cursor and in_hand != record.trying:
            after = after._replace(trying=in_hand, attempts=0)
    world = put(world, call.agent, after)
    return world._replace(exits=(*world.exits, (call.agent, record.incarnation))), "recorded"


def decide(scenario: Scenario, world: World, call: Call) -> Reply:
    """One event, one step: the exit's entry goes, the incarnation rises, the owner is emptied, the order is written."""
    leader, answers, node = call.args
    record = world.agents[call.agent]
    event = (call.agent, call.incarnation)
    if scenario.flaw is not Flaw.DECISION_UNFENCED:
        if leader != world.leader:
            return world, "not_leader"
        if answers and event not in world.exits:
            return world, "conflict"
        if record.incarnation != call.incarnation:
            return world, "conflict"
    if answers:
        world = world._replace(exits=tuple(one for one in world.exits if one != event))
    owner = kept_owner(scenario, record)
    lived = record._replace(incarnation=call.incarnation + 1, owner=owner, node=node, ended=0)
    order = Order(node, call.agent, call.incarnation + 1)
    world = put(world, call.agent, lived)
    return world._replace(orders=tuple(sorted((*world.orders, order)))), "decided"


def forget(scenario: Scenario, world: World, call: Call) -> Reply:
    """A decision about an exit that is no longer current: the entry goes, nothing else changes."""
    event = (call.agent, call.incarnation)
    if call.args[0] != world.leader:
        return world, "not_leader"
    if event not in world.exits:
        return world, "conflict"
    return world._replace(exits=tuple(one for one in world.exits if one != event)), "forgotten"


SCRIPTS: dict[str, Callable[[Scenario, World, Call], Reply]] = {
    "send": send,
    "claim": claim,
    "reload": reload,
    "trying": mark_trying,
    "release": release,
    "commit": commit,
    "deliver": deliver,
    "expire": expire,
    "report": report,
    "decide": decide,
    "forget": forget,
}
