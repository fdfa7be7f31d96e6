"""Simulated processes under the product's decision, and a virtual clock. It knows no rule of supervision.

What the supervisors ordered is done in order, depth first: inputs that arrive during a start or a stop come before
its outcome, and what they lead to comes before that outcome too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from regrow_supervisor import events as ev
from regrow_supervisor.calls import count_children, which_children
from regrow_supervisor.decide import decide
from regrow_supervisor.inbox import next_due
from regrow_supervisor.orders import (
    Adopted,
    Kill,
    LifeEnded,
    NotSpawned,
    Orphaned,
    Output,
    Reply,
    Report,
    Start,
    Stop,
)
from regrow_supervisor.states import SupervisorState
from tests.otp.scenario_forms import (
    Process,
    child_form,
    counts_and_children,
    definition_form,
    reply_text,
    report_text,
)

ROOT = "root"
FIRST_MS = 1_000_000
OTP_REPORTS = ("child_terminated", "start_error", "shutdown", "shutdown_error")


class Simulation:
    """One scenario: its supervisors' states, its processes, and what was seen in the current step."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.scenario = scenario
        self.states: dict[str, SupervisorState] = {}
        self.now_ms = FIRST_MS
        self.paths: dict[str, str] = {ROOT: ROOT}
        self.behaviours: dict[str, Mapping[str, Any]] = {}
        self.attempts: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.live: dict[str, Process] = {}
        self.last: dict[str, Process] = {}
        self.work: deque[Callable[[], None]] = deque()
        self.later: list[tuple[int, int, Callable[[], None]]] = []
        self.numbers = 0
        self.slots: dict[str, tuple[list[Any], int, str, str]] = {}
        self.trace: list[str] = []
        self.reports: list[str] = []
        self.hooks: list[list[Any]] = []

    # -- steps ---------------------------------------------------------------------------------------------------

    def begin(self) -> dict[str, Any]:
        definition = definition_form(self.scenario["sup"], self.scenario["children"], self.attempts)
        self.register(self.scenario["children"], ROOT)
        return self.observed(None, lambda: self.ask({"op": "start_tree", "definition": definition}))

    def step(self, event: Mapping[str, Any]) -> dict[str, Any]:
        return self.observed(event, lambda: self.ask(event))

    def observed(self, event: Mapping[str, Any] | None, act: Callable[[], list[Any]]) -> dict[str, Any]:
        self.trace, self.reports, self.hooks = [], [], []
        slot = act()
        self.settle()
        reply: Any = slot[0]
        if self.hooks:
            reply = {"during": self.hooks} if reply is None else {"reply": reply, "during": self.hooks}
        return {
            "event": event,
            "reply": reply,
            "trace": self.trace,
            "reports": self.reports,
            "root": self.root_state(),
        }

    def root_state(self) -> str:
        root = self.states[ROOT]
        return "alive" if root.alive else f"exited:{root.reason}"

    def final(self) -> dict[str, Any]:
        final: dict[str, Any] = {"root": self.root_state()}
        if self.states[ROOT].alive:
            final["tree"] = self.tree(ROOT)
        return final

    def tree(self, path: str) -> dict[str, Any]:
        state = self.states[path]
        rows = counts_and_children(which_children(state), dynamic=state.is_dynamic)
        tree: dict[str, Any] = {"children": rows, "counts": count_children(state)}
        nested = {
            child.id: self.tree(f"{path}/{child.id}")
            for child in state.children.values()
            if child.is_supervisor and child.status == "running"
        }
        if nested:
            tree["supervisors"] = nested
        return tree

    # -- what happens to the supervisors -------------------------------------------------------------------------

    def ask(self, op: Mapping[str, Any]) -> list[Any]:
        """Let one input arrive; the list's first item will be its reply."""
        slot: list[Any] = [None]
        if op["op"] == "batch":
            slot[0] = [None] * len(op["ops"])
            where = {"sup": op.get("sup", ROOT)}
            arrived = [self.input({**where, **one}, slot[0], i) for i, one in enumerate(op["ops"])]
            self.feed(ev.Batch(events=tuple(event for event in arrived if event is not None)))
        else:
            event = self.input(op, slot, 0)
            if event is not None:
                self.feed(event)
        return slot

    def input(self, op: Mapping[str, Any], slots: list[Any], index: int) -> ev.Event | None:
        """The event that an input is to a supervisor; None: it is none."""
        kind = op["op"]
        name = str(op.get("sup", ROOT))
        path = self.paths.get(name, name)
        state = self.states.get(path)
        request = f"r{len(self.slots)}"
        self.slots[request] = (slots, index, kind, "" if state is None else state.strategy)
        match kind:
            case "advance":
                self.now_ms += round(op["seconds"] * 1000)
            case "exit":
                return self.exit_event(op, slots, index)
            case "start_tree":
                return ev.StartTree(path=ROOT, definition=op["definition"], request=request)
            case "stop_sup":
                stop = ev.StopTree if path == ROOT else ev.StopSupervisor
                return stop(path=path, reason=op["reason"], request=request)
            case "kill_sup":
                return ev.KillSupervisor(path=path, request=request)
            case "start_child":
                return ev.StartChild(path=path, child=self.given(op["child"], path), request=request)
            case "terminate_child" | "get_childspec":
                call = ev.TerminateChild if kind == "terminate_child" else ev.GetChildSpec
                return call(path=path, request=request, **self.handle(op, path))
            case "restart_child":
                return ev.RestartChild(path=path, child=op["child"], request=request)
            case "delete_child":
                return ev.DeleteChild(path=path, child=op["child"], request=request)
            case "which_children":
                return ev.WhichChildren(path=path, request=request)
            case "count_children":
                return ev.CountChildren(path=path, request=request)
            case "stray_exit_signal":
                return None
            case _:
                raise ValueError(f"no such operation: {kind}")
        return None

    def exit_event(self, op: Mapping[str, Any], slots: list[Any], index: int) -> ev.Event | None:
        label = str(op["child"])
        process = self.live.get(self.keys.get(label, label))
        if process is None and label in self.paths and op["reason"] == "kill":
            return ev.KillSupervisor(path=self.paths[label])
        if process is None:
            slots[index] = "noop:not_running"
            return None
        return self.died(process, "killed" if op["reason"] == "kill" else op["reason"])

    def given(self, spec: Mapping[str, Any], path: str) -> Any:
        """A child's form for start_child; children of dynamic supervisors get a name of their own."""
        state = self.states.get(path)
        if state is None or not state.is_dynamic or "raw" in spec or "id" not in spec:
            self.register([spec], path)
            return child_form(spec, self.attempts)
        key = f"{spec['id']}~{self.next_number()}"
        self.keys[spec["id"]] = key
        self.behaviours[key] = spec
        if "children" in spec:
            self.paths[spec["id"]] = f"{path}/{key}"
            self.register(spec["children"], f"{path}/{key}")
        return {**child_form(spec, self.attempts), "id": key}

    def handle(self, op: Mapping[str, Any], path: str) -> dict[str, Any]:
        """By id, or where the supervisor is dynamic by the process that the label last had."""
        state = self.states.get(path)
        label = str(op["child"])
        if state is None or not state.is_dynamic or op.get("by_id"):
            return {"child": label}
        key = self.keys.get(label, label)
        process = self.last.get(key)
        nested = self.states.get(self.paths.get(label, ""))
        if process is None:
            number = nested.incarnation if nested is not None and label != ROOT else 0
            return {"child": key, "handle": number, "alive": nested is not None and nested.alive}
        return {"child": key, "handle": process.number, "alive": key in self.live}

    def register(self, specs: list[Mapping[str, Any]], path: str) -> None:
        for spec in specs:
            if "raw" in spec or "id" not in spec:
                continue
            self.behaviours[spec["id"]] = spec
            self.tried[spec["id"]] = 0
            if "children" in spec:
                self.paths[spec["id"]] = f"{path}/{spec['id']}"
                self.register(spec["children"], f"{path}/{spec['id']}")

    # -- what the supervisors order ------------------------------------------------------------------------------

    def feed(self, event: ev.Event) -> None:
        decision = decide(self.states, event, self.now_ms)
        for path in decision.removed:
            del self.states[path]
        self.states.update(decision.states)
        self.first([partial(self.carry_out, item) for item in self.by_name(decision.output)])

    def by_name(self, output: tuple[Output, ...]) -> list[Output]:
        """Deaths below a killed supervisor have no order; they are listed by name, right after it."""
        kills = [i for i, item in enumerate(output) if isinstance(item, Kill)]
        items = list(output)
        if kills:
            first = next(i for i, item in enumerate(items) if is_fall(item, items[kills[0]])) + 1
            below = items[first : kills[-1] + 1]
            replies = [item for item in below if isinstance(item, Reply)]
            items[first : kills[-1] + 1] = [
                *sorted((item for item in below if not isinstance(item, Reply)), key=fallen_name),
                *replies,
            ]
        return items

    def carry_out(self, item: Output) -> None:
        match item:
            case Reply():
                slots, index, kind, strategy = self.slots[item.request]
                slots[index] = reply_text(item, kind, strategy)
            case Report():
                self.note(item)
            case Start():
                self.start(item)
            case Stop():
                self.stop(item)
            case Kill():
                process = self.live.get(item.child)
                if process is not None:
                    asked = self.stop_behaviour(item.child)
                    self.died(process, asked.get("exit", "shutdown") if item.shutdown_ms else "killed")
            case LifeEnded() | Orphaned() | NotSpawned() | Adopted():
                pass  # OTP's supervisors tell nobody

    def note(self, report: Report) -> None:
        if report.context in OTP_REPORTS:
            self.reports.append(report_text(report))
        elif not report.child:
            label = report.path.rpartition("/")[2].partition("~")[0]
            self.attempts[label] = report.incarnation
            name = f"{label}#{report.incarnation}"
            results = {"started": "ok", "declined": "ignore", "start_failed": f"error:{report.reason}"}
            if report.context == "exited":
                self.trace.append(f"exit {name} {report.reason}")
            elif report.context in results and report.path != ROOT:
                self.trace.append(f"start {name} {results[report.context]}")

    def start(self, order: Start) -> None:
        spec = self.behaviours[order.child]
        attempt = self.tried.get(order.child, 0)
        self.tried[order.child] = attempt + 1
        label = spec["id"]
        self.attempts[label] = self.attempts.get(label, 0) + 1
        starts = spec.get("starts", [])
        outcome: Any = starts[attempt] if attempt < len(starts) else spec.get("starts_then", "ok")
        process = Process(label, order.path, order.child, order.incarnation, order.incarnation)
        inputs: list[Callable[[], None]] = []
        while option(outcome, "do") is not None:
            inputs += self.arrivals(option(outcome, "during"))
            outcome = option(outcome, "do")
        self.first([*inputs, partial(self.start_outcome, process, outcome)])

    def start_outcome(self, process: Process, outcome: Any) -> None:
        life = process.life
        if outcome in ("ok", "ok_info") or option(outcome, "die") is not None:
            self.trace.append(f"start {process.name} ok")
            self.live[process.key] = self.last[process.key] = process
            started = ev.Started(**life, info="info" if outcome == "ok_info" else None)
            death = option(outcome, "die")
            if death is not None:
                reason = "killed" if death == "kill" else death
                self.feed(ev.Batch(events=(started, self.died(process, reason))))
            else:
                self.feed(started)
        elif outcome == "ignore":
            self.trace.append(f"start {process.name} ignore")
            self.feed(ev.Declined(**life))
        else:
            error = option(outcome, "error")
            text, reason = (outcome, outcome) if error is None else (f"error:{error}", error)
            self.trace.append(f"start {process.name} {text}")
            self.feed(ev.StartFailed(**life, reason="garbage" if reason == "bad_return" else reason))

    def stop(self, order: Stop) -> None:
        asked = self.stop_behaviour(order.child)
        process = self.live[order.child]
        setting = self.states[order.path].children[order.child].spec["shutdown"]
        reason: str = asked.get("exit", "shutdown")
        delay: float = asked.get("delay_ms", 0)
        limit: float = order.shutdown_ms if order.shutdown_ms >= 0 else float("inf")
        if setting == "brutal_kill":
            reason, delay = "killed", 0
        elif asked.get("ignore") or delay > limit:
            reason, delay = "killed", limit
        end = partial(self.stopped, process, reason)
        inputs = self.arrivals(asked["during"]) if "during" in asked else []
        if delay == float("inf"):
            self.first(inputs)
        elif delay:
            self.first(inputs)
            self.at(self.now_ms + int(delay), end)
        else:
            self.first([*inputs, end])

    def stop_behaviour(self, key: str) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self.behaviours[key].get("stop") or {})

    def stopped(self, process: Process, reason: str) -> None:
        if self.live.get(process.key) is process:
            self.feed(self.died(process, reason))

    def died(self, process: Process, reason: str) -> ev.Exited:
        self.trace.append(f"exit {process.name} {reason}")
        del self.live[process.key]
        return ev.Exited(**process.life, reason=reason)

    # -- order and time ------------------------------------------------------------------------------------------

    def arrivals(self, ops: list[Mapping[str, Any]]) -> list[Callable[[], None]]:
        hook: list[Any] = [None] * len(ops)
        self.hooks.append(hook)

        def arrive(index: int, op: Mapping[str, Any]) -> None:
            event = self.input(op, hook, index)
            if event is not None:
                self.feed(event)

        return [partial(arrive, index, op) for index, op in enumerate(ops)]

    def first(self, todo: list[Callable[[], None]]) -> None:
        self.work.extendleft(reversed(todo))

    def at(self, when: int, act: Callable[[], None]) -> None:
        heapq.heappush(self.later, (when, self.next_number(), act))

    def settle(self) -> None:
        """Until all is quiet; time passes only while somebody waits for it."""
        while True:
            while self.work:
                self.work.popleft()()
            due = next_due(self.states)
            if self.later and (due is None or self.later[0][0] <= due):
                when, _, act = heapq.heappop(self.later)
                self.now_ms = max(self.now_ms, when)
                self.work.append(act)
            elif due is not None:
                self.now_ms = max(self.now_ms, due)
                self.work.append(partial(self.feed, ev.Tick()))
            else:
                return

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers


def option(outcome: Any, name: str) -> Any:
    """One part of an outcome that is not a plain word; None: it has no such part."""
    return cast("Mapping[str, Any]", outcome).get(name) if isinstance(outcome, dict) else None


def is_fall(item: Output, killed: Output) -> bool:
    """Whether this is the end of a supervisor above the killed child."""
    if not (isinstance(item, Report) and item.context == "exited" and isinstance(killed, Kill)):
        return False
    return f"{killed.path}/".startswith(f"{item.path}/")


def fallen_name(item: Output) -> str:
    if isinstance(item, Kill):
        return item.child
    return item.path.rpartition("/")[2] if isinstance(item, Report) else ""
