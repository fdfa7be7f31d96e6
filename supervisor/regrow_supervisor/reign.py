"""One reign: what the leader does from its takeover until it steps down.

1. Load everything, and mend what cannot be right. 2. Look at the beats; lost nodes, lost agents, late starts.
3. Tick what is due. 4. Read ``{ns}:exits``: one entry, one decision, one commit, which deletes the entry.

Every commit is fenced by the reign's token: ``NotLeader`` ends the reign. A commit whose fate is unknown, or that met
a conflict, makes the view doubtful: the caller lets ``load`` read everything again, and the entry, if it is still
there, is decided again. So one death leads to one restart.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from regrow_signals import effect_store
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import BadInput, Conflict, CorruptKey, NotLeader, Refused, StoreError
from regrow_signals.keys import Keys
from regrow_signals.leadership import NodeOrder
from regrow_signals.limits import Limits
from regrow_signals.nodes import ExitReport
from regrow_supervisor.beats import Beats
from regrow_supervisor.commit_plan import Extras
from regrow_supervisor.committer import Committer
from regrow_supervisor.entries import (
    AgentExited,
    AgentStarted,
    Entry,
    Junk,
    NodeChanged,
    RequestMade,
    Run,
    read_entry,
    runs,
)
from regrow_supervisor.events import (
    Batch,
    Event,
    Exited,
    NodeAvailable,
    Started,
    StartFailed,
    Tick,
)
from regrow_supervisor.heap import no_collections
from regrow_supervisor.idle_deletion import IdleDeletion
from regrow_supervisor.inbox import next_due
from regrow_supervisor.leader import Lease
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.life_ends import end_of_life, kill_order, lost_report
from regrow_supervisor.loading import doubts, load_agents, load_nodes, load_schemas, load_view
from regrow_supervisor.requests import BadRequest, agents_of, mentioned_agents, read_request
from regrow_supervisor.schedule_installer import ScheduleInstaller
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.stored_tree import change_tree
from regrow_supervisor.watchdog_settings import WatchdogSettings
from regrow_workers import log
from regrow_workers.stored_child import InitialState

__all__ = ["Reign"]

_LOG = logging.getLogger(__name__)
_NO_ROOM: Final = "no_room"
MANY_AGENTS: Final = 2_000
LOAD_US_AN_AGENT: Final = 500
"""Of reading one, or of taking it from a new tree, generously. A leader that dies meanwhile is missed so much later."""

SPEC_CHARS: Final = 150
"""Of a child in a tree that is handed in, at least."""

REGISTERED_AT_ONCE: Final = 200
"""Agents of a new tree in one step: the server is held for some milliseconds, not longer."""
NO_SCHEMAS: Final[Mapping[str, int]] = {}


class Reign:
    """The leader's work. No wait here but the one in ``take_entries``."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        lease: Lease,
        *,
        limits: Limits,
        settings: WatchdogSettings,
        initial: InitialState,
        clock: Callable[[], float],
        roots: Sequence[str] = (),
        schemas: Mapping[str, int] = NO_SCHEMAS,
    ) -> None:
        self._connection = connection
        self._roots = roots
        self._schemas = schemas
        self._keys = keys
        self._lease = lease
        self._settings = settings
        self._clock = clock
        self._beats = Beats(keys, settings)
        self._poll_at = 0.0
        self._ask_again_at = 0.0
        self._after = "0"
        self.view = LeaderView()
        self._tick_at = 0.0
        self.counts: Counter[str] = Counter()
        self._idle = IdleDeletion(connection, keys, self._commit, every=2 * settings.poll_ms / 1000)
        self._schedules = ScheduleInstaller(connection, keys, lease)
        self._committer = Committer(
            connection, keys, lease, limits=limits, initial=initial, counts=self.counts
        )

    def load(self) -> None:
        """Read everything anew and mend it.

        Who was silent stays so, for Redis answered all the time; where it did not, ``doubt`` was called before.
        """
        self._hold_for(self._connection.command(Command(("ZCARD", self._keys.agents), int)))
        with no_collections():
            self.view = load_view(self._connection, self._keys, self._roots)
        self.view.schemas = self._schemas
        self._after = "0"
        self.poll()
        for path, why in self.view.unreadable.items():
            log.event(_LOG, "supervisor_unreadable", level=logging.ERROR, supervisor=path, reason=why)
        # Which node has room is known to nobody any more: who waits for one asks again.
        for event in (*doubts(self.view), NodeAvailable()):
            try:
                self._commit(event, Extras())
            except (Conflict, CorruptKey) as error:
                log.event(_LOG, "not_mended", level=logging.ERROR, reason=str(error))
            if self._clock() >= self._poll_at:
                self.poll()

    def _hold_for(self, agents: int) -> None:
        """Reading so many takes longer than the lease lasts: it is prolonged first; the next poll cuts it back."""
        if agents > MANY_AGENTS and not self._connection.call(
            self._lease.renew_call(longer_ms=agents * LOAD_US_AN_AGENT // 1000)
        ):
            raise NotLeader("the lease is another's")

    def doubt(self) -> None:
        """The store did not answer, or may be another: everybody gets a full timeout."""
        self._beats.failed()
        self._idle.doubt()

    def note_store_restarted(self, run_id: str) -> None:
        """Tell that Redis came back as another run: what it had not kept is gone."""
        event = {"event": "store_restarted", "detail": run_id}
        self._commit(None, Extras(events=[event], counters={"store_restarts_total": 1}))

    def work(self, block_ms: int | None) -> None:
        """One round: beats when due, ticks when due, then the entries that are there or come within ``block_ms``."""
        if self._clock() >= self._poll_at:
            self.poll()
        due = next_due(self.view.states)
        now_ms = self._beats.store_ms(self._clock())
        if due is not None and due <= now_ms and self._clock() >= self._tick_at:
            self.counts["ticks"] += 1
            if not self._commit(Tick(), Extras()):
                # What is due and yet does nothing must not keep us busy.
                self._tick_at = self._clock() + self._settings.poll_ms / 1000
            due = next_due(self.view.states)
        if self._schedules.pending(self.view, self._clock()):
            self.counts["schedules"] += self._schedules.step(self.view, self._clock())
            if self._schedules.pending(self.view, self._clock()):
                block_ms = None
        if block_ms is not None:
            until_poll = int((self._poll_at - self._clock()) * 1000)
            until_due = block_ms if due is None else due - self._beats.store_ms(self._clock())
            until_tick = int((self._tick_at - self._clock()) * 1000)
            block_ms = min(block_ms, until_poll, max(until_due, until_tick))
            if block_ms < 1:
                block_ms = None
        self._take_entries(block_ms)

    def poll(self) -> None:
        """Renew, look, and carry out the verdicts."""
        now = self._clock()
        late = self._beats.poll(self._connection, self.view, self._lease, now)
        self._poll_at = now + self._settings.poll_ms / 1000
        if late.strangers:
            load_nodes(self._connection, self._keys, self.view, late.strangers)
            if any(node in self.view.nodes for node in late.strangers):
                self._commit(NodeAvailable(), Extras())
        if late.nodes:
            self._lose_nodes(late.nodes)
        self._ask_full_nodes_again(now)
        for agent, incarnation in late.starts:
            self._fail_start(agent, incarnation)
        for agent, incarnation in late.agents:
            self._lose_agent(agent, incarnation)
        self._idle.step(self.view, self._beats.answered_ms, now)

    def _ask_full_nodes_again(self, now: float) -> None:
        """A slot may have come free without an end that was reported to us: one start in a while finds out."""
        full = [node for node, known in self.view.nodes.items() if known.full]
        if not full:
            self._ask_again_at = now + self._settings.node_timeout_ms / 1000
        elif now >= self._ask_again_at:
            self._ask_again_at = now + self._settings.node_timeout_ms / 1000
            for node in full:
                self.view.note_room(node, full=False)
            self._commit(NodeAvailable(), Extras())

    # Entries.

    def _take_entries(self, block_ms: int | None) -> None:
        entries = self._connection.read_stream(
            self._keys.exits, self._after, count=self._settings.entries_at_once, block_ms=block_ms
        )
        for run in runs([(entry, read_entry(fields)) for entry, fields in entries]):
            # Decided run by run: with many waiting the lease must be kept alive between them.
            if self._clock() >= self._poll_at:
                self.poll()
            if len(run) == 1 or not self._take_creates(run):
                for entry, read in run:
                    self._take_entry(entry, read)
            self._after = run[-1][0]
            self.counts["entries"] += len(run)

    def _take_creates(self, run: Run) -> bool:
        """Agents that sends have created come on record in one step; False: nothing was done, take each by itself."""
        made = [read for _, read in run if isinstance(read, RequestMade)]
        unknown = [agent for one in made for agent in mentioned_agents(one) if agent not in self.view.agents]
        if unknown:
            load_agents(self._connection, self._keys, self.view, unknown)
        asked: list[Event] = []
        try:
            for one in made:
                event = read_request(self.view, one).event
                if event is not None:
                    asked.append(event)
            entries = [entry for entry, _ in run]
            self._commit(Batch(events=tuple(asked)), Extras(exits_entry=entries[0], more_entries=entries[1:]))
        except (BadRequest, BadInput, CorruptKey):
            return False  # one of them is not as it should be: it alone is to be refused
        except (StoreError, Refused):
            raise
        except Exception:  # noqa: BLE001  a defect of ours: found again with the entry whose it is
            _LOG.exception("entries_failed")
            self.load()
            return False
        return True

    def _take_entry(self, entry: str, read: Entry) -> None:
        """Decide one entry. Whatever is wrong with one never stops the rest: its death is found by the verdicts."""
        try:
            self._handle(entry, read)
        except CorruptKey as error:
            self._drop(entry, str(error), _internal_answer(read, str(error)))
        except BadInput as error:
            # The application's class refuses the initial data: nothing was decided yet.
            self._drop(entry, str(error), _answer(read, BadRequest("bad_init", str(error))))
        except (StoreError, Refused):
            raise
        except Exception as error:  # noqa: BLE001  a defect of ours must cost this entry, not the watchdog
            _LOG.exception("entry_failed")
            self._drop(
                entry, f"{type(error).__name__}: {error}", _internal_answer(read, "see the watchdog's log")
            )
            self.load()

    def _handle(self, entry: str, read: Entry) -> None:
        match read:
            case AgentStarted():
                self._on_started(entry, read)
            case AgentExited():
                self._on_exited(entry, read)
            case NodeChanged():
                self._on_node(entry, read)
            case RequestMade():
                self._on_request(entry, read)
            case Junk(why, request):
                answer = BadRequest("bad_request", why).json()
                self._drop(entry, why, [(request, answer)] if request else [])

    def _on_started(self, entry: str, read: AgentStarted) -> None:
        found = self.view.child_of(read.agent)
        if found is None:
            kill = kill_order(read.node, read.agent, read.incarnation, "superseded")
            orders = [kill] if self.view.reachable(read.node) else []
            self._commit(None, Extras(exits_entry=entry, orders=orders))
            return
        event = Started(path=found[0], child=read.agent, incarnation=read.incarnation)
        self._commit(event, Extras(exits_entry=entry))

    def _on_exited(self, entry: str, read: AgentExited) -> None:
        found = self.view.child_of(read.agent)
        event: Event | None = None
        if found is not None:
            event = end_of_life(found[0], read)
            known = self.view.agents[read.agent]
            if known.incarnation == read.incarnation:
                known.note_end(read.reason, read.schema)
        full = read.reason == _NO_ROOM
        news = self.view.note_room(read.node, full=full)
        self._commit(event, Extras(exits_entry=entry))
        if news and not full:
            self._commit(NodeAvailable(), Extras())

    def _on_node(self, entry: str, read: NodeChanged) -> None:
        view, node = self.view, read.node
        if read.event == "left":
            self._lose_nodes([node], entry=entry)
            return
        load_nodes(self._connection, self._keys, view, [node])
        joined = read.event == "joined" and node in view.nodes and view.nodes[node].kind == "worker"
        self._commit(NodeAvailable() if joined else None, Extras(exits_entry=entry))

    def _on_request(self, entry: str, read: RequestMade) -> None:
        extras = Extras(exits_entry=entry)
        self._hold_for(len(read.fields.get("definition", "")) // SPEC_CHARS)
        unknown = [agent for agent in mentioned_agents(read) if agent not in self.view.agents]
        if unknown:
            load_agents(self._connection, self._keys, self.view, unknown)
        try:
            asked = read_request(self.view, read)
            if asked.tree is not None:
                change = change_tree(self.view, asked.tree)
                if change.trees != self.view.trees.get(asked.tree.name, ()):
                    extras.trees = {asked.tree.name: change.trees}
                extras.replies = [(read.request, json.dumps({"ok": change.said}))]
                if change.event is not None:
                    self._register_in_parts(asked.tree.name, asked.tree.definition)
                    extras.definitions = [(asked.tree.name, asked.tree.definition)]
                self._commit(change.event, extras, adopted=change.adopted)
                if self._clock() >= self._poll_at:
                    self.poll()
                return
            if asked.drain:
                extras.orders = [NodeOrder(asked.drain, {"order": "drain"})]
                moving = [child.id for _, child, _ in self.view.agents_on(asked.drain)]
                extras.replies = [(read.request, json.dumps({"ok": {"node": asked.drain, "agents": moving}}))]
                self._commit(None, extras)
                self.view.note_draining(asked.drain)
                return
            event = asked.event
            if asked.kill:
                event = self._operators_kill(asked.kill, extras)
                number = self.view.agents[asked.kill].incarnation
                answer = json.dumps({"ok": {"agent": asked.kill, "incarnation": number}})
                extras.replies = [(read.request, answer)]
        except BadRequest as refused:
            extras.replies = [(read.request, refused.json())]
            event = None
        self._commit(event, extras)

    def _register_in_parts(self, name: str, definition: Mapping[str, Any]) -> None:
        """Most agents of a large new tree, before it is carried out; the rest comes with the tree's own step.

        If it is not carried out after all they stay registered, and hurt nobody: nothing starts them.
        """
        new = [each for each in agents_of(definition, name) if each[0] not in self.view.agents]
        for start in range(0, len(new) - REGISTERED_AT_ONCE, REGISTERED_AT_ONCE):
            part = new[start : start + REGISTERED_AT_ONCE]
            definitions = [(path, {"children": [child]}) for _, path, child in part]
            self._commit(None, Extras(definitions=definitions))
            if self._clock() >= self._poll_at:
                self.poll()

    def _operators_kill(self, agent: str, extras: Extras) -> Event | None:
        """An order for its node; a pooled agent's life ends in this very step, and the event says so."""
        found, known = self.view.child_of(agent), self.view.agents.get(agent)
        if found is not None and known is not None and found[1].pooled and found[1].alive:
            extras.lost = [lost_report("", agent, known.incarnation, "operator", "none")]
            return Exited(
                path=found[0], child=agent, incarnation=known.incarnation, reason="operator", charged=False
            )
        if known is None or not self.view.reachable(known.node):
            raise BadRequest("not_running", f"agent {agent} is on no node now")
        extras.orders = [kill_order(known.node, agent, known.incarnation, "operator")]
        return None

    def _drop(self, entry: str, why: str, replies: list[tuple[str, str]]) -> None:
        """Junk: told, answered where somebody waits, removed."""
        log.event(_LOG, "entry_ignored", level=logging.WARNING, entry=entry, reason=why)
        event = {"event": "entry_ignored", "reason": why[:300], "detail": entry}
        self.counts["junk"] += 1
        self._commit(None, Extras(exits_entry=entry, events=[event], replies=replies))

    # Verdicts.

    def _lose_nodes(self, nodes: list[str], *, entry: str = "") -> None:
        """These nodes are gone, by our verdict or by their own word: their agents' lives are over, uncharged.

        Their effects are given back first: done twice it is harmless, left out it would never be made up for.
        """
        for node in nodes:
            self._connection.call(effect_store.abandon(self._keys, node, None))
        lives = [life for node in nodes for life in self.view.agents_on(node)]
        load_schemas(self._connection, self._keys, self.view, [child.id for _, child, _ in lives])
        exits: list[Event] = []
        reports: list[ExitReport] = []
        for path, child, known in lives:
            exits.append(
                Exited(
                    path=path,
                    child=child.id,
                    incarnation=child.incarnation,
                    reason="node_lost",
                    charged=False,
                )
            )
            reports.append(lost_report(known.node, child.id, child.incarnation, "node_lost", "kill"))
        for node in nodes:
            self.view.drop_node(node)
            if not entry:
                log.event(_LOG, "node_lost", level=logging.WARNING, node=node)
        self.counts["lost_nodes"] += 0 if entry else len(nodes)
        event = Batch(events=tuple(exits)) if exits else None
        self._commit(event, Extras(exits_entry=entry, lost=reports, lost_nodes=nodes))
        if any(known.left_for for known in self.view.agents.values()):
            # Whoever waits for room on a node that knows more than others may wait for nobody by now.
            self._commit(NodeAvailable(), Extras())

    def _fail_start(self, agent: str, incarnation: int) -> None:
        found, known = self.view.child_of(agent), self.view.agents.get(agent)
        if found is None or known is None or found[1].incarnation != incarnation:
            return
        self.counts["late_starts"] += 1
        event = StartFailed(path=found[0], child=agent, incarnation=incarnation, reason="start_timeout")
        extras = Extras(lost=[lost_report(known.node, agent, incarnation, "start_timeout", "none")])
        if self.view.reachable(known.node):
            extras.orders = [kill_order(known.node, agent, incarnation, "start_timeout")]
        self._commit(event, extras)

    def _lose_agent(self, agent: str, incarnation: int) -> None:
        """It does not beat though its node does: nobody will ever report its end."""
        found, known = self.view.child_of(agent), self.view.agents.get(agent)
        if found is None or known is None or found[1].incarnation != incarnation:
            return
        self.counts["lost_agents"] += 1
        log.event(_LOG, "agent_lost", level=logging.WARNING, agent=agent, incarnation=incarnation)
        load_schemas(self._connection, self._keys, self.view, [agent])
        event = Exited(path=found[0], child=agent, incarnation=incarnation, reason="lost", charged=False)
        extras = Extras(lost=[lost_report(known.node, agent, incarnation, "lost", "none")])
        if self.view.reachable(known.node):
            extras.orders = [kill_order(known.node, agent, incarnation, "superseded")]
        self._commit(event, extras)

    # The step.

    def _commit(
        self, event: Event | None, extras: Extras, *, adopted: Mapping[str, SupervisorState] | None = None
    ) -> bool:
        now_ms = self._beats.store_ms(self._clock())
        return self._committer.commit(self.view, event, extras, now_ms, adopted=adopted)


def _internal_answer(read: Entry, why: str) -> list[tuple[str, str]]:
    return _answer(read, BadRequest("failed", f"the request could not be carried out: {why}"))


def _answer(read: Entry, refused: BadRequest) -> list[tuple[str, str]]:
    """To whoever waits for one."""
    return [(read.request, refused.json())] if isinstance(read, RequestMade) else []
