"""The planner: entries of a mailbox and the last committed state give one commit. Pure: the worker reads and writes.

A batch ends after ``max_signals`` signals or ``max_seconds`` of work, at the commit's bounds, after a transition that
stops or crashes, and, while the agent is to be careful, after each signal. Every signal taken is applied once or is a
dead letter with its reason, in the same commit; the version rises by one for each applied one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, cast

from regrow_signals.agents import Loaded, is_careful
from regrow_signals.commits import (
    Commit,
    DeadAppend,
    DirectiveAppend,
    EffectAppend,
    EmitAppend,
    JournalAppend,
    Owner,
    newer,
)
from regrow_signals.errors import BadInput, BadPayload, NotStrictJSON, UnreadableState
from regrow_signals.families import ParentAppend
from regrow_signals.limits import Limits
from regrow_signals.notices import NOTICE, bound_by
from regrow_signals.strict_json import loads
from regrow_workers.agent import Agent
from regrow_workers.asking_appends import death_notice
from regrow_workers.dead_reasons import condemned_reason, failure_of, is_signal, what_is_wrong
from regrow_workers.delivery import Addressee, Delivery
from regrow_workers.directive_appends import NOTHING, Appends
from regrow_workers.journal_lines import digest_of, kept_signal
from regrow_workers.laid_step import laid_step
from regrow_workers.outcomes import Crashed, NewState, Outcome, Rejected, Unchanged, UnhandledType
from regrow_workers.purity import GuardMode
from regrow_workers.state import State, encode_state, parse_state
from regrow_workers.transition import mode_of, take
from regrow_workers.transition_times import TransitionTimes

__all__ = ["Batch", "CommitPlan", "Ends", "Entry", "plan"]

Entry = tuple[str, Mapping[str, str | bytes]]

_NOTHING_REFUSED: Final[Mapping[str, tuple[str, str]]] = {}


@dataclass(frozen=True, slots=True)
class Ends:
    """Why the incarnation ends after this commit.

    ``stop``: a returned ``Stop``, ``reason`` is its own. ``crash``: ``reason`` is the exception in one line, ``error``
    the traceback. ``hand_over``: the next signal, of type ``reason``, has no handler here, and may have one elsewhere.
    """

    kind: Literal["stop", "crash", "hand_over"]
    reason: str
    error: str = ""


@dataclass(slots=True)
class CommitPlan:
    """``taken`` entries are dealt with by ``commit``; once it has landed the worker goes on from ``after``.

    ``taken`` is 0 only before a ``hand_over``: then there is nothing to commit. Nobody changes one; it is not frozen
    because that takes three times as long to make, for every batch.
    """

    commit: Commit
    taken: int
    ends: Ends | None
    before: Loaded
    parent: str
    """The agent's after the commit."""

    @property
    def after(self) -> Loaded:
        """Made when asked for: a slot, which lets the agent go, never does."""
        return _after(self.before, self.commit, self.parent)


def plan(
    agent_type: type[Agent[Any]],
    loaded: Loaded,
    entries: Sequence[Entry],
    limits: Limits,
    clock: Callable[[], float],
    *,
    owner: Owner,
    before: Callable[[str], object] | None = None,
    max_signals: int = 100,
    max_seconds: float = 0.010,
    check_every: int = 0,
    nowhere: Container[str] | None = None,
    refused: Mapping[str, tuple[str, str]] = _NOTHING_REFUSED,
) -> CommitPlan:
    """The commit of the first entries. ``entries`` are not empty and come after ``loaded.cursor``, or, where
    ``loaded.rewound`` says so, are the postponed ones after that.

    ``clock`` gives monotonic seconds; ``before`` is called with each entry's id before its handler. ``check_every`` n
    looks at every n-th version whether the handler changed its input (0: never). Of the types without a handler
    those in ``nowhere`` are dead letters (None: all are); before any other the batch ends with ``hand_over``, for
    whoever asks whether another node has one. ``refused`` are entries of which a commit was refused for a directive,
    with reason and why: dead letters. Raises ``UnreadableState`` if the agent's class cannot read the stored state,
    ``BadPayload`` if there is none and the agent's ``init`` does not fit.
    """
    if not entries:
        raise BadInput(f"{loaded.agent}: there is nothing to plan: no entries")
    batch = _kind_of_batch(agent_type, loaded)(agent_type, loaded, limits, owner, refused)
    if loaded.careful_until and is_careful(loaded, entries[0][0]):
        max_signals = 1
    take, add_time = batch.take, batch.times.add
    start = now = clock()
    for entry, fields in entries[:max_signals]:
        if before is not None:
            before(entry)
        if not take(entry, fields, check_every > 0 and batch.version % check_every == 0, nowhere):
            break
        later = clock()
        add_time(later - now)
        now = later
        if batch.ends is not None or now - start >= max_seconds:
            break
    return batch.planned()


