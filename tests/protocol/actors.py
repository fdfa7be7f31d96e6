"""Who takes steps: worker processes, their nodes, the watchdog, senders, the relay, and faults.

``successors`` lists every step that is possible in a world. The deciding parts here are the ones the real loops have:
what a worker does with its memory, when a node forks and reports, what the watchdog answers to an exit.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol import faults, scripts
from tests.protocol.world import (
    Call,
    Flaw,
    Kind,
    Phase,
    Plan,
    Process,
    Record,
    Report,
    Scenario,
    Step,
    World,
    kind_of,
    token_of,
)

__all__ = ["successors"]


def successors(scenario: Scenario, world: World) -> Iterator[Step]:
    yield from sender_steps(scenario, world)
    yield from node_steps(scenario, world)
    for index in range(len(world.processes)):
        yield from process_steps(scenario, world, index)
    yield from watchdog_steps(scenario, world)
    yield from relay_steps(scenario, world)
    yield from flight_steps(scenario, world)
    yield from faults.fault_steps(scenario, world)


def sender_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    for agent, number in enumerate(world.sent):
        if number == len(scenario.signals[agent]):
            continue
        call = Call("send", agent, args=(number + 1,))
        after, word = scripts.run(scenario, world, call)
        if word != "full":
            after = after._replace(sent=(*world.sent[:agent], number + 1, *world.sent[agent + 1 :]))
            yield Step("sender sends", after, call=call, reply=word)
        yield from faults.broken_line(world, world, call)


def node_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """Read an order and fork; report an exit until it is taken; end a process whose beat was answered 'stale'."""
    for index, order in enumerate(world.orders):
        rest = (*world.orders[:index], *world.orders[index + 1 :])
        fresh = Process(order.agent, order.incarnation, token_of(scenario.flaw, order), order.node)
        after = with_process(world._replace(orders=rest), fresh)
        yield Step("node forks", after)
        if world.budget.repeats:
            again = tuple(sorted((*rest, order._replace(runs=order.runs + 1))))
            budget = world.budget._replace(repeats=world.budget.repeats - 1)
            yield Step("node forks, and will again", after._replace(orders=again, budget=budget), fault=True)
    for index, report in enumerate(world.reports):
        call = scripts.report_call(report)
        after, word = scripts.run(scenario, world, call)
        rest_reports = (*world.reports[:index], *world.reports[index + 1 :])
        yield Step("node reports an exit", after._replace(reports=rest_reports), call=call, reply=word)
        yield from faults.broken_line(world, world, call)
    for index, process in enumerate(world.processes):
        if process.incarnation < world.agents[process.agent].incarnation:
            yield Step("node ends a stale process", exit_of(world, index, 0))


def with_process(world: World, process: Process, index: int | None = None) -> World:
    """The world with a process more, or with the one at ``index`` replaced."""
    others = world.processes
    if index is not None:
        others = (*others[:index], *others[index + 1 :])
    return world._replace(processes=tuple(sorted((*others, process), key=order_of)))


def order_of(process: Process) -> tuple[int, int, int]:
    return process.agent, process.incarnation, process.token


def exit_of(world: World, index: int, charge: int, in_hand: int = 0, *, superseded: bool = False) -> World:
    """The process is gone; its node will report it."""
    process = world.processes[index]
    rest = (*world.processes[:index], *world.processes[index + 1 :])
    report = Report(process.node, process.agent, process.incarnation, charge, in_hand, superseded)
    return world._replace(processes=rest, reports=tuple(sorted((*world.reports, report))))


def process_steps(scenario: Scenario, world: World, index: int) -> Iterator[Step]:
    process = world.processes[index]
    match process.phase:
        case Phase.LOADED:
            yield from loaded_steps(scenario, world, index)
        case Phase.HANDLING:
            yield from handling_steps(scenario, world, index)
        case _:
            yield from call_steps(scenario, world, index)


def call_of(process: Process) -> Call:
    """The call that a process in this phase has on its line."""
    script = {
        Phase.FORKED: "claim",
        Phase.RELOADING: "reload",
        Phase.TRYING: "trying",
        Phase.COMMITTING: "commit",
        Phase.RELEASING: "release",
    }[process.phase]
    args = (process.trying, process.attempts) if process.phase is Phase.TRYING else ()
    return Call(script, process.agent, process.incarnation, process.token, args, process.plan)


def call_steps(scenario: Scenario, world: World, index: int) -> Iterator[Step]:
    """The call runs and is answered; or its line breaks, and the process repeats it or reloads by its token."""
    process = world.processes[index]
    call = call_of(process)
    after, word = scripts.run(scenario, world, call)
    yield Step(f"process {call.script}", answered(scenario, after, index, word), call=call, reply=word)
    yield from faults.broken_line(world, world, call)
    if process.phase in {Phase.COMMITTING, Phase.TRYING}:
        reloading = process._replace(phase=Phase.RELOADING, plan=None)
        yield from faults.broken_line(world, with_process(world, reloading, index), call)


def answered(scenario: Scenario, world: World, index: int, word: str) -> World:
    """What the process does with the reply."""
    process = world.processes[index]
    record = world.agents[process.agent]
    plan = process.plan
    match word:
        case "fenced":
            return exit_of(world, index, 0, superseded=True)
        case "claimed" | "loaded":
            return with_process(world, loaded(scenario, process, record), index)
        case "conflict":
            return with_process(world, process._replace(phase=Phase.RELOADING, plan=None), index)
        case "marked":
            return with_process(world, process._replace(phase=Phase.HANDLING), index)
        case "released":
            return exit_of(world, index, 0)
        case _:
            assert plan is not None
            done = process._replace(
                phase=Phase.LOADED, version=plan.version, cursor=plan.cursor, applied=plan.applied, plan=None
            )
            return with_process(world, done, index)


def loaded(scenario: Scenario, process: Process, record: Record) -> Process:
    """Memory as the record has it."""
    condemned = record.trying > record.cursor and record.attempts >= scenario.max_attempts
    return process._replace(
        phase=Phase.LOADED,
        version=record.version,
        cursor=record.cursor,
        applied=record.applied,
        careful_until=record.careful_until,
        trying=record.trying,
        attempts=record.attempts,
        condemned=condemned,
        plan=None,
    )


def loaded_steps(scenario: Scenario, world: World, index: int) -> Iterator[Step]:
    """Read after the cursor and apply a batch; one by one while careful; nothing while the outbox is full; drain."""
    process = world.processes[index]
    record = world.agents[process.agent]
    if world.budget.drains:
        budget = world.budget._replace(drains=world.budget.drains - 1)
        releasing = with_process(world, process._replace(phase=Phase.RELEASING), index)
        yield Step("process drains", releasing._replace(budget=budget), fault=True)
    entries = [entry for entry in record.mailbox if entry > process.cursor]
    if not entries or len(record.held) > scenario.max_outbox:
        return
    if process.cursor < process.careful_until:
        yield careful_step(world, index, entries[0])
        return
    for size in range(1, min(scenario.batch, len(entries)) + 1):
        if kind_of(scenario, process.agent, record.log[entries[size - 1] - 1]) is Kind.POISON:
            dead = scripts.put(world, process.agent, record._replace(deaths=record.deaths + 1))
            yield Step("process dies in a batch", exit_of(dead, index, 1, entries[size - 1]))
            return
        yield Step("process applies a batch", applying(scenario, world, index, entries[:size]))


def careful_step(world: World, index: int, entry: int) -> Step:
    """A condemned signal goes to the dead letters unread; any other is noted before it is touched."""
    process = world.processes[index]
    if process.condemned and entry == process.trying:
        plan = Plan(process.version, process.cursor, process.version, entry, process.applied, (entry,))
        sending = process._replace(phase=Phase.COMMITTING, plan=plan)
        return Step("process condemns", with_process(world, sending, index))
    if entry == process.trying:
        return Step("process takes one", with_process(world, process._replace(phase=Phase.HANDLING), index))
    noting = process._replace(phase=Phase.TRYING, trying=entry, attempts=0)
    return Step("process takes one", with_process(world, noting, index))


def handling_steps(scenario: Scenario, world: World, index: int) -> Iterator[Step]:
    process = world.processes[index]
    record = world.agents[process.agent]
    content = record.log[process.trying - 1]
    if kind_of(scenario, process.agent, content) is not Kind.POISON:
        yield Step("process applies one", applying(scenario, world, index, [process.trying]))
        return
    dead = record._replace(deaths=record.deaths + 1)
    yield Step(
        "process dies in the handler",
        exit_of(scripts.put(world, process.agent, dead), index, 1, process.trying),
    )


def applying(scenario: Scenario, world: World, index: int, entries: list[int]) -> World:
    """The batch in memory: what is good changes the state, what is rejected goes to the dead letters."""
    process = world.processes[index]
    log = world.agents[process.agent].log
    rejected = tuple(
        entry for entry in entries if kind_of(scenario, process.agent, log[entry - 1]) is Kind.REJECTED
    )
    good = tuple(entry for entry in entries if entry not in rejected)
    plan = Plan(
        process.version,
        process.cursor,
        process.version + len(good),
        entries[-1],
        process.applied + good,
        rejected,
    )
    return with_process(world, process._replace(phase=Phase.COMMITTING, plan=plan), index)


def watchdog_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """Read one event and decide; commit the decision. A verdict on a lost node is the watchdog's own event."""
    if world.deciding is not None:
        after, word = scripts.run(scenario, world, world.deciding)
        yield Step("watchdog commits", after._replace(deciding=None), call=world.deciding, reply=word)
        yield from faults.broken_line(world, world._replace(deciding=None), world.deciding)
        return
    if world.exits:
        agent, incarnation = world.exits[0]
        yield Step(
            "watchdog reads an exit", world._replace(deciding=answer(scenario, world, agent, incarnation))
        )
    for agent, record in enumerate(world.agents):
        over = record.node in world.lost
        if over or world.budget.verdicts:
            spent = 0 if over else 1
            budget = world.budget._replace(verdicts=world.budget.verdicts - spent)
            args = (world.leader, 0, elsewhere(scenario, world, record.node))
            verdict = Call("decide", agent, record.incarnation, args=args)
            yield Step("watchdog's verdict", world._replace(deciding=verdict, budget=budget), fault=not over)


