"""Random trees and events: whatever happens, and in whatever order it is answered, the supervisors stay sane."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from regrow_supervisor import events as ev
from regrow_supervisor.codec import changes, from_fields, to_fields
from regrow_supervisor.decide import decide
from regrow_supervisor.inbox import next_due
from regrow_supervisor.orders import Kill, Start, Stop
from regrow_supervisor.states import SupervisorState, touched_ids

ROOT = "root"
# A failing run of a state machine says enough by its message; shrinking takes minutes.
NO_SHRINK = (Phase.explicit, Phase.reuse, Phase.generate)
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
Life = tuple[str, str]


@dataclass
class Nodes:
    """Processes as the orders made them, and the store as the changes made it; every order is checked."""

    states: dict[str, SupervisorState] = field(default_factory=dict[str, SupervisorState])
    stored: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    live: dict[Life, int] = field(default_factory=dict[Life, int])
    asked: dict[Life, Start | Stop] = field(default_factory=dict[Life, Start | Stop])
    numbers: dict[Life, int] = field(default_factory=dict[Life, int])
    now_ms: int = 1_000_000

    def feed(self, event: ev.Event) -> None:
        before = {path: to_fields(state) for path, state in self.states.items()}
        decision = decide(self.states, event, self.now_ms)
        again = decide(copy.deepcopy(self.states), copy.deepcopy(event), self.now_ms)
        assert decision == again, "the same event on the same states is the same decision"
        assert before == {path: to_fields(state) for path, state in self.states.items()}, "states are changed"
        for path in decision.removed:
            del self.states[path], self.stored[path]
        for path, state in decision.states.items():
            self.store(path, state)
        for order in decision.orders:
            self.obey(order)
        self.check()

    def store(self, path: str, state: SupervisorState) -> None:
        before = self.states.get(path)
        difference = changes(before, state)
        if before is not None:
            touched = changes(before, state, touched_ids(before, state))
            assert touched.set == difference.set, "what changed was touched"
            assert sorted(touched.delete) == sorted(difference.delete), "what is gone was touched"
            assert before != state, "a record that is as it was is not written"
        fields = self.stored.setdefault(path, {})
        fields.update(difference.set)
        for name in difference.delete:
            del fields[name]
        assert fields == to_fields(state), "the changes make the record"
        self.states[path] = from_fields(fields)
        assert self.states[path] == state, "a record read again is the record"

    def obey(self, order: Start | Stop | Kill) -> None:
        life = (order.path, order.child)
        match order:
            case Start():
                assert life not in self.live, f"{life} is started though it runs"
                assert order.incarnation > self.numbers.get(life, 0), f"{life}: a number is used twice"
                self.numbers[life] = order.incarnation
                self.asked[life] = order
            case Stop():
                assert self.live.get(life) == order.incarnation, f"{life} is stopped though it does not run"
                self.asked[life] = order
            case Kill():
                assert life in self.live or life in self.asked, f"{life} is killed though there is none"
                self.live.pop(life, None)
                self.asked.pop(life, None)

    def check(self) -> None:
        for path, state in self.states.items():
            orders = [order for (above, _), order in self.asked.items() if above == path]
            if state.waiting is None or state.waiting["for"] != "stops":
                assert len(orders) <= 1, f"{path} does two things at once: {orders}"
            limit = state.definition.get("max_restarts", 1)
            assert len(state.stamps) <= limit + (not state.alive or state.status == "stopping")
            assert [child.place for child in state.children.values()] == sorted(
                child.place for child in state.children.values()
            )
            if not state.alive:
                assert not any(above == path for above, _ in self.live), f"{path} ended and left children"
                assert (state.plan, state.waiting, state.queue) == ((), None, {})

    def answer(self, life: Life, how: str) -> None:
        """One outstanding order is answered: as wished, or otherwise."""
        order = self.asked.pop(life)
        who: dict[str, Any] = {"path": order.path, "child": order.child, "incarnation": order.incarnation}
        if isinstance(order, Stop):
            del self.live[life]
            self.feed(ev.Exited(**who, reason="shutdown" if how == "ok" else "killed"))
            return
        match how:
            case "fail":
                self.feed(ev.StartFailed(**who, reason="boom"))
            case "decline":
                self.feed(ev.Declined(**who))
            case "unplaced":
                # No life began: the number is free for the next start.
                self.numbers[life] -= 1
                # No life began, so this number may be taken again.
                self.numbers[life] -= 1
                self.feed(ev.Unplaced(**who))
            case "lost":
                self.feed(ev.Exited(**who, reason="node_lost", charged=False))
            case _:
                self.live[life] = order.incarnation
                self.feed(ev.Started(**who))

    def end(self, life: Life, reason: str, *, charged: bool) -> None:
        number = self.live.pop(life)
        self.asked.pop(life, None)
        self.feed(ev.Exited(path=life[0], child=life[1], incarnation=number, reason=reason, charged=charged))

    def settle(self) -> None:
        """All orders are carried out and all due times pass: every plan must end."""
        for _ in range(3000):
            due = next_due(self.states)
            if self.asked:
                self.answer(sorted(self.asked)[0], "ok")
            elif due is not None:
                self.now_ms = max(self.now_ms, due)
                self.feed(ev.Tick())
            else:
                break
        else:
            raise AssertionError("the plans do not end")
        running = {
            (path, child.id): child.incarnation
            for path, state in self.states.items()
            for child in state.children.values()
            if state.alive and child.status == "running" and not child.is_supervisor
        }
        assert running == self.live, "what is on record is what runs"
        for state in self.states.values():
            assert (state.plan, state.waiting, state.queue) == ((), None, {}), f"{state.path} did not finish"


restarts = st.sampled_from(["permanent", "transient", "temporary"])
shutdowns = st.sampled_from([5000, "brutal_kill", "infinity"])
ways = st.sampled_from(["ok", "ok", "ok", "fail", "decline", "unplaced", "lost"])
reasons = st.sampled_from(["normal", "shutdown", "shutdown:x", "crash", "killed"])


@st.composite
def definitions(draw: st.DrawFn, depth: int = 2, names: str = "") -> dict[str, Any]:
    """A tree; ids tell where they stand, so they are unique."""
    strategy = draw(st.sampled_from(["one_for_one", "one_for_all", "rest_for_one", "dynamic"]))
    auto = draw(st.sampled_from(["never", "never", "any_significant", "all_significant"]))
    auto = "never" if strategy == "dynamic" else auto
    children: list[dict[str, Any]] = []
    for number in range(0 if strategy == "dynamic" else draw(st.integers(0, 4))):
        name = f"{names}{'abcd'[number]}"
        child: dict[str, Any] = {"id": name, "start": {}, "restart": draw(restarts)}
        if depth and draw(st.integers(0, 3)) == 0:
            child["supervisor"] = draw(definitions(depth - 1, name))
            child["shutdown"] = draw(st.sampled_from(["infinity", 5000, "brutal_kill"]))
        else:
            child["shutdown"] = draw(shutdowns)
            child["backoff"] = draw(
                st.sampled_from([None, None, {"first_ms": 100, "factor": 2, "longest_ms": 5000}])
            )
            limit = {"max_restarts": 1, "max_seconds": 5, "on_exceeded": "park"}
            child["limit"] = draw(st.sampled_from([None, None, limit]))
        child["significant"] = auto != "never" and child["restart"] != "permanent" and draw(st.booleans())
        children.append(child)
    return {
        "strategy": strategy,
        "max_restarts": draw(st.integers(0, 3)),
        "max_seconds": 5,
        "auto_shutdown": auto,
        "keep": draw(st.booleans()),
        "children": children,
    }


def a_child(data: st.DataObject, nodes: Nodes) -> tuple[str, str] | None:
    """Some child of some supervisor."""
    known = [(path, child) for path, state in nodes.states.items() for child in state.children]
    if not known:
        return None
    return data.draw(st.sampled_from(known))


def something_happens(data: st.DataObject, nodes: Nodes, number: int) -> None:
    kind = data.draw(st.sampled_from(["answer"] * 6 + ["end"] * 4 + ["call"] * 3 + ["rare"]))
    if kind == "answer" and nodes.asked:
        nodes.answer(data.draw(st.sampled_from(sorted(nodes.asked))), data.draw(ways))
    elif kind == "end" and nodes.live:
        life = data.draw(st.sampled_from(sorted(nodes.live)))
        nodes.end(life, data.draw(reasons), charged=data.draw(st.booleans()))
    elif kind == "call":
        path = data.draw(st.sampled_from(sorted(nodes.states)))
        child: dict[str, Any] = {"id": f"{path}-n{number}", "start": {}, "restart": data.draw(restarts)}
        target = a_child(data, nodes)
        path_of, name = target or (path, "nobody")
        calls: list[ev.Event] = [
            call(path=path_of, child=name, request=f"r{number}")
            for call in (ev.TerminateChild, ev.RestartChild, ev.DeleteChild, ev.Hold, ev.Unhold, ev.Revive)
        ]
        if target is None or data.draw(st.integers(0, 3)) == 0:
            nodes.feed(ev.StartChild(path=path, child=child, request=f"r{number}"))
        else:
            nodes.feed(data.draw(st.sampled_from(calls)))
    elif kind == "rare":
        path = data.draw(st.sampled_from(sorted(nodes.states)))
        nodes.now_ms += data.draw(st.integers(0, 7000))
        rare: list[ev.Event] = [
            ev.KillSupervisor(path=path),
            ev.StopSupervisor(path=path),
            ev.NodeAvailable(),
            ev.Tick(),
        ]
        nodes.feed(data.draw(st.sampled_from(rare)))


@settings(max_examples=60, phases=NO_SHRINK, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(definition=definitions(), data=st.data(), pauses=st.booleans())
def test_supervisors_stay_sane_whatever_happens(
    definition: dict[str, Any], data: st.DataObject, pauses: bool
) -> None:
    nodes = Nodes()
    if pauses:
        definition["pause"] = {"first_ms": 1000, "longest_ms": 4000}
    nodes.feed(ev.StartTree(path=ROOT, definition=definition, request="start"))

    for number in range(data.draw(st.integers(0, 40))):
        something_happens(data, nodes, number)

    nodes.settle()


@settings(max_examples=60, phases=NO_SHRINK, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(definition=definitions(), data=st.data())
def test_stopping_the_tree_leaves_nothing_behind(definition: dict[str, Any], data: st.DataObject) -> None:
    nodes = Nodes()
    nodes.feed(ev.StartTree(path=ROOT, definition=definition, request="start"))
    for number in range(data.draw(st.integers(0, 15))):
        something_happens(data, nodes, number)

    nodes.feed(ev.StopTree(path=ROOT, request="stop"))
    nodes.settle()

    assert nodes.live == {}
    assert not any(state.alive for state in nodes.states.values())
