"""Spawned children in the Harness: registered and started with their parent's commit, told about, ended with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from regrow import (
    Agent,
    AgentCreated,
    AgentDown,
    AgentOrphaned,
    AgentRestarted,
    ChildExit,
    ChildStarted,
    Context,
    Demonitor,
    Emit,
    Monitor,
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
from regrow.errors import BadInput, NoSuchAgent
from regrow.testing import Harness
from regrow_signals.views import agent_ids, supervisor_paths
from regrow_supervisor.spec import child_definition


class Work(Payload, type="work"):
    n: int = 1


class Hire(Payload, type="hire"):
    tag: str
    id: str = ""
    restart: str = "transient"
    on_parent_death: str = "stop"
    ephemeral: bool = False
    work: int = 0


class Fire(Payload, type="fire"):
    tag: str
    reason: str = "shutdown"


class Done(State):
    total: int = 0
    heard: tuple[str, ...] = ()


class Worker(Agent[Done], name="family-worker"):
    @handles(AgentCreated)
    def created(self, state: Done, created: AgentCreated) -> Step[Done]:
        return state.evolve(heard=(*state.heard, f"created by {created.parent}"))

    @handles(AgentRestarted)
    def restarted(self, state: Done, again: AgentRestarted) -> Step[Done]:
        return state.evolve(heard=(*state.heard, f"restarted {again.restarts} {again.reason}"))

    @handles(AgentOrphaned)
    def orphaned(self, state: Done, orphaned: AgentOrphaned, ctx: Context) -> Step[Done]:
        return state.evolve(heard=(*state.heard, f"orphan of {orphaned.parent}, parent {ctx.parent}"))

    @handles(Work)
    def work(self, state: Done, work: Work, ctx: Context) -> Step[Done]:
        return state.evolve(total=state.total + work.n, heard=(*state.heard, f"work for {ctx.parent}"))

    @handles("end")
    def end(self, state: Done, signal: Signal) -> Step[Done]:
        return Stop(str(signal.value or "normal"))


class Boss(Agent[Done], name="family-boss"):
    @handles(Hire)
    def hire(self, state: Done, hire: Hire, ctx: Context) -> Step[Done]:
        spec: Any = Worker
        if hire.id or hire.restart != "transient":
            spec = Worker.child(hire.id or f"{ctx.agent_id}/{hire.tag}", restart=hire.restart)  # type: ignore[arg-type]
        spawn = Spawn(spec, tag=hire.tag, on_parent_death=hire.on_parent_death, ephemeral=hire.ephemeral)  # type: ignore[arg-type]
        work = [Emit(Work(n=hire.work), to=hire.id or f"{ctx.agent_id}/{hire.tag}")] if hire.work else []
        return state.evolve(total=state.total + 1), [spawn, *work]

    @handles(Fire)
    def fire(self, state: Done, fire: Fire) -> Step[Done]:
        return StopChild(fire.tag, reason=fire.reason)

    @handles("watch")
    def watch(self, state: Done, signal: Signal) -> Step[Done]:
        return Monitor(str(signal.value))

    @handles("unwatch")
    def unwatch(self, state: Done, signal: Signal) -> Step[Done]:
        return Demonitor(str(signal.value))

    @handles(ChildStarted)
    def started(self, state: Done, child: ChildStarted) -> Step[Done]:
        return state.evolve(heard=(*state.heard, f"{child.tag} {child.id} started #{child.incarnation}"))

    @handles(ChildExit)
    def exited(self, state: Done, child: ChildExit) -> Step[Done]:
        told = f"{child.tag} ended #{child.incarnation} {child.reason} {'again' if child.will_restart else 'gone'}"
        return state.evolve(heard=(*state.heard, told))

    @handles(AgentDown)
    def down(self, state: Done, down: AgentDown) -> Step[Done]:
        return state.evolve(heard=(*state.heard, f"down {down.id} {down.reason}"))

    @handles("end")
    def end(self, state: Done, signal: Signal) -> Step[Done]:
        return Stop(str(signal.value or "normal"))


def office(restart: Any = "permanent", **flags: Any) -> Harness:
    boss = Boss.child("boss", restart=restart)
    return Harness(Supervisor("office", [boss, Boss.child("other")], agents=[Worker], **flags))


def say(tree: Harness, what: Payload | str, data: object = None, to: str = "boss") -> None:
    tree.send(to, what, data)
    tree.run()


def heard(tree: Harness, agent: str = "boss") -> list[str]:
    return list(tree.state(agent, Boss if agent in ("boss", "other") else Worker).heard)


def test_an_emit_of_the_same_step_reaches_the_child() -> None:
    tree = office()
    say(tree, Hire(tag="w", work=5))

    assert tree.status("boss/w") == "running"
    assert heard(tree, "boss/w") == ["created by boss", "work for boss"]
    assert tree.state("boss/w", Worker).total == 5
    assert heard(tree) == ["w boss/w started #1"]
    assert tree.record("boss")["child:w"] == "boss/w" and tree.record("boss")["children"] == "1"
    assert tree.record("boss/w")["supervisor"] == "office/boss.children"
    assert tree.dead_letters("boss") == []


def test_a_child_that_crashes_keeps_its_tag_and_is_a_new_incarnation() -> None:
    tree = office()
    say(tree, Hire(tag="w"))
    tree.kill("boss/w")
    tree.run()

    assert heard(tree) == [
        "w boss/w started #1",
        "w ended #1 signal:SIGKILL again",
        "w boss/w started #2",
    ]
    assert heard(tree, "boss/w") == ["created by boss", "restarted 1 signal:SIGKILL"]
    assert tree.record("boss")["child:w"] == "boss/w"


def test_a_child_that_ends_is_gone_and_its_tag_is_free() -> None:
    tree = office()
    say(tree, Hire(tag="w"))
    say(tree, "end", to="boss/w")

    assert heard(tree)[1:] == ["w ended #1 normal gone"]
    assert "child:w" not in tree.record("boss") and tree.record("boss")["children"] == "0"
    assert tree.status("boss/w") == "stopped"
    say(tree, Hire(tag="w", id="w-2"))
    assert tree.record("boss")["child:w"] == "w-2" and tree.status("w-2") == "running"


def test_spawning_it_again_goes_on_from_its_last_state() -> None:
    tree = office()
    say(tree, Hire(tag="w", work=2))
    say(tree, "end", to="boss/w")
    say(tree, Hire(tag="w", work=3))

    assert tree.status("boss/w") == "running" and tree.incarnation("boss/w") == 2
    assert tree.state("boss/w", Worker).total == 5
    assert heard(tree, "boss/w").count("created by boss") == 1


def test_a_child_that_lives_is_spawned_again_without_a_change() -> None:
    tree = office()
    say(tree, Hire(tag="w", work=2))
    say(tree, Hire(tag="w", work=3))

    assert tree.incarnation("boss/w") == 1 and tree.state("boss/w", Worker).total == 5
    assert tree.record("boss")["children"] == "1"
    assert not [event for event in tree.events() if event["event"] == "not_started"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (Hire(tag="w"), Hire(tag="w", id="another"), "tag_in_use"),
        (Hire(tag="w", id="one"), Hire(tag="v", id="one"), "id_in_use"),
        (Hire(tag="w"), Hire(tag="v", id="other"), "id_in_use"),
        (Hire(tag="w"), Hire(tag="v", id="boss"), "bad_child"),
        (Hire(tag="w"), Hire(tag="x" * 198), "bad_child"),
    ],
)
def test_a_spawn_that_cannot_be_is_a_dead_letter_and_changes_nothing(
    first: Hire, second: Hire, reason: str
) -> None:
    tree = office()
    say(tree, first)
    say(tree, second)

    assert tree.state("boss", Boss).total == 1
    assert [letter["reason"] for letter in tree.dead_letters("boss")] == [reason]
    assert tree.incarnation("boss") == 1 and tree.record("boss")["children"] == "1"
    say(tree, Hire(tag="u"))
    assert tree.state("boss", Boss).total == 2


def test_two_in_one_batch_that_do_not_fit_together() -> None:
    tree = office()
    tree.send("boss", Hire(tag="w", id="one"))
    tree.send("boss", Hire(tag="w", id="two"))
    tree.send("boss", Hire(tag="v", id="three"))
    tree.run()

    assert tree.state("boss", Boss).total == 2
    assert [letter["reason"] for letter in tree.dead_letters("boss")] == ["tag_in_use"]
    assert {tree.status("one"), tree.status("three")} == {"running"}


def test_a_stopped_child_is_not_restarted_and_an_unknown_tag_means_nothing() -> None:
    tree = office()
    say(tree, Hire(tag="w", restart="permanent"))
    say(tree, Fire(tag="nobody"))
    say(tree, Fire(tag="w", reason="redundant"))

    assert heard(tree)[1:] == ["w ended #1 shutdown:redundant gone"]
    assert tree.status("boss/w") == "stopped" and tree.dead_letters("boss") == []
    assert "child:w" not in tree.record("boss")


def test_a_child_that_crashes_too_often_is_parked_and_can_be_spawned_again() -> None:
    tree = office()
    say(tree, Hire(tag="w"))
    for _ in range(4):
        tree.kill("boss/w")
        tree.run()

    assert tree.status("boss/w") == "parked"
    assert heard(tree)[-1] == "w ended #4 signal:SIGKILL gone"
    assert tree.status("boss") == "running"
    say(tree, Hire(tag="w"))
    assert tree.status("boss/w") == "running" and tree.incarnation("boss/w") == 5


def test_an_ephemeral_child_is_deleted_when_it_has_ended() -> None:
    tree = office()
    say(tree, Hire(tag="w", ephemeral=True))
    say(tree, "end", to="boss/w")

    with pytest.raises(NoSuchAgent, match="no agent boss/w"):
        tree.record("boss/w")
    assert tree.events()[-1]["event"] == "deleted"


def test_an_ephemeral_child_with_something_in_it_stays() -> None:
    tree = office()
    say(tree, Hire(tag="w", ephemeral=True))
    tree.send("boss/w", "end")
    tree.send("boss/w", Work())
    tree.run()

    assert tree.status("boss/w") == "stopped" and tree.waiting("boss/w") == 1


def test_a_parent_that_crashes_keeps_its_children() -> None:
    tree = office()
    say(tree, Hire(tag="w"))
    tree.kill("boss")
    tree.run()

    assert tree.incarnation("boss") == 2 and tree.incarnation("boss/w") == 1
    say(tree, Fire(tag="w"))
    assert heard(tree)[-1] == "w ended #1 shutdown gone"


@pytest.mark.parametrize(
    ("policy", "status", "last"),
    [
        ("stop", "stopped", "created by boss"),
        ("continue", "running", "created by boss"),
        ("orphan", "running", "orphan of boss, parent None"),
    ],
)
def test_what_becomes_of_the_children_of_a_parent_that_ended(policy: str, status: str, last: str) -> None:
    tree = office(restart="transient")
    say(tree, Hire(tag="w", on_parent_death=policy))
    say(tree, "end")

    assert tree.status("boss") == "stopped"
    assert tree.status("boss/w") == status and heard(tree, "boss/w")[-1] == last
    if status == "running":
        say(tree, Work(), to="boss/w")
        assert heard(tree, "boss/w")[-1] == f"work for {None if policy == 'orphan' else 'boss'}"


def test_monitors_are_told_once() -> None:
    tree = office()
    say(tree, Hire(tag="w"))
    say(tree, "watch", "boss/w", to="other")
    say(tree, "watch", "nobody", to="other")
    assert heard(tree, "other") == ["down nobody noproc"]
    tree.kill("boss/w")
    tree.run()
    tree.kill("boss/w")
    tree.run()

    assert heard(tree, "other") == ["down nobody noproc", "down boss/w signal:SIGKILL"]
    say(tree, "watch", "boss/w", to="other")
    say(tree, "unwatch", "boss/w", to="other")
    tree.kill("boss/w")
    tree.run()
    assert len(heard(tree, "other")) == 2


def test_the_program_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "children.md").read_text()
    found = re.search(r"<!-- program: pages.py -->\n```python\n(.*?)```", page, re.S)
    assert found is not None
    program: dict[str, Any] = {"__name__": "pages"}
    exec(compile(found[1], "pages.py", "exec"), program)
    tree = Harness(program["tree"])
    for url in ("https://a", "https://bc"):
        tree.send("crawler", program["Fetch"](url=url))
    tree.run()

    assert tree.state("crawler", program["Crawler"]).words == 19
    assert tree.state("crawler", program["Crawler"]).lost == ()
    assert tree.client.connection.command(agent_ids(tree.client.keys)) == ["crawler"]
    assert "pages/crawler.children" in tree.client.connection.command(supervisor_paths(tree.client.keys))


@pytest.mark.parametrize(
    "at", ["before_claim", "before_read", "after_read", "in_handler", "before_commit", "after_commit"]
)
def test_a_parent_killed_at_any_step_spawns_one_child(at: Any) -> None:
    tree = office()
    tree.kill("boss", at=at)
    if at == "before_claim":
        tree.kill("boss")
    tree.send("boss", Hire(tag="w", work=1))
    tree.run()

    assert tree.state("boss", Boss).total == 1 and tree.dead_letters("boss") == []
    assert tree.state("boss/w", Worker).total == 1
    assert heard(tree) == ["w boss/w started #1"] and tree.incarnation("boss/w") == 1


@pytest.mark.parametrize("also", ["watchdog", "boss", "node"])
def test_what_dies_between_the_commit_and_the_decision_loses_no_child(also: str) -> None:
    tree = office()
    tree.add_node()
    tree.run()
    tree.send("boss", Hire(tag="w", work=1))
    while not tree.record("boss").get("child:w"):
        assert tree.step()
    assert tree.status("boss/w") == "registered"

    match also:
        case "watchdog":
            tree.kill_watchdog()
        case "boss":
            tree.kill("boss")
        case _:
            tree.lose_node(1 if tree.record("boss")["node"] == "node-1" else 2)
            tree.advance(10)
    tree.run()

    assert tree.state("boss/w", Worker).total == 1
    assert heard(tree) == ["w boss/w started #1"]


def test_whole_families_end_with_the_first_of_them() -> None:
    tree = office(restart="transient")
    say(tree, Hire(tag="w", on_parent_death="continue", ephemeral=True))
    say(tree, Hire(tag="v", ephemeral=True))
    say(tree, "end")
    assert tree.status("boss/w") == "running" and tree.client.which_children("office/boss.children")
    tree.client.terminate_child("office", "boss")
    tree.client.delete_child("office", "boss")
    assert tree.client.delete("boss", force=True).children == ("boss/w",)
    say(tree, "end", to="boss/w")

    assert tree.client.connection.command(agent_ids(tree.client.keys)) == ["other"]
    assert [child.id for child in tree.client.which_children("office")] == ["other"]


def test_a_child_that_no_node_knows_waits_and_its_parent_goes_on() -> None:
    boss = Boss.child("boss")
    tree = Harness(Supervisor("office", [boss]))
    say(tree, Hire(tag="w"))

    assert tree.status("boss/w") == "waiting" and tree.state("boss", Boss).total == 1
    say(tree, Fire(tag="w"))
    assert heard(tree) == ["w ended #0 shutdown gone"]


def test_agents_of_the_tree_and_of_senders_are_created_once() -> None:
    tree = Harness(
        Supervisor("plain", [Worker.child("one"), Supervisor("crowd", strategy="dynamic", agents=[Worker])])
    )
    tree.send("two", Work(), create=Worker.child(under="plain/crowd"))
    tree.run()
    tree.kill("one")
    tree.run()

    assert heard(tree, "one") == ["created by None", "restarted 1 signal:SIGKILL"]
    assert heard(tree, "two") == ["created by None", "work for None"]


class Everything(Agent[Done], name="family-everything"):
    @handles("**")
    def any(self, state: Done, signal: Signal) -> Step[Done]:
        return state.evolve(heard=(*state.heard, signal.type))


def test_a_handler_for_everything_asks_for_no_notice() -> None:
    tree = Harness(Supervisor("plain", [Everything.child("all")]))
    tree.kill("all")
    say(tree, "work", to="all")

    assert tree.state("all", Everything).heard == ("work",)
    assert "wants" not in child_definition(Everything.child("all"))["start"]
    assert child_definition(Worker.child("w"))["start"]["wants"] == [
        "agent.created", "agent.restarted", "agent.orphaned"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Spawn(Worker),
        lambda: Spawn(Worker, tag="no tag!"),
        lambda: Spawn(Worker.child("w"), init={"total": 1}),
        lambda: Spawn(Worker.child(under="office")),
        lambda: Spawn(Worker.child("w", restart="transient", significant=True)),
        lambda: Spawn(Supervisor("x").child()),
        lambda: Spawn(Worker.child("w"), on_parent_death="weep"),  # type: ignore[arg-type]
        lambda: Spawn("worker", tag="w"),  # type: ignore[arg-type]
        lambda: Spawn(Worker, tag="w", init={"sad": 1}),
        lambda: StopChild("w", reason=" "),
        lambda: StopChild(""),
        lambda: Monitor("no id!"),
        lambda: Demonitor(""),
    ],
)
def test_a_directive_that_could_not_work_is_refused_where_it_is_made(wrong: Any) -> None:
    with pytest.raises(BadInput):
        wrong()


def test_directives_are_equal_when_they_ask_for_the_same() -> None:
    _, directives = Boss.cmd(
        Done(), Hire(tag="w", work=2), ctx=Context.example(Signal.of("x"), agent_id="boss")
    )

    assert directives == [Spawn(Worker, tag="w"), Emit(Work(n=2), to="boss/w")]
    assert Spawn(Worker, tag="w") != Spawn(Worker, tag="w", ephemeral=True)
    assert repr(Spawn(Worker.child("a"), tag="b")) == "Spawn(Worker.child('a'), tag='b')"
