"""The loop of an isolated agent's process: claim, read after the cursor, apply, commit; until asked or stopped."""

from __future__ import annotations

import logging
import os
import secrets
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from regrow_signals import agents
from regrow_signals.agents import Loaded, Owner
from regrow_signals.calls import Call, Command
from regrow_signals.commits import Commit, newer
from regrow_signals.connection import Connection, Interrupted, Sent
from regrow_signals.errors import (
    BadPayload,
    Conflict,
    CorruptKey,
    DescriptorsLost,
    DirectiveRefused,
    RegrowError,
    StoreError,
    UnreadableState,
)
from regrow_signals.exchange import Entries, range_command, stream_command
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import batch, log
from regrow_workers.agent import Agent
from regrow_workers.batch import CommitPlan, Ends
from regrow_workers.elsewhere import Elsewhere
from regrow_workers.fail_points import FailPoints
from regrow_workers.fork_copies import leave_if_copied
from regrow_workers.own_descriptors import OwnDescriptors
from regrow_workers.own_priority import PRIORITY, OwnPriority
from regrow_workers.process_memory import give_memory_back
from regrow_workers.reasons import ASKED, NEWER_CODE, SHUTDOWN, UNREADABLE, WorkerExit
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Slot
from regrow_workers.stop_request import StopRequest
from regrow_workers.store_watch import StoreWatch
from regrow_workers.wear import Wear