def answer(scenario: Scenario, world: World, agent: int, incarnation: int) -> Call:
    record = world.agents[agent]
    if record.incarnation != incarnation:
        return Call("forget", agent, incarnation, args=(world.leader,))
    node = elsewhere(scenario, world, record.node) if record.node in world.lost else record.node
    return Call("decide", agent, incarnation, args=(world.leader, 1, node))


def elsewhere(scenario: Scenario, world: World, node: int) -> int:
    """Another live node, or the same one where there is no other."""
    others = [one for one in range(scenario.nodes) if one != node and one not in world.lost]
    return others[0] if others else node


def relay_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    for agent, record in enumerate(world.agents):
        if not record.held:
            continue
        for script in ("deliver", "expire"):
            call = Call(script, agent)
            after, word = scripts.run(scenario, world, call)
            if after is not world:
                yield Step("relay", after, call=call, reply=word)


def flight_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    """A call left on a broken line runs late, unseen by whoever sent it; or never."""
    for index, call in enumerate(world.flight):
        rest = world._replace(flight=(*world.flight[:index], *world.flight[index + 1 :]))
        after, word = scripts.run(scenario, rest, call)
        yield Step(f"late {call.script}", after, call=call, reply=word)
        if scenario.flaw is not Flaw.RELAY_IN_TWO_STEPS:
            yield Step("a call is dropped", rest, fault=True)
