"""A stage for tests of an agent's life: registers, starts, claims, feeds and commits with the real typed callers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import redis

from regrow_signals.agents import Commit, CommitReply, Loaded, Owner, claim, commit
from regrow_signals.calls import Call
from regrow_signals.commits import DeadAppend, EffectAppend, EmitAppend, JournalAppend
from regrow_signals.connection import Connection
from regrow_signals.decisions import AgentBounds, DecisionCommit, Register, StartOrder, commit_decision
from regrow_signals.keys import Keys
from regrow_signals.leadership import acquire
from regrow_signals.limits import Limits
from regrow_signals.mailbox import send
from regrow_signals.nodes import ExitReport, join, report_exit
from regrow_signals.signal import Signal

LEADER = "leader-1"
LAST_ID = "18446744073709551615-18446744073709551615"


@dataclass
class Stage:
    connection: Connection
    raw: redis.Redis
    keys: Keys
    limits: Limits = field(default_factory=Limits)

    def do(self, call: Call[Any]) -> Any:
        return self.connection.call(call)

    def lead(self, token: str = LEADER) -> None:
        assert self.do(acquire(self.keys, token, 60_000))

    def decide(self, **parts: Any) -> int:
        decision = DecisionCommit(token=parts.pop("token", LEADER), **parts)
        return self.connection.call(commit_decision(self.keys, self.limits, decision))

    def register(self, *agents: str, **bounds: Any) -> None:
        self.lead()
        new = AgentBounds(**bounds)
        self.decide(register=[Register(agent, "desk", "helpdesk", bounds=new) for agent in agents])

    def node(self, node: str = "n1", kind: str = "worker") -> None:
        self.do(join(self.keys, node, kind=kind, host="h", pid=1, labels={}, types={}, version="0"))

    def start(self, agent: str, node: str = "n1") -> int:
        incarnation = int(self.agent(agent)["incarnation"]) + 1
        self.decide(starts=[StartOrder(agent, incarnation, node)])
        return incarnation

    def claim(self, agent: str, token: str = "token-1") -> tuple[Owner, Loaded]:
        owner = Owner(agent, int(self.agent(agent)["incarnation"]), token, "n1")
        return owner, self.connection.call(claim(self.keys, self.limits, owner, pid=42))

    def live(self, agent: str, token: str = "token-1") -> tuple[Owner, Loaded]:
        """Registered (once), started, claimed."""
        if not self.raw.exists(self.keys.agent(agent)):
            self.register(agent)
        self.start(agent)
        return self.claim(agent, token)

    def die(self, owner: Owner, *, charge: Any = "attempt", in_hand: str = "", reason: str = "exit:1") -> str:
        report = ExitReport("n1", owner.agent, owner.incarnation, reason, charge, True, "boom", in_hand)
        return self.connection.call(report_exit(self.keys, report))

    def feed(self, agent: str, count: int = 1) -> list[str]:
        """Sends signals s-1, s-2, ...; their acceptance ids."""
        start = int(self.raw.xlen(self.keys.mailbox(agent)))
        signals = [Signal.of("ticket.opened", {"n": n}, id=f"s-{start + n}") for n in range(1, count + 1)]
        return [
            self.connection.call(send(self.keys, self.limits, agent, one, remember=False)).entry
            for one in signals
        ]

    def agent(self, agent: str) -> dict[str, str]:
        return dict(self.raw.hgetall(self.keys.agent(agent)))  # type: ignore[arg-type]

    def counters(self) -> dict[str, int]:
        found: Mapping[str, str] = self.raw.hgetall(self.keys.counters)  # type: ignore[assignment]
        return {name: int(value) for name, value in found.items()}

    def entries(self, key: str) -> list[dict[str, str]]:
        return [fields for _, fields in self.items(key)]

    def items(self, key: str, after: str = "-") -> list[tuple[str, dict[str, str]]]:
        """Ids and fields of a stream's entries, from ``after`` on as XRANGE takes it."""
        return cast("list[tuple[str, dict[str, str]]]", self.raw.xrange(key, after))

    def ids(self, key: str, after: str = "-") -> list[str]:
        return [entry for entry, _ in self.items(key, after)]

    def plan(
        self,
        owner: Owner,
        loaded: Loaded,
        cursor: str,
        *,
        state: str | None = None,
        version: int | None = None,
        emits: Sequence[EmitAppend] = (),
        effects: Sequence[EffectAppend] = (),
        dead: Sequence[DeadAppend] = (),
        journal: Sequence[JournalAppend] = (),
        **more: Any,
    ) -> Commit:
        after = loaded.version + 1 if version is None else version
        return Commit(
            owner=owner,
            base_version=loaded.version,
            base_cursor=loaded.cursor,
            version=after,
            cursor=cursor,
            state=json.dumps({"open": after}) if state is None else state,
            schema=1,
            emits=emits,
            effects=effects,
            dead=dead,
            journal=journal,
            handled=more.pop("handled", 1),
            counters=more.pop("counters", {}),
            agent_type=loaded.type,
            birth=loaded.birth,
            **more,
        )

    def commit(self, plan: Commit) -> CommitReply:
        return self.connection.call(commit(self.keys, self.limits, plan))


def emit(target: str, n: int = 1, **fields: str) -> EmitAppend:
    return EmitAppend(
        target, {"id": f"e-{n}", "type": "invoice.due", "source": "agent:a", "data": f'{{"n":{n}}}', **fields}
    )


def effect(n: int = 1, *, idempotent: bool = True) -> EffectAppend:
    return EffectAppend(f"birth:1-1:{n}", "charge", '["o-1",500]', 60_000, 3, idempotent)


def transition(n: int = 1, state: str = "") -> JournalAppend:
    return JournalAppend(
        f"{n}-1", n, "[]", "d" * 16, "applied", f"s-{n}", "ticket.opened", 1000 + n, "shop", "{}", state
    )