__all__ = ["Worker"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

FIRST_LOOK = 0.02
LAST_LOOK = 1.0
ASKED_PACE = 0.1


class _Left(Exception):
    """Asked to stop before anything was claimed: there is nothing to give back."""


class Worker:
    """One incarnation. If it dies on any line, the next incarnation goes on from the last commit:

    1. It commits with the token of its own claim, so from the moment another life begins it can change nothing.
    2. What it has read and not committed lies in the mailbox still.
    3. A commit whose fate is unknown is sent again as it is; Redis tells a repeat from a first.
    4. After a reconnect it loads again by its token before it goes on.
    """

    def __init__(
        self,
        *,
        order: Mapping[str, str],
        node: str,
        agent_type: type[Agent[Any]],
        connection: Connection,
        keys: Keys,
        limits: Limits,
        settings: NodeSettings,
    ) -> None:
        """Nothing here is the process's own: it is made before the fork, where nothing has to be copied for it."""
        agent, incarnation = order["agent"], int(order["incarnation"])
        self._owner = Owner(agent, incarnation, order.get("token") or secrets.token_hex(16), node)
        self._agent_type = agent_type
        self._connection = connection
        self._keys = keys
        self._mailbox = keys.mailbox(agent)
        self._limits = limits
        self._settings = settings
        self._fail = FailPoints(settings.fail_points, incarnation)
        self._watch = StoreWatch(_LOG, agent)
        self._wear = Wear(order)
        self._order = order
        self._elsewhere = Elsewhere(keys, order)
        self.clock: Callable[[], float] = time.monotonic
        """What a batch's work is measured by, in seconds."""

        self._refused: dict[str, tuple[str, str]] = {}
        """Entries whose directives the store has refused, until their commit has landed."""

        self._generation = 0
        self._base: Loaded | None = None
        self._marked = ""
        """The entry that Redis has as the one being tried."""

        self._worked = True
        self._conflicting: Commit | None = None
        """A commit in conflict, until the base is loaded anew and tells why."""
        self._overtaken = False
        """A signal in hand gave way to a newer one: what is read next is taken one by one, for what is being tried
        gives way to none."""

    def run(self, slot: Slot, stop: StopRequest) -> WorkerExit:
        """Live, in the process of one's own. Raises Fenced when another life owns the agent."""
        self._slot = slot
        self._stop = stop
        self._connection.interrupt_fd = stop.fileno()
        self._own = OwnDescriptors(stop.fileno(), self._connection)
        self._priority = OwnPriority(slot)
        # Called before every handler: nothing stands between it and the slot but in a crash test.
        self._before: Callable[[str], None] = (
            self._begin_and_fail if self._settings.fail_points else slot.begin
        )
        try:
            return self._turns(self._begin())
        except _Left:
            self._slot.note(Phase.RELEASED, ASKED)
            return WorkerExit.RELEASED
        except (BadPayload, CorruptKey) as error:
            return self._cannot_go_on(error)

    def let_go(self) -> None:
        """In a copy of the process: the socket is not its own."""
        self._connection.close()

    def _turns(self, entries: Entries) -> WorkerExit:
        """The loop. ``entries`` are read and not yet applied; they are dropped when the base is loaded anew."""
        while not self._stop.requested:
            self._stop.rearm()
            if self._connection.generation != self._generation:
                self._reload()
                entries = []
            if worn := self._is_worn():
                # What is in hand lies in the mailbox still: a fresh process of this life takes it up.
                self._slot.note(Phase.RECYCLED, worn)
                return WorkerExit.RECYCLED
            if self._loaded.blocked:
                self._wait_for_room()
            elif not entries:
                entries = self._read()
            else:
                entries, ends = self._turn(entries)
                if ends is not None:
                    return self._end(ends)
        return self._release(ASKED)

    # A turn.

    def _turn(self, entries: Entries) -> tuple[Entries, Ends | None]:
        """Take the first entries; what is to be taken next, and why this life ends, if it does."""
        entries, ends = self._apply(entries)
        if ends is not None and ends.kind == "hand_over" and not self._is_left(ends.reason):
            return entries, None
        return entries, ends

    def _is_left(self, signal_type: str) -> bool:
        """Whether a signal without a handler here is left to another node. Nothing is decided while Redis is away."""
        while not self._stop.requested:
            try:
                left = self._elsewhere.look(self._connection, signal_type)
            except StoreError as error:
                self._pause(self._watch.failed(error))
            else:
                self._watch.answered()
                return left
        return False

    def _apply(self, entries: Entries) -> tuple[Entries, Ends | None]:
        """Apply and commit the first entries, and on as long as there are more; what is to be taken next.

        While Redis works on one commit the next is planned: a plan changes nothing, and is dropped unless the commit
        that it follows from stands. Lets go of its plans before anybody waits.
        """
        loaded = self._loaded
        if agents.is_careful(loaded, entries[0][0]) and not self._announce(entries[0][0]):
            return [], None
        plan: CommitPlan | None = self._plan(loaded, entries)
        while plan is not None and plan.taken:
            after, last = plan.after, entries[plan.taken - 1][0]
            entries = entries[plan.taken :] if after.rewound != agents.FIRST else []
            sent = self._send_commit(plan, last, entries, after)
            ahead = None
            if entries and plan.ends is None and not agents.is_careful(after, entries[0][0]):
                ahead = self._plan_ahead(after, entries)
            read = self._receive_commit(plan, sent, after)
            if read is None:
                return [], None
            entries += read
            ends, plan = plan.ends, None
            if ends is not None:
                return entries, ends
            if not (
                self._stop.requested
                or self._loaded.blocked
                or self._connection.generation != self._generation
                or self._is_worn()
            ):
                plan = ahead
        return entries, plan.ends if plan is not None else None

    def _plan_ahead(self, loaded: Loaded, entries: Entries) -> CommitPlan:
        try:
            return self._plan(loaded, entries)
        except BaseException:
            # Between a command and its answer: nobody may ever get this answer for another.
            self._connection.close()
            raise

    def _plan(self, loaded: Loaded, entries: Entries) -> CommitPlan:
        plan = batch.plan(
            self._agent_type,
            loaded,
            entries,
            self._limits,
            self.clock,
            owner=self._owner,
            before=self._before,
            max_signals=self._settings.read_count,
            check_every=self._settings.check_every,
            refused=self._refused,
            nowhere=self._elsewhere.nowhere,
        )
        leave_if_copied()
        self._priority.restore()
        return plan

    def _is_worn(self) -> str:
        """Why a fresh process is to go on, or ''."""
        return self._wear.is_spent(self._loaded.version) or (PRIORITY if self._priority.is_low else "")

    def _announce(self, entry: str) -> bool:
        """Careful, after an end that was not clean: note in Redis which signal is tried, before it is.

        False: it is in the mailbox no longer, and the base is to be loaded anew.
        """
        call = agents.announce(self._keys, self._owner, self._loaded, entry, marked=self._marked)
        if call is None:
            return True
        self._slot.note(Phase.STORING)
        try:
            self._ask(call)
        except Conflict:
            self._overtaken = True
            self._generation = -1
            return False
        self._marked = entry
        return True

    def _begin_and_fail(self, entry: str) -> None:
        self._slot.begin(entry)
        self._fail.reach("in_handler")

    def _end(self, ends: Ends) -> WorkerExit:
        """The commit that says so has landed."""
        if ends.kind == "crash":
            self._slot.note(Phase.FAILED, ends.reason.removeprefix("exception:"))
            return WorkerExit.FAILED
        return self._hand_over(ends.reason) if ends.kind == "hand_over" else self._release(ends.reason)

    def _hand_over(self, signal_type: str) -> WorkerExit:
        """Leave the agent to a node that knows this type, or (empty) the schema of the stored state."""
        self._ask(agents.release(self._keys, self._owner, reason=NEWER_CODE))
        self._slot.note(Phase.HANDED_OVER, signal_type)
        return WorkerExit.HANDED_OVER

    def _cannot_go_on(self, error: BadPayload | CorruptKey) -> WorkerExit:
        """No signal is to blame: what is stored cannot be read, or there is nothing yet and ``init`` does not fit."""
        if not isinstance(error, UnreadableState | CorruptKey):
            self._slot.note(Phase.BOOT_FAILED, str(error))
            return WorkerExit.BOOT_FAILED
        if self._base is not None:
            if self._base.schema > self._agent_type.definition.schema:
                return self._hand_over("")
            self._ask(agents.release(self._keys, self._owner, reason=UNREADABLE))
        self._slot.note(Phase.UNREADABLE, str(error))
        return WorkerExit.UNREADABLE

    # Redis.

    @property
    def _loaded(self) -> Loaded:
        assert self._base is not None, "nothing is done before the claim"
        return self._base

    def _begin(self) -> Entries:
        """Claim, and see at once whether the stored state can be read, not only when a signal comes."""
        self._fail.reach("before_claim")
        entries = self._claim()
        loaded = self._loaded
        if not loaded.state and loaded.version and self._order.get("resume") != "fresh":
            raise UnreadableState(f"the state is gone, though the agent is at version {loaded.version}")
        if loaded.state and (not entries or loaded.schema != self._agent_type.definition.schema):
            # Else the first plan, which comes next, reads it.
            self._slot.note(Phase.READING)
            self._agent_type.parse_state(loaded.state, loaded.schema)
            self._slot.note(Phase.STORING)
        return entries

    def _claim(self) -> Entries:
        """Claim, and in the same round trip read what waits: the mailbox begins after the cursor."""
        recycled = self._order.get("recycled", "")
        claim = agents.claim(self._keys, self._limits, self._owner, pid=os.getpid(), recycled=recycled)
        read = stream_command(self._mailbox, "0-0", 2 * self._settings.read_count, None)
        loaded, entries = self._exchange([claim, read])
        self._generation = self._connection.generation
        self._base, self._marked = loaded, loaded.trying_entry
        return [entry for entry in entries if newer(entry[0], loaded.cursor)] if not loaded.rewound else []

    def _reload(self) -> None:
        self._base = base = self._ask(agents.reload(self._keys, self._owner, self._limits))
        self._marked = base.trying_entry
        conflicting, self._conflicting = self._conflicting, None
        if conflicting is not None:
            made_from = conflicting.base_version, conflicting.base_cursor
            self._overtaken = made_from == (base.version, base.cursor)
            if not self._overtaken:
                # Redis went back in time. Go on from what it has now, uncharged.
                log.event(_LOG, "store_went_back", level=logging.WARNING, agent=self._owner.agent)
        self._generation = self._connection.generation

    def _read(self) -> Entries:
        """Wait for signals after the cursor; empty after a while, so that the loop looks up at least once a second."""
        self._fail.reach("before_read")
        if self._loaded.rewound and (postponed := self._read_postponed()):
            return postponed
        self._slot.note(Phase.IDLE)
        try:
            entries = self._connection.read_stream(
                self._mailbox,
                self._loaded.cursor,
                count=2 * self._settings.read_count,
                block_ms=int(self._settings.read_block * 1000),
            )
        except Interrupted:
            self._own.check()
            self._stop.look()
            return []
        except StoreError as error:
            self._own.check_room()
            self._pause(self._watch.failed(error))
            return []
        self._watch.answered()
        if entries:
            if self._overtaken:
                self._overtaken = False
                if not agents.is_careful(self._loaded, entries[-1][0]):
                    self._base = replace(self._loaded, careful_until=entries[-1][0])
            self._fail.reach("after_read")
            self._worked = True
        elif self._worked:
            self._worked = False
            give_memory_back()
        return entries

    def _read_postponed(self) -> Entries:
        """The next ones that a change of mode has us look at again; none: on with what comes after the cursor."""
        loaded = self._loaded
        read = range_command(self._mailbox, loaded.rewound, loaded.cursor, 2 * self._settings.read_count)
        entries: Entries = self._exchange([read])[0]
        if entries:
            self._fail.reach("after_read")
            self._worked = True
        else:
            self._base = replace(loaded, rewound="")
        return entries

    def _send_commit(self, plan: CommitPlan, last: str, rest: Entries, after: Loaded) -> Sent:
        """Send a commit, whose last signal is ``last``; in the same round trip read on after the ``rest`` in hand."""
        try:
            self._own.check()
        except DescriptorsLost:
            # One of these transitions did it. Where it was one of many, the next life tries them one by one.
            if plan.taken == 1:
                self._slot.begin(last)
            raise
        self._slot.note(Phase.STORING)
        self._fail.reach("before_commit")
        commit = agents.commit(self._keys, self._limits, plan.commit)
        read_after = rest[-1][0] if rest else plan.commit.cursor
        read = stream_command(self._mailbox, read_after, self._settings.read_count, None)
        # Postponed signals are read by themselves: they come before the cursor.
        more = len(rest) <= self._settings.read_count and not after.rewound
        return self._connection.send([commit, read] if more else [commit])

    def _receive_commit(self, plan: CommitPlan, sent: Sent, after: Loaded) -> Entries | None:
        """What was read after it; the base is ``after`` now. None: it did not stand, the base is to be loaded anew."""
        self._slot.note(Phase.STORING)
        try:
            reply, *read = self._exchange(sent.items, sent)
        except Conflict:
            # Owner still ours: what the batch was made from is not there any more.
            self._conflicting = plan.commit
            self._generation = -1
            return None
        except DirectiveRefused as error:
            self._refused[error.entry] = (error.reason, error.why)
            self._generation = -1
            return None
        self._refused.clear()
        self._fail.reach("after_commit")
        self._base = after if after.blocked == reply.blocked else replace(after, blocked=reply.blocked)
        found: Entries = read[0] if read else []
        return found

    def _release(self, reason: str) -> WorkerExit:
        self._slot.note(Phase.STORING)
        told = SHUTDOWN if reason == ASKED else reason
        self._ask(agents.release(self._keys, self._owner, reason=told))
        self._slot.note(Phase.RELEASED, reason)
        return WorkerExit.RELEASED

    def _wait_for_room(self) -> None:
        """The outbox is over its bound: take nothing until the relay or the effects have made room."""
        self._slot.note(Phase.IDLE)
        pause = FIRST_LOOK
        while not self._ask(agents.unblocked(self._keys, self._owner)):
            self._pause(pause)
            pause = min(LAST_LOOK, pause * 2)
            if self._stop.requested or self._connection.generation != self._generation:
                return
        self._base = replace(self._loaded, blocked=False)

    def _ask(self, call: Call[T]) -> T:
        answer: T = self._exchange([call])[0]
        return answer

    def _exchange(self, items: Sequence[Call[Any] | Command[Any]], sent: Sent | None = None) -> list[Any]:
        """One round trip, again and again until Redis answers. All that is asked here may be repeated.

        ``sent``: the items are on their way already.

        Raises what the answer refuses; and ``_Left`` when nothing was claimed yet and the node asks to stop.
        """
        while True:
            try:
                first, sent = sent, None
                answers = (
                    self._connection.pipeline(items) if first is None else self._connection.receive(first)
                )
                for answer in answers:
                    if isinstance(answer, RegrowError):
                        raise answer
            except StoreError as error:
                # A damaged key waits for whoever mends it, like a Redis that is away: no signal is to blame. Only a
                # claim that cannot be read says so and ends.
                if isinstance(error, CorruptKey) and self._base is None:
                    raise
                self._own.check_room()
                self._pause(self._watch.failed(error))
                if self._stop.requested and self._base is None:
                    raise _Left from error
            else:
                self._watch.answered()
                return answers

    def _pause(self, seconds: float) -> None:
        """Wait. A request to stop ends the wait at once; after it, what is left to do is tried at a steady pace."""
        if self._stop.requested:
            time.sleep(min(seconds, ASKED_PACE))
        else:
            select.select([self._stop.fileno()], [], [], seconds)
            self._stop.look()
