"""Whatever happens in whatever order, each signal is in exactly one place, and emits keep their order.

Two agents with small mailboxes emit to each other while they die, are restarted, repeat commits, commit with tokens of
former lives, and a relay runs. After each step all signals are counted: applied, waiting, held, or dead letters.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
import redis

from regrow_signals.agents import Commit, Loaded, Owner
from regrow_signals.commits import DeadAppend, EmitAppend
from regrow_signals.connection import Connection
from regrow_signals.errors import Fenced, MailboxFull
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import send
from regrow_signals.relay import deliver_held
from regrow_signals.signal import Signal
from tests.integration.stage import Stage

OTHER = {"a": "b", "b": "a"}
STEPS = 120


@dataclass
class Play:
    """The two agents, what was made so far, and every commit that was ever sent."""

    stage: Stage
    chance: random.Random
    made: Counter[str] = field(default_factory=Counter[str])
    emitted: dict[str, list[str]] = field(default_factory=lambda: {"a": [], "b": []})
    lives: dict[str, tuple[Owner, Loaded]] = field(default_factory=dict[str, tuple[Owner, Loaded]])
    sent: list[Commit] = field(default_factory=list[Commit])

    def begin(self) -> None:
        self.stage.register("a", "b", max_mailbox=3)
        for agent in OTHER:
            self.restart(agent)

    def feed(self, agent: str) -> None:
        signal_id = f"s-{len(self.made)}"
        signal = Signal.of("ticket.opened", {}, id=signal_id)
        try:
            self.stage.do(send(self.stage.keys, self.stage.limits, agent, signal, remember=False))
        except MailboxFull:
            return
        self.made[signal_id] += 1

    def work(self, agent: str) -> None:
        """One batch: applies some signals, buries one now and then, emits up to three."""
        owner, loaded = self.lives[agent]
        waiting = self.stage.items(self.stage.keys.mailbox(agent))[: self.chance.randint(1, 3)]
        if not waiting:
            return
        applied: list[str] = json.loads(loaded.state or "[]")
        dead: list[DeadAppend] = []
        for entry, fields in waiting:
            if self.chance.random() < 0.1:
                dead.append(DeadAppend(entry, "rejected", "", 1, fields))
            else:
                applied.append(fields["id"])
        count = self.chance.randint(0, 3)
        ids = [f"{agent}-{len(self.emitted[agent]) + n}" for n in range(count)]
        emits = [
            EmitAppend(OTHER[agent], {"id": one, "type": "t", "source": agent, "data": "{}"}) for one in ids
        ]
        plan = self.stage.plan(
            owner, loaded, waiting[-1][0], state=json.dumps(applied), emits=emits, dead=dead
        )
        self.sent.append(plan)
        self.stage.commit(plan)
        self.made.update(ids)
        self.emitted[agent] += ids
        self.lives[agent] = (
            owner,
            replace(loaded, state=json.dumps(applied), version=plan.version, cursor=plan.cursor),
        )
        if self.chance.random() < 0.3:
            assert self.stage.commit(plan).landed_before

    def restart(self, agent: str) -> None:
        if agent in self.lives and self.chance.random() < 0.7:
            self.stage.die(self.lives[agent][0])
        self.stage.start(agent)
        self.lives[agent] = self.stage.claim(agent, f"token-{self.chance.random()}")

    def ghost(self, agent: str) -> None:
        """A commit of a former life arrives: one that was sent, or one made from what is there now."""
        for old in self.chance.sample(self.sent, min(3, len(self.sent))):
            if old.owner == self.lives[old.owner.agent][0]:
                continue
            _, loaded = self.lives[old.owner.agent]
            fresh = replace(
                old, base_version=loaded.version, base_cursor=loaded.cursor, cursor="9999999999999-0"
            )
            for plan in (old, fresh):
                with pytest.raises(Fenced):
                    self.stage.commit(plan)

    def relay(self, agent: str) -> None:
        self.stage.do(
            deliver_held(self.stage.keys, self.stage.limits, agent, self.chance.choice((1, 2, 100)))
        )

    def places(self) -> Counter[str]:
        keys, found = self.stage.keys, Counter[str]()
        for agent in OTHER:
            found.update(self.applied(agent))
            for key in (keys.mailbox(agent), keys.outbox(agent), keys.dead(agent)):
                found.update(fields["id"] for fields in self.stage.entries(key))
        return found

    def applied(self, agent: str) -> list[str]:
        ids: list[str] = json.loads(self.stage.agent(agent)["state"] or "[]")
        return ids

    def check(self) -> None:
        assert self.places() == self.made
        for agent, other in OTHER.items():
            stage = self.stage
            lost = {fields["id"] for key in OTHER for fields in stage.entries(stage.keys.dead(key))}
            line = [
                *self.applied(other),
                *(fields["id"] for fields in stage.entries(stage.keys.mailbox(other))),
                *(fields["id"] for fields in stage.entries(stage.keys.outbox(agent))),
            ]
            came = [one for one in line if one.startswith(f"{agent}-")]
            assert came == [one for one in self.emitted[agent] if one not in lost]
            held = int(stage.agent(agent).get(f"held:{other}", "0"))
            assert held == len(stage.entries(stage.keys.outbox(agent)))
            assert bool(held) == (stage.raw.zscore(stage.keys.held, agent) is not None)


@pytest.mark.parametrize("seed", range(12))
def test_every_signal_is_in_exactly_one_place(
    connection: Connection, raw: redis.Redis, keys: Keys, seed: int
) -> None:
    play = Play(Stage(connection, raw, keys, Limits(max_outbox=5)), random.Random(seed))
    play.begin()
    acts = [play.feed, play.feed, play.work, play.work, play.work, play.relay, play.restart, play.ghost]

    for _ in range(STEPS):
        play.chance.choice(acts)(play.chance.choice("ab"))
        play.check()

    assert len(play.made) > STEPS / 4


def test_two_full_agents_that_emit_to_each_other_come_free(
    connection: Connection, raw: redis.Redis, keys: Keys
) -> None:
    play = Play(Stage(connection, raw, keys, Limits(held_timeout_ms=1)), random.Random(1))
    play.begin()
    for agent in OTHER:
        for _ in range(3):
            play.feed(agent)
    for agent, other in OTHER.items():
        owner, loaded = play.lives[agent]
        entry = play.stage.ids(keys.mailbox(agent))[0]
        emits = [
            EmitAppend(other, {"id": f"{agent}-{n}", "type": "t", "source": agent, "data": "{}"})
            for n in range(4)
        ]
        play.stage.commit(play.stage.plan(owner, loaded, entry, state="[]", emits=emits))

    for agent in OTHER:
        while int(raw.xlen(keys.outbox(agent))) > 0:
            play.relay(agent)

    assert raw.zcard(keys.held) == 0
    reasons = [one["reason"] for agent in OTHER for one in play.stage.entries(keys.dead(agent))]
    assert set(reasons) == {"target_full"}
