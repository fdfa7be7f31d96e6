"""The model's calls, run by the real scripts on a real server; and what the server then holds, in the model's terms.

Entries are numbered in the model and have stream ids on the server: ``ids`` keeps which is which, and is read back from
the mailboxes after every step. Each agent has a supervisor of its own, so that its record's version says what the
incarnation says in the model.
"""

from __future__ import annotations

import json
from typing import Any, cast

import redis

from regrow_signals.agents import Loaded, Owner, claim, mark_trying, release, reload
from regrow_signals.calls import Call as ScriptCall
from regrow_signals.commits import Commit, DeadAppend, EmitAppend, commit
from regrow_signals.connection import Connection
from regrow_signals.decisions import (
    AgentBounds,
    DecisionCommit,
    Register,
    StartOrder,
    SupervisorWrite,
    commit_decision,
)
from regrow_signals.errors import Conflict, Fenced, MailboxFull, NotLeader
from regrow_signals.keys import Keys
from regrow_signals.leadership import acquire, resign
from regrow_signals.limits import Limits
from regrow_signals.mailbox import send
from regrow_signals.nodes import ExitReport, report_exit
from regrow_signals.publishing import publish
from regrow_signals.relay import deliver_held
from regrow_signals.signal import Signal
from regrow_signals.subscriptions import subscribe
from tests.conftest import wait_until
from tests.protocol.scripts import target_of
from tests.protocol.world import NOBODY, Call, Kind, Record, Scenario, World, emitted_by, kind_of

__all__ = ["RealStore", "comparable"]

REFUSALS: dict[type[Exception], str] = {
    Fenced: "fenced",
    Conflict: "conflict",
    NotLeader: "not_leader",
    MailboxFull: "full",
}

FIELDS = (
    "incarnation",
    "owner",
    "version",
    "cursor",
    "applied",
    "dead",
    "mailbox",
    "log",
    "held",
    "shed",
    "clean",
    "ended",
    "charge",
    "careful_until",
    "trying",
)
"""What is compared of each agent."""


def comparable(record: Record) -> dict[str, Any]:
    """The model's record, without what no longer matters: marks at or before the cursor."""
    shown = {name: getattr(record, name) for name in FIELDS}
    shown["careful_until"] = record.careful_until if record.careful_until > record.cursor else 0
    shown["trying"] = (record.trying, record.attempts) if record.trying > record.cursor else (0, 0)
    return shown


