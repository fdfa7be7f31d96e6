"""Adoption in the Harness: an orphan's new parent hears of its lives, stops it, and is followed by it or not."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from regrow import (
    Adopt,
    Agent,
    AgentAdopted,
    AgentOrphaned,
    ChildExit,
    ChildStarted,
    Context,
    Emit,
    Payload,
    Signal,
    Spawn,
    State,
    Step,
    Stop,
    StopChild,
    Supervisor,
    handles,
)
from regrow.errors import BadInput
from regrow.testing import Harness
from regrow.testing.stepped_worker import KillStep
from regrow_signals.views import agent_ids


class Hire(Payload, type="hire"):
    tag: str
    on_parent_death: str = "orphan"
    ephemeral: bool = False


class Take(Payload, type="take"):
    child: str
    tag: str
    on_parent_death: str = "orphan"


class Heard(State):
    heard: tuple[str, ...] = ()

    def more(self, line: str) -> Heard:
        return self.evolve(heard=(*self.heard, line))


class Worker(Agent[Heard], name="adopted-worker"):
    @handles(AgentOrphaned)
    def orphaned(self, state: Heard, orphaned: AgentOrphaned, ctx: Context) -> Step[Heard]:
        return state.more(f"orphan of {orphaned.parent}, parent {ctx.parent}")

    @handles(AgentAdopted)
    def adopted(self, state: Heard, adopted: AgentAdopted, ctx: Context) -> Step[Heard]:
        return state.more(f"{adopted.tag} of {adopted.parent}, parent {ctx.parent}")

    @handles("report")
    def report(self, state: Heard, signal: Signal, ctx: Context) -> Step[Heard]:
        return Emit("reported", ctx.agent_id, to=ctx.parent or "nobody")

    @handles("end")
    def end(self, state: Heard, signal: Signal) -> Step[Heard]:
        return Stop()

    @handles("adopt")
    def adopt(self, state: Heard, signal: Signal) -> Step[Heard]:
        return Adopt(signal.value, tag="mine")


class Boss(Agent[Heard], name="adopting-boss"):
    @handles(Hire)
    def hire(self, state: Heard, hire: Hire, ctx: Context) -> Step[Heard]:
        return Spawn(Worker, tag=hire.tag, on_parent_death=hire.on_parent_death, ephemeral=hire.ephemeral)  # type: ignore[arg-type]

    @handles(Take)
    def take(self, state: Heard, take: Take) -> Step[Heard]:
        return state.more(f"take {take.tag}"), Adopt(
            take.child,
            tag=take.tag,
            on_parent_death=take.on_parent_death,  # type: ignore[arg-type]
        )

    @handles("fire")
    def fire(self, state: Heard, signal: Signal) -> Step[Heard]:
        return StopChild(signal.value)

    @handles(ChildStarted)
    def started(self, state: Heard, child: ChildStarted) -> Step[Heard]:
        return state.more(f"{child.tag} started #{child.incarnation}")

    @handles(ChildExit)
    def exited(self, state: Heard, child: ChildExit) -> Step[Heard]:
        return state.more(f"{child.tag} ended {child.reason} {'again' if child.will_restart else 'gone'}")

    @handles("reported")
    def reported(self, state: Heard, signal: Signal) -> Step[Heard]:
        return state.more(f"report of {signal.value}")

    @handles("end")
    def end(self, state: Heard, signal: Signal) -> Step[Heard]:
        return Stop()


def office(*, policy: str = "orphan", **more: Any) -> Harness:
    """``old`` has spawned ``old/w`` and has ended; ``new`` is there."""
    old, new = (Boss.child(name, restart="transient") for name in ("old", "new"))
    tree = Harness(Supervisor("office", [old, new, Worker.child("plain")], agents=[Worker]))
    say(tree, "old", Hire(tag="w", on_parent_death=policy, **more))
    say(tree, "old", "end")
    return tree


def say(tree: Harness, to: str, what: Payload | str, data: object = None) -> None:
    tree.send(to, what, data)
    tree.run()


def heard(tree: Harness, agent: str = "new") -> list[str]:
    return list(tree.state(agent, Worker if "/" in agent else Boss).heard)


def test_jido_28_an_orphan_adopted_by_id_reaches_its_new_parent_also_after_a_restart() -> None:
    tree = office()
    say(tree, "new", Take(child="old/w", tag="mine"))

    assert heard(tree) == ["take mine", "mine started #1"]
    assert heard(tree, "old/w") == ["orphan of old, parent None", "mine of new, parent new"]
    assert tree.record("new")["child:mine"] == "old/w" and tree.record("new")["children"] == "1"
    assert (tree.record("old/w")["parent"], tree.record("old/w")["tag"]) == ("new", "mine")

    tree.kill("old/w")
    tree.run()
    say(tree, "old/w", "report")
    assert heard(tree)[2:] == ["mine ended signal:SIGKILL again", "mine started #2", "report of old/w"]
    assert tree.replay("old/w").differs_at is None

    say(tree, "new", "fire", "mine")
    assert heard(tree)[-1] == "mine ended shutdown gone"
    assert "child:mine" not in tree.record("new")


@pytest.mark.parametrize("ended", [True, False])
def test_a_child_that_goes_on_without_its_parent_can_be_adopted_once_that_has_ended(ended: bool) -> None:
    tree = office(policy="continue")
    if not ended:
        tree.client.restart_child("office", "old")
        tree.run()
    say(tree, "new", Take(child="old/w", tag="mine"))

    if ended:
        assert heard(tree) == ["take mine", "mine started #1"]
        assert "child:w" not in tree.record("old")
        tree.client.restart_child("office", "old")
        tree.run()
        say(tree, "old", "fire", "w")  # it is its child no longer
        assert tree.status("old/w") == "running"
    else:
        assert heard(tree) == ["take mine", "mine ended not_adopted:has_parent gone"]
        assert "child:mine" not in tree.record("new")
        assert tree.record("old/w")["parent"] == "old"


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (Take(child="nobody", tag="t"), "no_such_child"),
        (Take(child="plain", tag="t"), "not_an_orphan"),
        (Take(child="new", tag="t"), "bad_child"),
    ],
)
def test_jido_28_what_is_no_orphan_is_a_dead_letter(take: Take, reason: str) -> None:
    tree = office()
    say(tree, "new", take)

    assert [letter["reason"] for letter in tree.dead_letters("new")] == [reason]
    assert heard(tree) == []
    assert "child:t" not in tree.record("new")


def test_jido_28_a_tag_in_use_is_a_dead_letter() -> None:
    tree = office()
    say(tree, "new", Hire(tag="mine"))
    say(tree, "new", Take(child="old/w", tag="mine"))

    assert [letter["reason"] for letter in tree.dead_letters("new")] == ["tag_in_use"]
    assert tree.record("new")["child:mine"] == "new/mine"
    assert tree.record("old/w")["parent"] == ""


def test_jido_28_one_that_is_attached_or_dead_is_refused_and_the_tag_is_free() -> None:
    tree = office()
    say(tree, "new", Hire(tag="own"))
    say(tree, "new", Take(child="new/own", tag="again"))
    say(tree, "old/w", "end")
    say(tree, "new", Take(child="old/w", tag="late"))

    assert [line for line in heard(tree) if "ended" in line] == [
        "again ended not_adopted:has_parent gone",
        "late ended not_adopted:not_found gone",
    ]
    assert {name for name in tree.record("new") if name.startswith("child:")} == {"child:own"}


def test_asking_twice_is_asking_once() -> None:
    tree = office()
    say(tree, "new", Take(child="old/w", tag="mine"))
    say(tree, "new", Take(child="old/w", tag="mine"))

    assert heard(tree) == ["take mine", "mine started #1", "take mine"]
    assert tree.record("new")["child:mine"] == "old/w"


def test_an_agent_cannot_adopt_its_own_ancestor() -> None:
    class Founder(Boss, name="adopting-founder"):
        @handles("found")
        def found(self, state: Heard, signal: Signal) -> Step[Heard]:
            return Spawn(Boss, tag="boss", on_parent_death="orphan")

    tree = Harness(Supervisor("office", [Founder.child("old", restart="transient")], agents=[Boss, Worker]))
    say(tree, "old", "found")
    say(tree, "old/boss", Hire(tag="w"))
    say(tree, "old", "end")
    say(tree, "old/boss/w", "adopt", "old/boss")

    assert tree.record("old/boss")["parent"] == ""
    assert "child:mine" not in tree.record("old/boss/w")
    assert tree.dead_letters("old/boss/w") == []


@pytest.mark.parametrize(
    ("policy", "status", "parent"),
    [("stop", "stopped", "new"), ("orphan", "running", ""), ("continue", "running", "new")],
)
def test_the_new_parents_end_is_met_by_the_policy_of_the_adoption(
    policy: str, status: str, parent: str
) -> None:
    tree = office()
    say(tree, "new", Take(child="old/w", tag="mine", on_parent_death=policy))
    say(tree, "new", "end")

    assert tree.status("old/w") == status
    assert tree.record("old/w")["parent"] == parent


def test_an_adopted_orphan_of_an_orphan_goes_from_hand_to_hand() -> None:
    tree = office()
    say(tree, "new", Take(child="old/w", tag="mine"))
    say(tree, "new", "end")
    tree.client.restart_child("office", "old")
    tree.run()
    say(tree, "old", Take(child="old/w", tag="back"))

    assert heard(tree, "old/w")[-1] == "back of old, parent old"
    assert tree.record("old")["child:back"] == "old/w"


def test_an_ephemeral_one_is_deleted_at_its_end_as_before() -> None:
    tree = office(ephemeral=True)
    say(tree, "new", Take(child="old/w", tag="mine"))
    say(tree, "old/w", "end")

    assert heard(tree)[-1] == "mine ended normal gone"
    assert tree.client.connection.command(agent_ids(tree.client.keys)) == [
        "new",
        "old",
        "plain",
    ]


def test_spawn_of_an_adopted_child_changes_nothing() -> None:
    class Again(Boss, name="adopting-again"):
        @handles("again")
        def again(self, state: Heard, signal: Signal) -> Step[Heard]:
            return Spawn(Worker.child("old/w", restart="transient"), tag="mine")

    old, new = Boss.child("old", restart="transient"), Again.child("new")
    tree = Harness(Supervisor("office", [old, new], agents=[Worker]))
    say(tree, "old", Hire(tag="w"))
    say(tree, "old", "end")
    say(tree, "new", Take(child="old/w", tag="mine"))
    say(tree, "new", "again")

    assert list(tree.state("new", Again).heard) == ["take mine", "mine started #1"]
    assert tree.record("new")["child:mine"] == "old/w"
    assert tree.dead_letters("new") == []


@pytest.mark.parametrize("step", get_args(KillStep))
@pytest.mark.parametrize("agent", ["new", "old/w"])
def test_whoever_is_killed_at_whichever_step_it_is_adopted_once(agent: str, step: KillStep) -> None:
    tree = office()
    tree.kill(agent, at=step)
    tree.send("new", Take(child="old/w", tag="mine"))
    tree.step()
    tree.kill_watchdog()
    tree.run()
    say(tree, "old/w", "report")

    assert heard(tree, "old/w").count("mine of new, parent new") == 1
    assert heard(tree).count("take mine") == 1
    assert "report of old/w" in heard(tree)
    assert any(line.startswith("mine started") for line in heard(tree))


@pytest.mark.parametrize("given", [{"child": "a b"}, {"tag": ""}, {"on_parent_death": "cry"}])
def test_bad_input_is_said_at_once(given: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"Adopt: "):
        Adopt(**{"child": "old/w", "tag": "t", **given})  # type: ignore[arg-type]
