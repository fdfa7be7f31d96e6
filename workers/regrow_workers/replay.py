"""A journal run again with the code of today: what each transition comes to, and whether it came to the same. Pure.

The journal has the signal of each transition, a digest of the state after it, and the whole state at the last one of
each commit. So a replay begins at a whole state (or at the agent's beginning, while the journal reaches there), and
goes on from each one that it meets: what differs in one commit spoils no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from regrow_signals.errors import BadPayload, NotStrictJSON, UnreadableState
from regrow_signals.limits import Limits
from regrow_signals.notices import NOTICE, parent_after
from regrow_signals.strict_json import loads
from regrow_workers.agent import Agent
from regrow_workers.dead_reasons import failure_of
from regrow_workers.delivery import Addressee, Delivery
from regrow_workers.journal_lines import digest_of, entry_of
from regrow_workers.laid_step import laid_step
from regrow_workers.outcomes import NewState
from regrow_workers.state import State, encode_state
from regrow_workers.transition import mode_of, take

__all__ = ["ReplayStep", "Replayed", "replay"]

Line = Mapping[str, str]
Difference = Literal["outcome", "state", "directives"]

_APPLIED: Final = frozenset({"applied", "unchanged"})


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One line of the journal. ``before`` and ``after`` are states as JSON; None where they are not known.

    ``outcome`` is the recorded one, ``again`` what it came to now: ``applied``, ``unchanged`` or the reason of a dead
    letter; None where it was not run again, and ``why`` says why not. ``differs`` names what came out otherwise.
    """

    version: int
    signal_id: str
    type: str
    at_ms: int
    outcome: str
    again: str | None
    before: str | None
    after: str | None
    directives: Sequence[Mapping[str, Any]]
    differs: tuple[Difference, ...] = ()
    why: str = ""
    error: str = ""

    def changes(self) -> dict[str, tuple[object, object]]:
        """Top-level fields of the state that are not as they were: old and new value, None where there is none."""
        if self.before is None or self.after is None or self.before == self.after:
            return {}
        old, new = (cast("dict[str, Any]", json.loads(text)) for text in (self.before, self.after))
        return {
            name: (old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)
        }


@dataclass(frozen=True, slots=True)
class Replayed:
    """All steps in order."""

    steps: Sequence[ReplayStep]

    @property
    def differs_at(self) -> int | None:
        """The version of the first transition that came out otherwise; None where all came out the same."""
        return next((step.version for step in self.steps if step.differs), None)

    @property
    def rerun(self) -> int:
        """How many were run again."""
        return sum(step.again is not None for step in self.steps)


def replay(
    agent_type: type[Agent[Any]],
    record: Line,
    lines: Sequence[Line],
    *,
    agent: str,
    first: int = 0,
    last: int | None = None,
    limits: Limits = Limits(),  # noqa: B008  frozen
) -> Replayed:
    """Run the journal's ``lines``, the oldest first, again; steps of versions ``first`` to ``last``.

    ``record`` is the agent's hash: its birth (which seeds ``ctx.random`` and ids), supervisor, parent and ``init``.
    """
    addressee = Addressee(
        agent, record.get("birth", ""), record.get("supervisor", ""), record.get("parent", "")
    )
    runner = _Runner(agent_type, addressee, limits, record.get("init", ""))
    schemas = _schemas(lines, agent_type.definition.schema)
    alike = _alike(lines, schemas, agent_type)
    if lines and _version(lines[0]) == int(lines[0].get("outcome") in _APPLIED):
        runner.begin_anew()
    steps: list[ReplayStep] = []
    for line, schema, comparable in zip(lines, schemas, alike, strict=True):
        version = _version(line)
        if last is not None and version > last:
            break
        step = runner.step(line, schema, comparable)
        if version >= first:
            steps.append(step)
    return Replayed(steps)


