"""Families in the decision: where spawned children stand, what restarts them, and their parent's end. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from regrow_signals.families import children_path
from regrow_signals.ids import check_id
from regrow_supervisor import events as ev
from regrow_supervisor.codec import from_fields, to_fields
from regrow_supervisor.definition import SpecError
from regrow_supervisor.families import has_ended
from regrow_supervisor.orders import LifeEnded, NotSpawned, Orphaned
from regrow_supervisor.spec_check import check_child
from tests.unit.test_decide_beyond_otp import Tree, worker

FAMILY = "root/boss.children"


def spec(name: str, **fields: Any) -> dict[str, Any]:
    bond = {"parent": "boss", "tag": name, "on_parent_death": "stop", "ephemeral": False}
    return {**worker(name, restart="transient"), **bond, **fields}


class Office(Tree):
    """A boss between two others; what was said of lives is kept."""

    def __init__(self, **flags: Any) -> None:
        self.ended: list[LifeEnded] = []
        self.orphans: list[str] = []
        self.refused: list[str] = []
        boss = worker("boss", restart=flags.pop("restart", "permanent"))
        first = worker("a", **flags.pop("first", {}))
        super().__init__([first, boss, worker("z")], **flags)

    def feed(self, event: ev.Event) -> None:
        from regrow_supervisor.decide import decide

        decision = decide(self.states, event, self.now_ms)
        for path in decision.removed:
            self.states.pop(path)
        self.states.update(decision.states)
        self.orders += decision.orders
        self.replies += decision.replies
        self.contexts += [report.context for report in decision.reports]
        self.ended += [item for item in decision.output if isinstance(item, LifeEnded)]
        self.orphans += [item.child for item in decision.output if isinstance(item, Orphaned)]
        self.refused += [item.reason for item in decision.output if isinstance(item, NotSpawned)]
        for path, state in self.states.items():
            assert from_fields(to_fields(state)) == state, path

    def spawn(self, name: str, owner: str = "boss", path: str = FAMILY, **fields: Any) -> list[str]:
        self.feed(ev.SpawnChild(path=path, owner=owner, child=spec(name, **fields), request="create"))
        return self.obey()

    def family(self) -> dict[str, str]:
        return {child.id: child.status for child in self.states[FAMILY].children.values()}


def test_the_first_child_brings_its_parents_supervisor() -> None:
    office = Office()

    assert office.spawn("w") == ["start w"]
    assert office.states[FAMILY].status == "running" and office.family() == {"w": "running"}
    assert list(office.states["root"].children) == ["a", "boss", "z", "boss.children"]
    assert office.spawn("v") == ["start v"]
    assert office.spawn("v") == []
    assert office.states["root"].status == "running"


def test_a_family_does_not_keep_its_parents_supervisor_waiting() -> None:
    office = Office()
    office.feed(ev.SpawnChild(path=FAMILY, owner="boss", child=spec("slow")))

    assert office.states["root"].waiting is None and office.states[FAMILY].waiting is not None
    office.feed(ev.Exited(path="root", child="a", incarnation=1, reason="crash"))
    assert [order.child for order in office.orders] == ["slow", "a"]


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_what_is_spawned_while_the_root_pauses_starts_with_it(restart: str) -> None:
    office = Office(max_restarts=0, pause={"first_ms": 1000, "longest_ms": 1000})
    office.exit("a")
    assert office.states["root"].status == "paused"
    assert office.spawn("w", restart=restart) == []

    office.now_ms += 1000
    office.feed(ev.Tick())

    assert office.obey() == ["start a", "start boss", "start z", "start w"]


def test_what_is_spawned_while_its_supervisor_stops_starts_with_the_next_one() -> None:
    office = Office(max_restarts=0, pause={"first_ms": 1000, "longest_ms": 1000})
    office.spawn("v")
    office.feed(ev.Exited(path="root", child="a", incarnation=1, reason="crash"))
    office.feed(ev.SpawnChild(path=FAMILY, owner="boss", child=spec("w")))
    office.obey()
    office.now_ms += 1000
    office.feed(ev.Tick())
    office.obey()

    assert office.family() == {"v": "running", "w": "running"}


def test_a_supervisor_that_is_gone_takes_no_child() -> None:
    office = Office()
    office.feed(ev.SpawnChild(path="other/boss.children", owner="boss", child=spec("w"), request="r"))

    assert office.replies[-1].error == "noproc" and office.refused == ["noproc"]


def test_a_tag_that_lives_is_not_given_again() -> None:
    office = Office()
    office.spawn("w")
    office.spawn("v", tag="w")

    assert office.replies[-1].error == "tag_in_use" and office.family() == {"w": "running"}


def test_a_crash_of_the_parent_leaves_its_children_alone() -> None:
    office = Office()
    office.spawn("w")

    assert office.exit("boss") == ["start boss"]
    assert office.family() == {"w": "running"}


def test_a_group_restart_takes_them_along_and_ends_nobody() -> None:
    office = Office(strategy="one_for_all", restart="transient")
    office.spawn("w")
    office.spawn("u", on_parent_death="orphan")

    done = office.exit("a")

    assert set(done[:4]) == {"stop w", "stop u", "stop z", "stop boss"}
    assert done[4:] == ["start a", "start boss", "start z", "start w", "start u"]
    assert office.orphans == [] and office.family() == {"w": "running", "u": "running"}
    assert all(end.again for end in office.ended)


@pytest.mark.parametrize("how", ["normal", "terminated", "deleted", "parked", "temporary"])
def test_each_end_for_good_is_one(how: str) -> None:
    limit = {"max_restarts": 0, "max_seconds": 5, "on_exceeded": "park"}
    office = Office(restart="temporary" if how == "temporary" else "transient", limit=limit)
    for policy in ("stop", "continue", "orphan"):
        office.spawn(policy, on_parent_death=policy)
    match how:
        case "normal":
            office.exit("boss", "normal")
        case "parked" | "temporary":
            office.exit("boss")
        case _:
            office.feed(ev.TerminateChild(path="root", child="boss"))
            office.obey()
            if how == "deleted":
                office.feed(ev.DeleteChild(path="root", child="boss"))

    assert office.family() == {"continue": "running", "orphan": "running"}
    assert office.orphans == ["orphan"]
    [stopped] = [end for end in office.ended if end.child == "stop"]
    assert (stopped.reason, stopped.again) == ("shutdown:parent_ended", False)
    assert "parent" not in office.states[FAMILY].children["orphan"].spec
    assert office.states[FAMILY].children["continue"].spec["parent"] == "boss"


def test_a_hold_is_no_end() -> None:
    office = Office()
    office.spawn("w")
    office.feed(ev.Hold(path="root", child="boss"))

    assert office.obey() == ["stop boss"] and office.family() == {"w": "running"}
    assert not has_ended(office.states["root"], "boss")


def test_an_empty_family_goes_with_its_parent() -> None:
    office = Office(restart="transient")
    office.spawn("w")
    office.exit("boss", "normal")

    assert FAMILY not in office.states and "boss.children" not in office.states["root"].children
    assert office.spawn("v") == [] and office.replies[-1].error == "parent_gone"
    assert office.spawn("v", on_parent_death="continue") == ["start v"]


def test_a_family_whose_parent_lives_stays_though_it_is_empty() -> None:
    office = Office()
    office.spawn("w")
    office.exit("w", "normal", path=FAMILY)

    assert office.family() == {} and office.states[FAMILY].status == "running"


def test_children_of_children_end_one_after_the_other() -> None:
    office = Office(restart="transient")
    office.spawn("w")
    below = children_path(FAMILY, "w")
    office.spawn("leaf", owner="w", path=below, parent="w")
    office.exit("boss", "normal")

    assert [(end.child, end.again) for end in office.ended] == [
        ("boss", False),
        ("w", False),
        ("leaf", False),
    ]
    assert sorted(office.states) == ["root"]


def test_a_spawned_child_that_cannot_start_is_tried_again_and_parked() -> None:
    office = Office()
    office.feed(ev.SpawnChild(path=FAMILY, owner="boss", child=spec("w")))
    while office.orders:
        order = office.orders.pop(0)
        life = {"path": FAMILY, "child": "w", "incarnation": order.incarnation}
        office.feed(ev.StartFailed(**life, reason="start_failed:no"))  # type: ignore[arg-type]

    assert office.family() == {"w": "parked"} and office.states["root"].status == "running"
    assert office.spawn("w") == ["start w"]


def test_a_family_that_is_held_starts_nobody_until_it_may() -> None:
    office = Office()
    office.spawn("w")
    office.feed(ev.Hold(path="root", child="boss.children"))
    office.obey()
    assert office.spawn("v") == []

    office.feed(ev.Unhold(path="root", child="boss.children"))

    assert office.obey() == ["start w", "start v"]


def test_a_family_that_is_killed_comes_back_with_its_children() -> None:
    office = Office()
    office.spawn("w")
    office.feed(ev.KillSupervisor(path=FAMILY, reason="operator", charged=False))
    office.obey()

    assert office.family() == {"w": "running"} and office.child("w", FAMILY).incarnation == 2


def test_paths_are_legal_and_no_two_agents_share_one() -> None:
    ids = ["a/b", "a:b", "a@b", "a@.b", "a.b", "a@:b", "a@/b", "a:/b", "a/:b", "a::b"]
    paths = [children_path("root", check_id(one)) for one in ids]

    assert len(set(paths)) == len(ids)
    assert all(check_id(path).count("/") == 1 for path in paths)


@pytest.mark.parametrize(
    "fields",
    [
        {"parent": ""}, {"tag": "no tag!"}, {"on_parent_death": "weep"}, {"ephemeral": 1}, {"parent": None},
        {"start": {"type": "t", "wants": "agent.created"}},
    ],
)  # fmt: skip
def test_a_spawned_spec_from_anywhere_is_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        check_child(spec("w", **fields), FAMILY)
    check_child(spec("w"), FAMILY)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_a_parent_stopped_with_a_brother_that_waits_for_its_backoff_has_not_ended(strategy: str) -> None:
    backoff = {"first_ms": 1000, "factor": 2, "longest_ms": 60_000}
    office = Office(strategy=strategy, restart="transient", first={"backoff": backoff})
    office.spawn("w")

    office.exit("a")
    assert (office.status("a"), office.status("boss")) == ("restarting", "stopped")
    office.now_ms += 60_000
    office.feed(ev.Tick())
    office.obey()

    assert office.status("boss") == "running"
    assert office.family() == {"w": "running"}
    assert all(end.again for end in office.ended)


def test_each_of_many_children_is_asked_to_stop_once() -> None:
    office = Office(restart="transient")
    for number in range(20):
        office.spawn(f"w{number}")

    office.feed(ev.Exited(path="root", child="boss", incarnation=1, reason="normal", charged=True))

    queue = office.states[FAMILY].queue.values()
    asked = [message[3]["child"] for message in queue if message[0] == "call"]
    assert sorted(asked) == sorted(f"w{number}" for number in range(20))
    office.obey()
    assert FAMILY not in office.states or office.family() == {}
