"""The loop of a slot: one process that serves many pooled agents in turn.

A round: what was claimed is applied, agent by agent, and committed together; in the same round trip the agents are let
go (those with more to do go to the end of their queue) and the next ones are claimed. Each agent's commit stands or
falls alone, fenced by the token of its own claim.
"""

from __future__ import annotations

import logging
import os
import secrets
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from regrow_signals import agents, pool
from regrow_signals.agents import Owner
from regrow_signals.calls import Call, Command
from regrow_signals.commits import CommitReply
from regrow_signals.connection import Connection, Interrupted
from regrow_signals.errors import Conflict, CorruptKey, DirectiveRefused, Fenced, RegrowError, StoreError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.pool import Claimed, Claims, NodeGone, PlainCommit, SlotName
from regrow_workers import log
from regrow_workers.agent import Agent
from regrow_workers.fail_points import FailPoints
from regrow_workers.own_descriptors import OwnDescriptors
from regrow_workers.own_priority import PRIORITY, OwnPriority
from regrow_workers.placement_class import queues_of
from regrow_workers.pool_step import apply_claimed, cannot_read
from regrow_workers.process_memory import give_memory_back
from regrow_workers.reasons import ASKED, WorkerExit
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Slot
from regrow_workers.stop_request import StopRequest
from regrow_workers.store_watch import StoreWatch

__all__ = ["Done", "PoolSlot"]

_LOG = logging.getLogger(__name__)

COMMIT_AFTER: Final = 0.010
"""Seconds of work that wait for their commit at most, before a further agent is begun."""

SLOW: Final = 0.025
"""After one agent's slice that took so long, the slot gives back what it has not begun: others may do it."""

SHORT, LONG = 0.005, 0.020
"""A round of less work than that claims more the next time, one of more work less."""

SET_ASIDE: Final = 1.0
"""For so long an agent with a damaged key is kept, and not looked at."""

NONE: Final = Claims([], [], waiting=False)
MORE: Final = Claims([], [], waiting=True)


class _Adrift(Exception):
    """A round trip went wrong; what was in hand has been freed."""


@dataclass(slots=True)
class Done:
    """Agents that were worked through: commits without directives go in one call, all others in calls of their own."""

    calls: list[Call[Any]] = field(default_factory=list[Call[Any]])
    plain: list[PlainCommit] = field(default_factory=list[PlainCommit])
    owners: list[Owner] = field(default_factory=list[Owner])

    def add(self, owner: Owner, work: PlainCommit | list[Call[Any]]) -> None:
        self.owners.append(owner)
        if isinstance(work, PlainCommit):
            self.plain.append(work)
        else:
            self.calls += work

    def __bool__(self) -> bool:
        return bool(self.owners)


