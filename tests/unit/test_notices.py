"""Who is told what of a turn: one start and one end for each life, and one last word for each child. Pure."""

from __future__ import annotations

from typing import Any

from regrow_signals.notices import Notice, parent_after
from regrow_supervisor import events as ev
from regrow_supervisor.commit_plan import Extras, plan_commit
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.placement import node_from_record
from regrow_supervisor.turn import take_turn
from tests.unit.test_family_directives import FAMILY, spec

WANTS = ["agent.child.started", "agent.child.exit", "agent.restarted"]


def _made_by_worker(type_name: str, init: Any) -> tuple[str, int]:
    del type_name, init
    return "", 0


class Desk:
    """A leader's view that takes each turn's outcome as committed."""

    def __init__(self) -> None:
        types = '{"t":{"code":"x","schema":1}}'
        self.view = LeaderView()
        self.view.nodes["n1"] = node_from_record(
            "n1", {"kind": "worker", "status": "up", "types": types, "labels": "{}"}
        )
        self.notices: list[Notice] = []
        boss = {"id": "boss", "restart": "transient", "start": {"type": "t", "wants": WANTS}}
        definition = {"max_restarts": 9, "max_seconds": 1, "children": [boss]}
        self.feed(ev.StartTree(path="root", definition=definition))
        self.view.agents["boss"] = AgentView("root", 1, "n1")
        self.started("boss", 1, path="root")

    def feed(self, event: ev.Event, now_ms: int = 1000) -> Any:
        turn = take_turn(self.view, event, now_ms)
        plan = plan_commit(self.view, turn, Extras(), "token", _made_by_worker)
        self.notices = list(plan.notices)
        for placed in turn.starts:
            start = placed.start
            self.view.settle(start.child, placed.node, start.incarnation, start.path)
        self.view.take_over(turn.states, turn.removed)
        return plan

    def spawn(self, name: str = "w", **fields: Any) -> Any:
        self.view.agents.setdefault(name, AgentView(FAMILY))
        return self.feed(
            ev.SpawnChild(path=FAMILY, owner="boss", child=spec(name, **fields), request="create w")
        )

    def started(self, agent: str, incarnation: int, path: str = FAMILY) -> Any:
        return self.feed(ev.Started(path=path, child=agent, incarnation=incarnation))

    def exited(self, agent: str, incarnation: int, reason: str, path: str = FAMILY) -> Any:
        return self.feed(ev.Exited(path=path, child=agent, incarnation=incarnation, reason=reason))

    def told(self) -> list[tuple[str, str, Any]]:
        return [
            (one.agent, one.type, one.data.get("will_restart", one.data.get("incarnation")))
            for one in self.notices
        ]


STARTED, EXIT = "agent.child.started", "agent.child.exit"


def test_a_life_is_told_when_it_began_and_when_it_ended() -> None:
    desk = Desk()
    plan = desk.spawn()
    assert desk.told() == [] and [(bond.tag, bond.holds) for bond in plan.bonds] == [("w", True)]
    desk.started("w", 1)
    assert desk.told() == [("boss", STARTED, 1)]
    desk.exited("w", 1, "crash")
    assert desk.told() == [("boss", EXIT, True)]
    desk.started("w", 2)
    assert desk.told() == [("boss", STARTED, 2)]
    plan = desk.exited("w", 2, "normal")
    assert desk.told() == [("boss", EXIT, False)]
    assert [(bond.tag, bond.holds) for bond in plan.bonds] == [("w", False)]
    assert [(down.agent, down.data["reason"]) for down in plan.downs] == [("w", "normal")]


def test_a_pooled_life_that_begins_as_the_last_one_ends_is_told_of_both() -> None:
    desk = Desk()
    desk.spawn(start={"type": "t", "isolation": "pool"})
    assert desk.told() == [("boss", STARTED, 1)]
    desk.exited("w", 1, "crash")
    assert desk.told() == [("boss", EXIT, True), ("boss", STARTED, 2)]


def test_a_start_that_failed_was_no_life_but_ends_what_watched_it() -> None:
    desk = Desk()
    desk.spawn()
    plan = desk.feed(ev.StartFailed(path=FAMILY, child="w", incarnation=1, reason="start_failed:no"))

    assert desk.told() == [] and [down.data["reason"] for down in plan.downs] == ["start_failed:no"]
    for number in (2, 3, 4):
        desk.feed(ev.StartFailed(path=FAMILY, child="w", incarnation=number, reason="start_failed:no"))
    assert desk.told() == [("boss", EXIT, False)]
    assert desk.notices[0].data["reason"] == "start_failed:no"


def test_one_that_is_parked_was_told_its_end_and_is_not_told_it_again() -> None:
    desk = Desk()
    desk.spawn(limit={"max_restarts": 0, "max_seconds": 5, "on_exceeded": "park"})
    desk.started("w", 1)
    plan = desk.exited("w", 1, "crash")
    assert desk.told() == [("boss", EXIT, False)] and plan.bonds == []
    plan = desk.feed(ev.TerminateChild(path=FAMILY, child="w"))
    assert desk.told() == [] and [bond.holds for bond in plan.bonds] == [False]


def test_a_child_that_does_not_come_on_record_is_told_to_its_parent() -> None:
    desk = Desk()
    desk.spawn("v", tag="w")
    plan = desk.spawn("w", tag="w")

    assert desk.told() == [("boss", EXIT, False)]
    assert desk.notices[0].data["reason"] == "not_started:tag_in_use"
    assert [(bond.child, bond.holds) for bond in plan.bonds] == [("w", False)]
    assert [down.data for down in plan.downs] == [{"id": "w", "reason": "noproc"}]


def test_an_orphan_is_told_and_its_ends_are_nobodys_from_then_on() -> None:
    desk = Desk()
    desk.spawn(on_parent_death="orphan")
    desk.started("w", 1)
    plan = desk.exited("boss", 1, "normal", path="root")

    assert desk.told() == [("w", "agent.orphaned", None)]
    assert parent_after(desk.notices[0].fields()) == ""
    assert parent_after({"type": "agent.orphaned"}) is None, "only what regrow itself sends changes a parent"
    assert [(bond.parent, bond.tag, bond.holds) for bond in plan.bonds] == [("boss", "w", False)]
    desk.exited("w", 1, "crash")
    assert desk.told() == []


def test_ephemeral_ones_are_deleted_at_their_last_end() -> None:
    desk = Desk()
    desk.spawn(ephemeral=True)
    desk.started("w", 1)
    assert desk.exited("w", 1, "crash").ended == []
    desk.started("w", 2)
    assert desk.exited("w", 2, "normal").ended == ["w"]


def test_a_branch_that_is_taken_away_ends_them_all() -> None:
    desk = Desk()
    desk.spawn(ephemeral=True)
    desk.started("w", 1)
    desk.feed(ev.KillSupervisor(path=FAMILY, reason="operator", charged=False))
    assert ("boss", EXIT, True) in desk.told()


def test_what_nobody_asks_for_is_not_sent() -> None:
    desk = Desk()
    boss = desk.view.states["root"].children["boss"]
    desk.view.states["root"].children["boss"] = boss.but(spec={**boss.spec, "start": {"type": "t"}})
    desk.spawn()
    desk.started("w", 1)
    desk.exited("w", 1, "crash")

    assert desk.notices == []