class _Runner:
    """The state that the next line is run on; None while none is known, with the reason."""

    def __init__(self, agent_type: type[Agent[Any]], addressee: Addressee, limits: Limits, init: str) -> None:
        self._type = agent_type
        self._definition = agent_type.definition
        self._addressee = addressee
        self._limits = limits
        self._state: State | None = None
        self._encoded = ""
        self._version: int | None = None
        self._why = "the journal does not reach back to a whole state before it"
        self._initial = self._first_state(init)

    def begin_anew(self) -> None:
        """Go on from the state that the agent began with."""
        if self._initial is not None:
            self._state, self._encoded = self._initial

    def step(self, line: Line, schema: int, comparable: bool) -> ReplayStep:
        """Run one line, and go on from the whole state that it holds, if it holds one."""
        step = self._run(line, schema, comparable)
        if "state" in line:
            self._read(line["state"], schema)
        return step

    def _run(self, line: Line, schema: int, comparable: bool) -> ReplayStep:
        fields = entry_of(line)
        before = _version(line) - int(line.get("outcome") in _APPLIED)
        if self._version is not None and before != self._version:
            self._state, self._why = None, "what was before it is not in the journal"
        self._version = _version(line)
        again = None
        if fields is not None and self._state is not None:
            again = self._tried(line, fields, schema, comparable, (self._state, self._encoded))
        elif fields is not None and self._initial is not None:
            # A life that begins anew (`resume="fresh"`) leaves a version out. Only what comes out the same is believed.
            anew = self._tried(line, fields, schema, comparable, self._initial)
            again = None if anew.differs else anew
        if again is None:
            return self._left_out(line, fields)
        self._read(str(again.after), self._definition.schema)
        return again

    def _left_out(self, line: Line, fields: Line | None) -> ReplayStep:
        why, before = self._why, self._encoded if self._state is not None else None
        if fields is None:
            why = "its signal is not in the journal: it was too large, or is of an earlier release"
        if self._state is not None and line.get("digest") != digest_of(self._encoded):
            self._state, self._why = None, "a transition before it could not be run again"
        known = self._state is not None or line.get("outcome") not in _APPLIED
        return _step(
            line, None, before, before if known else line.get("state"), line.get("directives", "[]"), why=why
        )

    def _tried(
        self, line: Line, fields: Line, schema: int, comparable: bool, start: tuple[State, str]
    ) -> ReplayStep:
        if NOTICE in fields and (parent := parent_after(fields)) is not None:
            self._addressee = self._addressee._replace(parent=parent)
        state, encoded = start
        delivery = Delivery(self._addressee, line.get("entry", "0-0"), fields)
        outcome, appends = laid_step(
            take(
                self._definition,
                state,
                delivery,
                self._limits,
                before=encoded,
                mode=mode_of(self._definition),
            ),
            delivery,
            self._limits,
        )
        failure = failure_of(outcome)
        after = outcome.encoded if type(outcome) is NewState else encoded
        word = failure[0] if failure else "applied" if type(outcome) is NewState else "unchanged"
        directives = "[]" if failure else appends.journal
        differs: list[Difference] = []
        if word != line.get("outcome"):
            differs.append("outcome")
        # A digest of what other code wrote says nothing of what this one writes; a whole state can be read. One of an
        # earlier schema tells what its steps make of it, not what this code would have come to.
        if comparable:
            same = digest_of(after) == line.get("digest")
        else:
            read = schema == self._definition.schema and "state" in line
            same = not read or after == _rewritten(self._type, line["state"], schema)
        if not same:
            differs.append("state")
        if loads(directives) != loads(line.get("directives", "[]")):
            differs.append("directives")
        error = failure[1] if failure else ""
        return _step(line, word, encoded, after, directives, differs=tuple(differs), error=error)

    def _read(self, text: str, schema: int) -> None:
        try:
            state: State = self._type.parse_state(text, schema)
            self._state, self._encoded = state, encode_state(state)
        except (UnreadableState, NotStrictJSON) as error:
            self._state, self._why = None, f"the state before it cannot be read: {error}"

    def _first_state(self, init: str) -> tuple[State, str] | None:
        try:
            given: Any = loads(init, what="init") if init else {}
            state = self._type.initial_state(given)
            return state, encode_state(state)
        except (BadPayload, NotStrictJSON, TypeError, ValueError):
            return None


def _step(
    line: Line, again: str | None, before: str | None, after: str | None, directives: str, **more: Any
) -> ReplayStep:
    at_ms = line.get("at_ms", "")
    return ReplayStep(
        version=_version(line),
        signal_id=line.get("signal", ""),
        type=line.get("type", ""),
        at_ms=int(at_ms) if at_ms.isdecimal() else 0,
        outcome=line.get("outcome", ""),
        again=again,
        before=before,
        after=after,
        directives=loads(directives),
        **more,
    )


def _schemas(lines: Sequence[Line], now: int) -> list[int]:
    """The schema that each line's state was stored in: a commit says it beside its whole state."""
    found: list[int] = []
    schema = now
    for line in reversed(lines):
        if "state" in line:
            told = line.get("schema", "")
            schema = int(told) if told.isdecimal() else now
        found.append(schema)
    return found[::-1]


def _alike(lines: Sequence[Line], schemas: Sequence[int], agent_type: type[Agent[Any]]) -> list[bool]:
    """Whether today's code writes each line's state as it was written then: not after a field was added, say."""
    found: list[bool] = []
    alike = True
    for line, schema in zip(reversed(lines), reversed(schemas), strict=True):
        if "state" in line:
            alike = _rewritten(agent_type, line["state"], schema) == line["state"]
        found.append(alike)
    return found[::-1]


def _rewritten(agent_type: type[Agent[Any]], text: str, schema: int) -> str | None:
    """A stored state as today's code writes it; None if it cannot read it."""
    try:
        return encode_state(agent_type.parse_state(text, schema))
    except (UnreadableState, NotStrictJSON):
        return None


def _version(line: Line) -> int:
    text = line.get("version", "")
    return int(text) if text.isdecimal() else 0