def _kind_of_batch(agent_type: type[Agent[Any]], loaded: Loaded) -> type[Batch]:
    modes = agent_type.definition.modes
    if not (loaded.postponed or loaded.rewound) and (modes is None or not modes.postponing):
        return Batch
    from regrow_workers.postponing_batch import (
        PostponingBatch,  # it is built on this module; few types need it
    )

    return PostponingBatch


class Batch:
    """What the commit will hold so far."""

    __slots__ = (
        "addressee", "cursor", "dead", "definition", "digest", "effects", "emits", "encoded", "ends", "guard", "held",
        "journal", "known_dead", "last_error", "limits", "loaded", "new_state", "others", "owner", "refused",
        "rejected", "size", "state", "taken", "times", "version",
    )  # fmt: skip

    def __init__(
        self,
        agent_type: type[Agent[Any]],
        loaded: Loaded,
        limits: Limits,
        owner: Owner,
        refused: Mapping[str, tuple[str, str]],
    ) -> None:
        self.definition = agent_type.definition
        self.loaded = loaded
        self.limits = limits if loaded.max_state is None else _with_max_state(limits, loaded.max_state)
        self.guard: GuardMode = mode_of(self.definition, cast("GuardMode", loaded.guard))
        self.owner = owner
        self.refused = refused
        self.known_dead = bool(refused or loaded.condemned)
        """Some of the entries may be dead letters before anything is run."""
        self.addressee = Addressee(loaded.agent, loaded.birth, loaded.supervisor, loaded.parent)
        self.state, self.encoded = _current(agent_type, loaded)
        self.digest = digest_of(self.encoded)
        self.version = loaded.version
        self.cursor = loaded.cursor
        # An initial state, and one that other code wrote otherwise, is written with the first commit.
        self.new_state = self.encoded != loaded.state
        self.emits: list[EmitAppend] = []
        self.effects: list[EffectAppend] = []
        self.others: list[DirectiveAppend] = []
        self.held = 0
        """How many appends: emits, effects, others by their weight, dead letters."""
        self.dead: list[DeadAppend] = []
        self.journal: list[JournalAppend] = []
        self.rejected = 0
        self.taken = 0
        self.size = 0
        self.last_error: str | None = None
        self.ends: Ends | None = None
        self.times = TransitionTimes()

    def take(
        self,
        entry: str,
        fields: Mapping[str, str | bytes],
        checked: bool,
        nowhere: Container[str] | None,
    ) -> bool:
        """Deal with one entry. False: it does not go into this commit any more."""
        bound = bound_by(fields) if NOTICE in fields else None
        if bound is None:
            return self._take(entry, fields, checked, nowhere)
        before, self.addressee = self.addressee, self.addressee._replace(parent=bound.parent)
        if self._take(entry, fields, checked, nowhere):
            self.others.append(ParentAppend(*bound))
            return True
        self.addressee = before
        return False

    def _take(
        self,
        entry: str,
        fields: Mapping[str, str | bytes],
        checked: bool,
        nowhere: Container[str] | None,
    ) -> bool:
        if not is_signal(fields):
            return self._discard(entry, fields, "malformed", what_is_wrong(fields))
        delivery = Delivery(self.addressee, entry, fields)
        if self.known_dead:
            found = self._known_reason(entry)
            if found is not None:
                notice = death_notice(delivery, *found, self.limits)
                return self._discard(entry, fields, *found, notice)
        before = self.encoded if checked else None
        outcome = take(self.definition, self.state, delivery, self.limits, before=before, mode=self.guard)
        if type(outcome) is UnhandledType and nowhere is not None and delivery.type not in nowhere:
            self.ends = Ends("hand_over", delivery.type, outcome.why)
            return False
        outcome, appends = laid_step(outcome, delivery, self.limits)
        return self._write(outcome, appends, delivery)

    def _known_reason(self, entry: str) -> tuple[str, str] | None:
        """Why this entry is not to be run: too many died with it in hand, or the store refused what came of it."""
        if self.loaded.condemned and entry == self.loaded.trying_entry:
            found = condemned_reason(self.loaded)
            self.last_error = found[1]
            return found
        return self.refused.get(entry)

    def planned(self) -> CommitPlan:
        """The commit, with the whole state beside its last transition."""
        if self.journal:
            self.journal[-1] = self.journal[-1]._replace(state=self.encoded)
        schema = self.definition.schema
        commit = Commit(
            owner=self.owner,
            base_version=self.loaded.version,
            base_cursor=self.loaded.cursor,
            version=self.version,
            cursor=self.cursor,
            state=self.encoded if self.new_state else None,
            schema=schema,
            emits=self.emits,
            effects=self.effects,
            others=self.others,
            dead=self.dead,
            journal=self.journal,
            handled=self.version - self.loaded.version,
            failed=len(self.dead),
            counters=self._counters(),
            last_error=self.last_error,
            agent_type=self.definition.name,
            birth=self.loaded.birth,
            max_state=self.loaded.max_state,
        )
        return CommitPlan(commit, self.taken, self.ends, self.loaded, self.addressee.parent)

    def _write(self, outcome: Outcome, appends: Appends, delivery: Delivery) -> bool:
        """Into the commit, or False where it has no room left and something is in it already."""
        new = outcome if type(outcome) is NewState else None
        if new is None and type(outcome) is not Unchanged:
            return self._fail(outcome, appends, delivery)
        count = 0 if appends is NOTHING else appends.weight()
        encoded = self.encoded if new is None else new.encoded
        if self.taken and not self._has_room(count, appends.size, len(encoded)):
            return False
        if new is not None:
            self.state, self.encoded, self.new_state = new.state, encoded, True
            self.digest = digest_of(encoded)
            word = "applied"
        else:
            # The handler had the object in its hands: go on from what is stored, not from what it left.
            self.state = self._stored()
            word = "unchanged"
        self.version += 1
        self.taken += 1
        if count:
            self.emits += appends.emits
            self.effects += appends.effects
            self.others += appends.others
            self.held += count
        self.size += appends.size
        self._note(delivery, appends, word)
        if appends.stop is not None:
            self.ends = Ends("stop", appends.stop.reason)
        return True

    def _fail(self, outcome: Outcome, alerts: Appends, delivery: Delivery) -> bool:
        """A dead letter; the state is the last encoded one, whatever the handler did to the object."""
        failure = failure_of(outcome)
        assert failure is not None, "what is not applied is a failure"
        reason, error = failure
        notice = [*death_notice(delivery, reason, error, self.limits), *alerts.emits]
        if not self._bury(delivery.entry, reason, error, delivery.fields, ran=1, notice=notice):
            return False
        if alerts.others:
            self.others += alerts.others
            self.held += sum(other.weight for other in alerts.others)
        self.state = self._stored()
        self._note(delivery, NOTHING, reason)
        if type(outcome) is Rejected:
            self.rejected += 1
        elif type(outcome) is Crashed:
            self.last_error = error
            if self.definition.on_error == "crash":
                self.ends = Ends("crash", outcome.reason, error)
        return True

    def _discard(
        self,
        entry: str,
        fields: Mapping[str, str | bytes],
        reason: str,
        error: str,
        notice: Sequence[EmitAppend] = (),
    ) -> bool:
        """A dead letter without a transition: kept byte for byte, the state not looked at."""
        if not self._bury(entry, reason, error, fields, ran=0, notice=notice):
            return False
        self.cursor = entry
        return True

    def _bury(
        self,
        entry: str,
        reason: str,
        error: str,
        fields: Mapping[str, str | bytes],
        *,
        ran: int,
        notice: Sequence[EmitAppend],
    ) -> bool:
        size = sum(len(name) + len(value) for name, value in fields.items()) + len(error) * (1 + len(notice))
        if self.taken and not self._has_room(1 + len(notice), size, len(self.encoded)):
            return False
        tried = (
            self.loaded.trying_attempts + self.loaded.trying_kills if entry == self.loaded.trying_entry else 0
        )
        self.dead.append(DeadAppend(entry, reason, error, tried + ran, fields))
        self.emits += notice
        self.held += 1 + len(notice)
        self.size += size
        self.taken += 1
        return True

    def _has_room(self, count: int, size: int, state: int) -> bool:
        """Not asked for what comes first: it is within them by itself, or a dead letter that must go somewhere."""
        limits = self.limits
        return (
            self.held + count <= limits.commit_appends and self.size + size + 2 * state <= limits.commit_bytes
        )

    def _note(self, delivery: Delivery, appends: Appends, outcome: str) -> None:
        data, more = kept_signal(delivery)
        self.journal.append(
            JournalAppend(
                delivery.entry,
                self.version,
                appends.journal,
                self.digest,
                outcome,
                delivery.id,
                delivery.type,
                delivery.at_ms,
                delivery.source,
                data,
                "",
                more,
            )
        )
        self.size += len(data)
        if more:
            self.size += sum(map(len, more))
        self.cursor = delivery.entry

    def _stored(self) -> State:
        return parse_state(self.definition.state_type, self.encoded)

    def _counters(self) -> dict[str, int]:
        """Besides those that the commit's script counts itself."""
        name = self.definition.name
        counters = self.times.counters(name)
        if self.rejected:
            counters[f"signals_rejected_total|type={name}"] = self.rejected
        if self.emits:
            counters[f"emits_total|type={name}"] = len(self.emits)
        return counters


