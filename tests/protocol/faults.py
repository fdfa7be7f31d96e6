"""What may go wrong, each kind as often as its budget allows: these are the steps that may stop happening."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.world import Call, Report, Scenario, Step, World

__all__ = ["broken_line", "fault_steps"]


def broken_line(world: World, after: World, call: Call) -> Iterator[Step]:
    """The call stays in flight; its sender goes on as in ``after``. Covers replies lost and calls that run late."""
    if not world.budget.breaks:
        return
    budget = world.budget._replace(breaks=world.budget.breaks - 1)
    flight = tuple(sorted((*world.flight, call), key=repr))
    yield Step(f"line breaks at {call.script}", after._replace(flight=flight, budget=budget), fault=True)


def fault_steps(scenario: Scenario, world: World) -> Iterator[Step]:
    if world.budget.crashes:
        yield from crashes(world)
    if world.budget.lost_nodes:
        yield from lost_nodes(scenario, world)
    if world.budget.depositions:
        yield deposed(world)


def crashes(world: World) -> Iterator[Step]:
    """SIGKILL of a process, wherever it stands; its node sees it."""
    budget = world.budget._replace(crashes=world.budget.crashes - 1)
    for index, process in enumerate(world.processes):
        rest = (*world.processes[:index], *world.processes[index + 1 :])
        report = Report(process.node, process.agent, process.incarnation, 0)
        reports = tuple(sorted((*world.reports, report)))
        yield Step(
            "a process is killed", world._replace(processes=rest, reports=reports, budget=budget), fault=True
        )


def lost_nodes(scenario: Scenario, world: World) -> Iterator[Step]:
    """A node with all its processes, orders and unsent reports; the last one stays."""
    if len(world.lost) + 1 >= scenario.nodes:
        return
    budget = world.budget._replace(lost_nodes=world.budget.lost_nodes - 1)
    for node in range(scenario.nodes):
        if node in world.lost:
            continue
        after = world._replace(
            processes=tuple(one for one in world.processes if one.node != node),
            orders=tuple(one for one in world.orders if one.node != node),
            reports=tuple(one for one in world.reports if one.node != node),
            lost=tuple(sorted((*world.lost, node))),
            budget=budget,
        )
        yield Step("a node is lost", after, fault=True)


def deposed(world: World) -> Step:
    """Another watchdog leads; what the old one was about to commit is still on its line."""
    budget = world.budget._replace(depositions=world.budget.depositions - 1)
    flight = (
        world.flight if world.deciding is None else tuple(sorted((*world.flight, world.deciding), key=repr))
    )
    after = world._replace(leader=world.leader + 1, deciding=None, flight=flight, budget=budget)
    return Step("the leader is deposed", after, fault=True)