class PoolSlot:
    """One slot process. If it dies on any line, its node frees what it holds, and charges the agent in hand alone.

    1. It commits an agent with the token of that agent's claim; who was stopped, freed or restarted meanwhile is
       refused, which disturbs no other.
    2. What it has not committed lies in the mailboxes still.
    3. When a round trip's fate is unknown it frees all that it may hold, and claims anew: state and cursor tell what
       landed.
    """

    def __init__(
        self,
        *,
        name: SlotName,
        agent_types: Mapping[str, type[Agent[Any]]],
        connection: Connection,
        keys: Keys,
        limits: Limits,
        settings: NodeSettings,
    ) -> None:
        self._name = name
        self._types = agent_types
        self._schemas = {each: kind.definition.schema for each, kind in agent_types.items()}
        self._connection = connection
        self._keys = keys
        self._limits = replace(
            limits,
            journal_entries=min(limits.journal_entries, limits.pool_journal_entries),
            journal_bytes=min(limits.journal_bytes, limits.pool_journal_bytes),
        )
        self._settings = settings
        self.clock: Callable[[], float] = time.monotonic
        """For the bounds of a slice."""

        self._fail = FailPoints(settings.fail_points, name.number)
        self._watch = StoreWatch(_LOG, f"slot {name.number}")
        self._queues: list[str] = []
        self._queues_at = 0.0
        self._rounds = 0
        self._most = settings.pool_claims
        self._held: dict[str, Owner] = {}
        """Claimed, and not yet let go."""

        self._aside: dict[str, float] = {}
        """Agents with a damaged key, and until when they are left alone, so that nobody spins on them."""

        self._refused: dict[str, dict[str, tuple[str, str]]] = {}
        """Of agents: entries whose directives the store has refused, until a commit has landed."""

        self._overtaken: set[str] = set()
        """Agents whose last commit or mark was in conflict."""

        self._look_again_at = 0.0
        """When to free once more what Redis may have claimed for us though we gave it up; 0: no need."""

        self._idle = False

    def run(self, slot: Slot, stop: StopRequest) -> WorkerExit:
        """Serve until asked to stop, or until the node is not known any more."""
        self._slot = slot
        self._stop = stop
        self._connection.interrupt_fd = stop.fileno()
        self._own = OwnDescriptors(stop.fileno(), self._connection)
        self._priority = OwnPriority(slot)
        claims = MORE
        while not stop.requested:
            stop.rearm()
            try:
                claims = self._turn(claims)
            except _Adrift:
                claims = MORE
            except NodeGone:
                slot.note(Phase.SUPERSEDED)
                return WorkerExit.SUPERSEDED
            if self._priority.is_low:
                # What is in hand goes back, and a slot with a priority of its own takes the place.
                self._leave()
                slot.note(Phase.RECYCLED, PRIORITY)
                return WorkerExit.RECYCLED
        self._leave()
        slot.note(Phase.RELEASED, ASKED)
        return WorkerExit.RELEASED

    def let_go(self) -> None:
        """In a copy of the process: the socket is not its own."""
        self._connection.close()

    def _turn(self, claims: Claims) -> Claims:
        """Work, claim or wait; the value is what is claimed now."""
        if claims.agents or claims.unreadable:
            return self._round(claims)
        if self._look_again_at and time.monotonic() >= self._look_again_at:
            self._look_again_at = 0.0
            self._exchange(Done([pool.free_slot(self._keys, self._name)]))
        return self._exchange(Done(), claim=True) if claims.waiting else self._wait()

    # A round.

    def _round(self, claims: Claims) -> Claims:
        began = time.monotonic()
        self._held.update((claimed.owner.agent, claimed.owner) for claimed in claims.agents)
        self._held.update((owner.agent, owner) for owner, _ in claims.unreadable)
        for each in claims.agents:
            if each.loaded.type not in self._types:
                self._put_aside(each.owner.agent, f"this node has no agent type {each.loaded.type!r}")
        self._fail.reach("after_read")
        able = [self._wary(each) for each in claims.agents if not self._is_aside(each.owner.agent)]
        # Last, after the others' commits: what killed a process once may do so again.
        able.sort(key=lambda each: agents.is_careful(each.loaded, each.entries[0][0]))
        done = self._work_through(able)
        for owner, why in claims.unreadable:
            done.calls += cannot_read(self._keys, owner, why)
        # Of the work alone: where Redis or the machine is slow, fewer agents in a round trip would only make it slower.
        spent = time.monotonic() - began
        if spent < SHORT:
            self._most = min(self._settings.pool_claims, 2 * self._most)
        elif spent > LONG:
            self._most = max(1, self._most // 2)
        return self._exchange(done, claim=not self._stop.requested)

    def _work_through(self, claimed: Sequence[Claimed]) -> Done:
        """Apply as many as there is time for; the last commits, not yet sent."""
        done = Done()
        unsent_since = time.monotonic()
        for each in claimed:
            if self._stop.requested:
                break
            careful = agents.is_careful(each.loaded, each.entries[0][0])
            if done and (careful or time.monotonic() - unsent_since > COMMIT_AFTER):
                self._exchange(done, let_go=done.owners)
                done, unsent_since = Done(), time.monotonic()
            if careful and not self._announce(each):
                continue
            began = time.monotonic()
            done.add(each.owner, self._apply(each))
            if time.monotonic() - began > SLOW:
                break
        return done

    def _announce(self, claimed: Claimed) -> bool:
        """Note which signal is tried; whether the agent is still ours.

        Not while a later one is charged already: each claim reads what it was charged from Redis, which keeps one only.
        """
        loaded, entry = claimed.loaded, claimed.entries[0][0]
        if agents.is_charged_later(loaded, entry):
            return True
        call = agents.announce(self._keys, claimed.owner, loaded, entry, marked=loaded.trying_entry)
        answer = None if call is None else self._trip([call])[0]
        if isinstance(answer, CorruptKey):
            self._put_aside(claimed.owner.agent, str(answer))
        return answer is None

    def _wary(self, claimed: Claimed) -> Claimed:
        """As claimed; one by one where a batch was in conflict before."""
        if claimed.owner.agent not in self._overtaken:
            return claimed
        self._overtaken.discard(claimed.owner.agent)
        if agents.is_careful(claimed.loaded, claimed.entries[-1][0]):
            return claimed  # it is so for longer
        return replace(claimed, loaded=replace(claimed.loaded, careful_until=claimed.entries[-1][0]))

    def _apply(self, claimed: Claimed) -> PlainCommit | list[Call[Any]]:
        """One slice of one agent: its commit, and what follows from its end, if it ends."""
        calls = apply_claimed(
            claimed,
            self._types[claimed.loaded.type],
            self._slot,
            keys=self._keys,
            limits=self._limits,
            settings=self._settings,
            fail=self._fail,
            refused=self._refused.get(claimed.owner.agent, {}),
            clock=self.clock,
            check=self._own.check,
        )
        self._priority.restore()
        return calls

    def _is_aside(self, agent: str) -> bool:
        return self._aside.get(agent, 0.0) > time.monotonic()

    def _put_aside(self, agent: str, why: str) -> None:
        """One line for each agent, not one for each look."""
        if agent not in self._aside:
            log.event(_LOG, "agent_unreadable", level=logging.ERROR, agent=agent, error=why)
        self._aside[agent] = time.monotonic() + SET_ASIDE

    # Redis.

    def _exchange(self, done: Done, *, let_go: Sequence[Owner] | None = None, claim: bool = False) -> Claims:
        """Commit, let go (of all in hand, where nothing is said), and claim the next ones: one round trip."""
        self._slot.note(Phase.STORING)
        plain = {each.owner.agent for each in done.plain}
        owners = [
            owner
            for owner in (self._held.values() if let_go is None else let_go)
            if owner.agent not in plain and not (self._aside and self._is_aside(owner.agent))
        ]
        items: list[Call[Any] | Command[Any]] = [*done.calls]
        if plain:
            items.append(pool.commit_agents(self._keys, self._name, done.plain))
        if owners:
            items.append(pool.release_agents(self._keys, self._name, owners))
        if claim and time.monotonic() >= self._queues_at:
            self._look_at_classes()
        if claim:
            items.append(self._claim_call())
        if not items:
            return MORE
        self._fail.reach("before_commit")
        answers = self._trip(items)
        self._fail.reach("after_commit")
        for call, answer in zip(done.calls, answers, strict=False):
            self._hear(call.hint, answer)
        at = len(done.calls)
        if plain:
            self._hear_plain(done.plain, answers[at])
            at += 1
        if owners and not isinstance(answers[at], CorruptKey):
            for owner in owners:
                del self._held[owner.agent]
        if not claim:
            return MORE
        found: Claims | RegrowError = answers[-1]
        if isinstance(found, CorruptKey):
            log.event(_LOG, "queues_unreadable", level=logging.ERROR, error=str(found))
            self._pause(SET_ASIDE)
            return MORE
        if isinstance(found, RegrowError):
            raise found
        return found

    def _hear(self, agent: str, answer: object) -> None:
        """What came of an agent's commit."""
        if isinstance(answer, CommitReply):
            self._refused.pop(agent, None)
        elif isinstance(answer, CorruptKey):
            self._put_aside(agent, str(answer))
        elif isinstance(answer, DirectiveRefused):
            self._refused.setdefault(agent, {})[answer.entry] = (answer.reason, answer.why)

    def _hear_plain(
        self, commits: Sequence[PlainCommit], answer: list[CommitReply | RegrowError] | CorruptKey
    ) -> None:
        """The same of those that were let go with their commit; who has a damaged key stays in hand for a while."""
        for place, commit in enumerate(commits):
            one = answer if isinstance(answer, CorruptKey) else answer[place]
            if type(one) is not CommitReply or self._refused:
                self._told(commit.owner.agent, one)
                self._hear(commit.owner.agent, one)
            if not isinstance(one, CorruptKey):
                del self._held[commit.owner.agent]

    def _claim_call(self) -> Call[Claims]:
        self._rounds += 1
        first = self._rounds % max(1, len(self._queues))
        return pool.claim_agents(
            self._keys,
            self._limits,
            self._name,
            [*self._queues[first:], *self._queues[:first]],
            pid=os.getpid(),
            token=secrets.token_hex(16),
            most=self._most,
            signals=self._settings.read_count,
        )

    def _trip(self, items: Sequence[Call[Any] | Command[Any]]) -> list[Any]:
        """One round trip; refusals stand in their places. ``_Adrift`` where Redis was away or would not write."""
        try:
            answers = self._connection.pipeline(items)
            for answer in answers:
                if isinstance(answer, StoreError) and not isinstance(answer, CorruptKey):
                    raise answer
        except StoreError as error:
            self._free_all(error)
            raise _Adrift from error
        self._watch.answered()
        for item, answer in zip(items, answers, strict=True):
            if isinstance(answer, RegrowError):
                self._told(item.hint, answer)
        return answers

    def _told(self, agent: str, answer: object) -> None:
        if isinstance(answer, Conflict):
            # A signal gave way to a newer one, or Redis went back in time: the next claim finds what there is now,
            # and takes it one by one, for what is being tried gives way to none.
            self._overtaken.add(agent)
        if isinstance(answer, Conflict | Fenced):
            log.event(_LOG, "commit_refused", level=logging.DEBUG, agent=agent, error=str(answer))

    def _free_all(self, error: StoreError) -> None:
        """Nobody knows what came of the last round trip: free whatever Redis has of ours, once it answers."""
        self._held.clear()
        self._look_again_at = time.monotonic() + SET_ASIDE
        while not self._stop.requested:
            self._own.check_room()
            self._pause(self._watch.failed(error))
            try:
                self._connection.call(pool.free_slot(self._keys, self._name))
            except StoreError as again:
                error = again
            else:
                self._watch.answered()
                return

    def _look_at_classes(self) -> None:
        self._queues_at = time.monotonic() + self._settings.read_block
        found = self._trip([Command(("SMEMBERS", self._keys.classes), list, hint="classes")])[0]
        if isinstance(found, list):
            classes: list[str] = sorted(map(str, found))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            self._queues = queues_of(classes, self._schemas, self._settings.labels)

    def _wait(self) -> Claims:
        """For the bell of a queue, or of a new class; now and then without, should a bell have been lost."""
        self._fail.reach("before_read")
        self._slot.note(Phase.IDLE)
        seconds = self._settings.read_block
        bells = [self._keys.class_bell, *map(self._keys.ready_bell, self._queues)]
        try:
            wait = Command(("BLPOP", *bells, f"{seconds:.3f}"), _key_of, wait=seconds)
            rung = self._connection.command(wait, interruptible=True)
        except Interrupted:
            self._own.check()
            self._stop.look()
            return NONE
        except StoreError as error:
            self._own.check_room()
            self._pause(self._watch.failed(error))
            return MORE
        self._watch.answered()
        if rung in ("", self._keys.class_bell):
            self._queues_at = 0.0
        if not rung and not self._idle:
            give_memory_back()
        self._idle = not rung
        return MORE

    def _leave(self) -> None:
        """Asked to stop: what is left in hand goes back at once. If Redis is away the node does it."""
        try:
            self._connection.call(pool.free_slot(self._keys, self._name))
        except StoreError as error:
            log.event(_LOG, "slot_not_freed", level=logging.WARNING, slot=self._name.worker, error=str(error))

    def _pause(self, seconds: float) -> None:
        select.select([self._stop.fileno()], [], [], seconds)
        self._stop.look()


def _key_of(reply: Any) -> str:
    return str(reply[0]) if reply else ""