def _after(loaded: Loaded, commit: Commit, parent: str) -> Loaded:
    """The agent once the commit has landed, as a claim would read it."""
    tried = bool(loaded.trying_entry) and not newer(loaded.trying_entry, commit.cursor)
    careful = bool(loaded.careful_until) and newer(loaded.careful_until, commit.cursor)
    postpone = commit.postpone
    if postpone is not None:
        loaded = replace(loaded, postponed=postpone.left, rewound=postpone.rewound)
        careful = bool(postpone.careful) if postpone.back else careful
    return replace(
        loaded,
        state=loaded.state if commit.state is None else commit.state,
        schema=loaded.schema if commit.state is None else commit.schema,
        own_text=True,
        version=commit.version,
        cursor=commit.cursor,
        parent=parent,
        careful_until=loaded.careful_until if careful else "",
        trying_entry="" if tried else loaded.trying_entry,
        trying_attempts=0 if tried else loaded.trying_attempts,
        trying_kills=0 if tried else loaded.trying_kills,
        condemned="" if tried else loaded.condemned,
    )


@lru_cache(maxsize=64)
def _with_max_state(limits: Limits, max_state: int) -> Limits:
    return replace(limits, max_state_bytes=max_state)


def _current(agent_type: type[Agent[Any]], loaded: Loaded) -> tuple[State, str]:
    """The state to go on from and its JSON as this code writes it: the stored one, else the initial one."""
    if loaded.state:
        state = agent_type.parse_state(loaded.state, loaded.schema)
        return state, loaded.state if loaded.own_text else _rewritten(state)
    init: object = loads(loaded.init, what="init") if loaded.init else {}
    if not isinstance(init, dict):
        raise BadPayload(f"{loaded.agent}: its init is no JSON object")
    state = agent_type.initial_state(cast("dict[str, Any]", init))
    return state, encode_state(state)


def _rewritten(state: State) -> str:
    """The text that other code has stored, or a person: a field may be missing that has a default by now."""
    try:
        return encode_state(state)
    except NotStrictJSON as error:
        raise UnreadableState(f"stored state cannot be written again: {error}") from None