class RealStore:
    """One scenario in one empty namespace."""

    def __init__(self, url: str, scenario: Scenario, namespace: str) -> None:
        self.scenario = scenario
        self.keys = Keys(namespace)
        self.limits = Limits(max_mailbox=scenario.max_mailbox, max_outbox=scenario.max_outbox)
        self.connection = Connection.open(url)
        self.raw = cast("Any", redis.Redis.from_url(url, decode_responses=True))
        self.leader = 1
        self.ids: list[list[str]] = [["0-0"] for _ in scenario.signals]
        self.logs: list[list[int]] = [[] for _ in scenario.signals]
        self.exit_ids: dict[tuple[int, int], str] = {}
        self._do(acquire(self.keys, "leader-1", 60_000))
        for agent in range(len(scenario.signals)):
            self._begin(agent)

    def close(self) -> None:
        self.connection.close()
        self.raw.close()

    def _begin(self, agent: int) -> None:
        bounds = AgentBounds(max_attempts=self.scenario.max_attempts)
        register = Register(name(agent), "walker", f"walk/{agent}", bounds=bounds)
        decision = DecisionCommit(
            token="leader-1",
            supervisors=[SupervisorWrite(f"walk/{agent}", 0)],
            register=[register],
            starts=[StartOrder(name(agent), 1, "n0")],
        )
        self._do(commit_decision(self.keys, self.limits, decision))
        if self.scenario.latest:
            self._do(subscribe(self.keys, self.limits, name(agent), "walk.*", policy="latest"))

    def _do(self, call: ScriptCall[Any]) -> Any:
        return self.connection.call(call)

    def lead(self, leader: int) -> None:
        """The model's leader holds the lease."""
        if leader != self.leader:
            self._do(resign(self.keys, f"leader-{self.leader}"))
            assert self._do(acquire(self.keys, f"leader-{leader}", 60_000))
            self.leader = leader

    def run(self, world: World, call: Call) -> tuple[str, Loaded | None]:
        """The real script's answer in the model's word, and what was loaded, if anything. ``world`` is before it."""
        try:
            answer = self._do(self._call(world, call))
        except tuple(REFUSALS) as refusal:
            return REFUSALS[type(refusal)], None
        return self._word(call, answer), answer if isinstance(answer, Loaded) else None

    def _word(self, call: Call, answer: Any) -> str:
        match call.script:
            case "send" if self.scenario.latest:
                if answer.refused:
                    return REFUSALS[type(answer.refused[name(call.agent)])]
                return "duplicate" if answer.receipts[0].duplicate else "accepted"
            case "send":
                return "duplicate" if answer.duplicate else "accepted"
            case "commit":
                return "landed" if answer.landed_before else "committed"
            case "deliver":
                return "delivered" if answer else "nothing"
            case "expire":
                return "expired" if answer else "nothing"
            case "report":
                return cast("str", answer)
            case other:
                done = {"claim": "claimed", "reload": "loaded", "trying": "marked", "release": "released"}
                return (done | {"decide": "decided", "forget": "forgotten"})[other]

    def _call(self, world: World, call: Call) -> ScriptCall[Any]:
        keys, limits = self.keys, self.limits
        owner = Owner(name(call.agent), call.incarnation, token(call.token), "n0")
        match call.script:
            case "send" if self.scenario.latest:
                return publish(keys, limits, sent(call.args[0]))
            case "send":
                return send(keys, limits, name(call.agent), sent(call.args[0]))
            case "claim":
                return claim(keys, limits, owner, pid=1)
            case "reload":
                return reload(keys, owner)
            case "trying":
                return mark_trying(keys, owner, self.ids[call.agent][call.args[0]], call.args[1], 0)
            case "release":
                return release(keys, owner, reason="drained")
            case "commit":
                return commit(keys, limits, self._commit(world, call, owner))
            case "deliver":
                return deliver_held(keys, limits, name(call.agent), 1)
            case "expire":
                self._let_held_age(call.agent)
                short = Limits(max_mailbox=limits.max_mailbox, held_timeout_ms=1)
                return deliver_held(keys, short, name(call.agent), 1)
            case "report":
                return report_exit(keys, self._report(call))
            case _:
                return commit_decision(keys, limits, self._decision(call))

    def _let_held_age(self, agent: int) -> None:
        """The oldest held emit is over the shortest time-out there is, by the server's clock."""
        [(_, oldest)] = self.raw.xrange(self.keys.outbox(name(agent)), count=1)
        wait_until(lambda: self._now_ms() > int(oldest["held_ms"]) + 1, "the held emit is 2 ms old")

    def _now_ms(self) -> int:
        seconds, micros = self.raw.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def _commit(self, world: World, call: Call, owner: Owner) -> Commit:
        plan, agent = call.plan, call.agent
        assert plan is not None
        ids, log = self.ids[agent], world.agents[agent].log
        new = [entry for entry in plan.applied if entry > plan.base_cursor]
        emits = [
            EmitAppend(name(target_of(world, agent)), fields_of(sent(emitted_by(agent, entry))))
            for entry in new
            if kind_of(self.scenario, agent, log[entry - 1]) is Kind.EMITS
        ]
        dead = [
            DeadAppend(ids[entry], "rejected", "", 0, fields_of(sent(log[entry - 1]))) for entry in plan.dead
        ]
        return Commit(
            owner=owner,
            base_version=plan.base_version,
            base_cursor=ids[plan.base_cursor],
            version=plan.version,
            cursor=ids[plan.cursor],
            state=json.dumps(plan.applied) if new else None,
            schema=1,
            emits=emits,
            dead=dead,
            handled=len(new),
            failed=len(dead),
            counters={},
            agent_type="walker",
            birth="birth",
        )

    def _report(self, call: Call) -> ExitReport:
        charge, in_hand, superseded = call.args
        reason = "superseded" if superseded else "signal:SIGSEGV" if charge else "signal:SIGKILL"
        held = self.ids[call.agent][in_hand] if in_hand else ""
        return ExitReport(
            "n0",
            name(call.agent),
            call.incarnation,
            reason,
            "attempt" if charge else "none",
            charged=not superseded,
            in_hand=held,
        )

    def _decision(self, call: Call) -> DecisionCommit:
        answers = call.script == "forget" or bool(call.args[1])
        entry = self.exit_ids[call.agent, call.incarnation] if answers else ""
        leader = f"leader-{call.args[0]}"
        if call.script == "forget":
            return DecisionCommit(token=leader, exits_entry=entry)
        lost = ExitReport("n0", name(call.agent), call.incarnation, "node_lost", "none", charged=False)
        return DecisionCommit(
            token=leader,
            exits_entry=entry,
            supervisors=[SupervisorWrite(f"walk/{call.agent}", call.incarnation)],
            starts=[StartOrder(name(call.agent), call.incarnation + 1, f"n{call.args[2]}")],
            lost=() if answers else (lost,),
        )

    def exits(self) -> tuple[tuple[int, int], ...]:
        """Exits that the watchdog has still to answer."""
        found: list[tuple[int, int]] = []
        for entry, fields in self.raw.xrange(self.keys.exits):
            if fields["kind"] == "exited":
                life = (number(fields["agent"]), int(fields["incarnation"]))
                self.exit_ids[life] = entry
                found.append(life)
        return tuple(found)

    def record(self, agent: int) -> dict[str, Any]:
        """What the server holds of an agent, in the model's terms."""
        fields: dict[str, str] = self.raw.hgetall(self.keys.agent(name(agent)))
        mailbox = self._mailbox(agent)
        dead = [letter for _, letter in self.raw.xrange(self.keys.dead(name(agent)))]
        outbox = [emit for _, emit in self.raw.xrange(self.keys.outbox(name(agent)))]
        numbers = {entry: index for index, entry in enumerate(self.ids[agent])}
        cursor = numbers[fields["cursor"]]
        careful = numbers[fields["careful_until"] or "0-0"]
        tried, attempts, _ = (fields["trying"] or "0-0 0 0").split(" ")
        return {
            "incarnation": int(fields["incarnation"]),
            "owner": int(fields["owner"].removeprefix("token-") or NOBODY),
            "version": int(fields["version"]),
            "cursor": cursor,
            "applied": tuple(json.loads(fields["state"] or "[]")),
            "dead": tuple(numbers[one["entry"]] for one in dead if one["reason"] != "target_full"),
            "mailbox": tuple(numbers[entry] for entry in mailbox),
            "log": tuple(self.logs[agent]),
            "held": tuple(int(emit["id"]) for emit in outbox),
            "shed": tuple(int(one["id"]) for one in dead if one["reason"] == "target_full"),
            "clean": fields["clean"] == "1",
            "ended": int(fields["ended"] or 0),
            "charge": 1 if fields["charge"] == "attempt" else 0,
            "careful_until": careful if careful > cursor else 0,
            "trying": (numbers[tried], int(attempts)) if numbers[tried] > cursor else (0, 0),
        }

    def _mailbox(self, agent: int) -> list[str]:
        """The mailbox's ids; new ones get the next numbers."""
        entries: list[tuple[str, dict[str, str]]] = self.raw.xrange(self.keys.mailbox(name(agent)))
        for entry, fields in entries:
            if entry not in self.ids[agent]:
                self.ids[agent].append(entry)
                self.logs[agent].append(int(fields["id"]))
        return [entry for entry, _ in entries]

    def shown(self, loaded: Loaded, agent: int) -> dict[str, Any]:
        """What a claim or reload answered, in the model's terms."""
        numbers = {entry: index for index, entry in enumerate(self.ids[agent])}
        return {
            "version": loaded.version,
            "cursor": numbers[loaded.cursor],
            "applied": tuple(json.loads(loaded.state or "[]")),
            "condemned": bool(loaded.condemned) and numbers[loaded.trying_entry] > numbers[loaded.cursor],
        }


def name(agent: int) -> str:
    return f"agent-{agent}"


def number(agent: str) -> int:
    return int(agent.removeprefix("agent-"))


def token(value: int) -> str:
    return f"token-{value}"


def sent(content: int) -> Signal:
    return Signal.of("walk.step", {"content": content}, id=str(content), source="walk")


def fields_of(signal: Signal) -> dict[str, str]:
    return {"id": signal.id, "type": signal.type, "source": signal.source, "data": signal.data}
