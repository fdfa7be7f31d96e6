"""The planner: a batch of entries becomes one commit; whatever goes wrong stays with the signal it went wrong at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from regrow_signals.agents import Loaded
from regrow_signals.commits import Commit, Owner, newer
from regrow_signals.errors import BadInput, BadPayload, Reject, UnreadableState
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent import Agent
from regrow_workers.batch import CommitPlan, Ends, Entry, plan
from regrow_workers.context import Context
from regrow_workers.directives import Directive, EffectRun, Emit, Stop
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step
from regrow_workers.trace_context import caused_trace
from regrow_workers.upcasts import upcast

BIRTH = "b" * 32


class Do(Payload, type="do"):
    what: str
    n: int = 1


class Anything(Payload, type="anything"):
    value: Any


class Unwritable(Payload, type="unwritable"):
    n: int = 1


class Log(State, schema=2):
    total: int = 0
    seen: list[str] = Field(default_factory=list[str])
    pad: str = ""

    @upcast(1)
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        old["total"] = old.pop("sum")
        return old


class Unknown(Directive):
    pass


class Recorder(Agent[Log], name="recorder"):
    @handles(Do)
    def do(self, log: Log, do: Do, ctx: Context) -> Step[Log]:
        match do.what:
            case "add":
                return log.evolve(total=log.total + do.n, seen=[*log.seen, ctx.signal.id])
            case "nothing":
                return None
            case "emit":
                return (
                    log.evolve(total=log.total + 1),
                    Emit(Do(what="add"), to="other"),
                    Emit("x.y", {"n": 1}, to="b"),
                )
            case "many":
                return [Emit("x", do.what, to="b")] * do.n
            case "pad":
                return log.evolve(pad="x" * do.n)
            case "bulk":
                return [Emit("x", "y" * 1_000, to="b")] * do.n
            case "effect":
                return EffectRun(
                    "charge", {"cents": do.n}, timeout_ms=5, retries=2, idempotent=False, backoff_ms=7
                )
            case "stop":
                return log.evolve(total=log.total + 1), Stop("shutdown:done"), Emit("bye", to="b")
            case "reject":
                log.seen.append("mutated")
                raise Reject("no")
            case "mutate":
                log.seen.append("mutated")
                return None
            case "crash":
                log.seen.append("mutated")
                raise KeyError("boom")
            case "unknown":
                return Unknown()
            case "bad_emit":
                return log.evolve(total=99), Emit("x", float("nan"), to="b")
            case "fat_emit":
                return log.evolve(total=99), Emit("x", "y" * 300_000, to="b")
            case "times":
                return log.evolve(seen=[ctx.now.isoformat(), str(ctx.random.random()), str(ctx.uuid())])
            case _:
                raise AssertionError(do.what)

    @handles("look.*")
    def look(self, log: Log, signal: Signal) -> Step[Log]:
        return log.evolve(seen=[*log.seen, signal.type])


class Patient(Recorder, name="patient", on_error="dead_letter"):
    pass


OWNER = Owner("rec-1", 3, "token", "node-1")
LIMITS = Limits()
LOADED = Loaded(
    agent="rec-1",
    type="recorder",
    birth=BIRTH,
    state='{"total":5,"seen":[],"pad":""}',
    schema=2,
    version=40,
    cursor="1000-0",
    careful_until="",
    trying_entry="",
    trying_attempts=0,
    trying_kills=0,
    condemned="",
    init="",
    max_attempts=2,
    max_kills=10,
    blocked=False,
    supervisor="root",
)


def entry(number: int, what: str = "add", n: int = 1, **more: str) -> Entry:
    fields = Signal.of(Do(what=what, n=n), id=f"s-{number}").to_fields()
    return f"2000-{number}", {**fields, "at_ms": "2000", **more}


def raw(number: int, **fields: str | bytes) -> Entry:
    return f"2000-{number}", fields


def still() -> float:
    return 0.0


def planned(
    *entries: Entry,
    loaded: Loaded = LOADED,
    limits: Limits = LIMITS,
    agent_type: type[Agent[Any]] = Recorder,
    clock: Callable[[], float] = still,
    **settings: Any,
) -> CommitPlan:
    return plan(agent_type, loaded, entries, limits, clock, owner=OWNER, **settings)


def state_of(found: CommitPlan) -> dict[str, Any]:
    assert found.commit.state is not None
    state: dict[str, Any] = json.loads(found.commit.state)
    return state


def test_a_batch_is_applied_in_order_as_one_commit() -> None:
    found = planned(*[entry(n, n=n) for n in range(1, 4)])

    commit = found.commit
    assert state_of(found) == {"total": 11, "seen": ["s-1", "s-2", "s-3"], "pad": ""}
    assert (commit.base_version, commit.base_cursor, commit.version, commit.cursor) == (
        40,
        "1000-0",
        43,
        "2000-3",
    )
    assert (commit.handled, commit.failed, commit.dead, commit.last_error) == (3, 0, [], None)
    assert (commit.owner, commit.agent_type, commit.birth, commit.schema) == (OWNER, "recorder", BIRTH, 2)
    assert (found.taken, found.ends) == (3, None)


def test_what_comes_after_is_what_was_committed() -> None:
    found = planned(entry(1), entry(2))

    after = replace(LOADED, state=found.commit.state or "", version=42, cursor="2000-2", own_text=True)
    assert found.after == after


def test_two_batches_give_the_same_state_as_one() -> None:
    entries = [entry(n, n=n) for n in range(1, 7)]
    first = planned(*entries[:3])

    second = planned(*entries[3:], loaded=first.after)

    whole = planned(*entries)
    assert second.commit.state == whole.commit.state
    assert (second.commit.version, second.commit.cursor) == (whole.commit.version, whole.commit.cursor)


def test_no_entries_is_a_programming_error() -> None:
    with pytest.raises(BadInput, match="no entries"):
        planned()


def test_a_new_agent_begins_with_its_init() -> None:
    found = planned(entry(1, n=2), loaded=replace(LOADED, state="", schema=0, init='{"total": 100}'))

    assert state_of(found)["total"] == 102
    assert found.after.schema == 2


def test_the_first_commit_writes_the_state_even_if_nothing_changed() -> None:
    found = planned(entry(1, "nothing"), loaded=replace(LOADED, state="", init=""))

    assert state_of(found) == {"total": 0, "seen": [], "pad": ""}


def test_unchanged_writes_no_state() -> None:
    found = planned(entry(1, "nothing"))

    assert found.commit.state is None
    assert (found.commit.version, found.commit.handled) == (41, 1)
    assert found.after.state == LOADED.state


def test_fields_that_the_code_does_not_know_are_kept() -> None:
    loaded = replace(LOADED, state='{"total":5,"seen":[],"pad":"","colour":"red"}')

    assert state_of(planned(entry(1), loaded=loaded))["colour"] == "red"


@pytest.mark.parametrize(
    "stored", ['{"total":5}', '{ "total": 5, "seen": [] }', '{"seen":[],"total":5,"pad":""}']
)
def test_a_text_that_other_code_wrote_is_no_change_by_the_handler(stored: str) -> None:
    loaded = replace(LOADED, state=stored)

    found = planned(entry(1), loaded=loaded, check_every=1)

    assert (state_of(found)["total"], found.commit.dead) == (6, [])
    untouched = planned(entry(1, "nothing"), loaded=loaded, check_every=1)
    assert untouched.commit.state == LOADED.state


def test_a_newer_schema_is_left_alone() -> None:
    with pytest.raises(UnreadableState, match="schema 7, newer than this code"):
        planned(entry(1), loaded=replace(LOADED, schema=7))


@pytest.mark.parametrize("what", ["add", "nothing", "reject"])
def test_an_earlier_schema_is_led_here_and_written_with_the_first_commit(what: str) -> None:
    old = replace(LOADED, schema=1, state='{"sum":5,"seen":[],"pad":""}')

    found = planned(entry(1, what), loaded=old)

    assert state_of(found)["total"] == (6 if what == "add" else 5)
    assert (found.commit.schema, found.after.schema) == (2, 2)
    assert found.after.state == found.commit.state
    assert planned(entry(2, "nothing"), loaded=found.after).commit.state is None


@pytest.mark.parametrize("state", ["junk", "[]", '{"total":"x"}', '{"total":NaN}'])
def test_a_stored_state_that_does_not_fit_is_an_error_not_a_reset(state: str) -> None:
    with pytest.raises(UnreadableState, match="stored state does not fit Log"):
        planned(entry(1), loaded=replace(LOADED, state=state))


@pytest.mark.parametrize("init", ["[]", '{"opne": 1}'])
def test_an_init_that_does_not_fit_is_an_error(init: str) -> None:
    with pytest.raises(BadPayload):
        planned(entry(1), loaded=replace(LOADED, state="", init=init))


# Directives.


def _span(signal_id: str) -> str:
    return caused_trace({}, "", signal_id)["traceparent"].split("-")[2]


def test_emits_carry_ids_cause_trace_and_hops() -> None:
    found = planned(
        entry(7, "emit", hops="2", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    )

    first, second = found.commit.emits
    assert (first.target, second.target) == ("other", "b")
    assert dict(first.fields) == {
        "id": f"{BIRTH}:2000-7:0",
        "type": "do",
        "source": "rec-1",
        "data": '{"what":"add","n":1}',
        "traceparent": f"00-0af7651916cd43dd8448eb211c80319c-{_span(f'{BIRTH}:2000-7:0')}-01",
        "causationid": "s-7",
        "hops": "3",
    }
    assert (second.fields["id"], second.fields["data"]) == (f"{BIRTH}:2000-7:1", '{"n":1}')
    assert found.commit.counters["emits_total|type=recorder"] == 2


def test_subject_and_schema_of_an_emit_are_sent() -> None:
    class Forwarder(Agent[Log], name="forwarder"):
        @handles(Do)
        def do(self, log: Log, do: Do) -> Step[Log]:
            return Emit(Signal.of("x", 1, subject="s", dataschema="urn:d"), to="b")

    fields = planned(entry(1), agent_type=Forwarder).commit.emits[0].fields

    assert (fields["subject"], fields["dataschema"], fields["data"], fields["source"]) == (
        "s",
        "urn:d",
        "1",
        "rec-1",
    )


@pytest.mark.parametrize(
    ("hops", "sent"), [("", "65"), ("x", "65"), ("-1", "65"), ("\u0663", "65"), ("9" * 9, "65"), ("63", "64")]
)
def test_junk_in_hops_counts_as_the_most(hops: str, sent: str) -> None:
    assert planned(entry(1, "emit", hops=hops)).commit.emits[0].fields["hops"] == sent


def test_ids_are_the_same_when_a_signal_is_applied_again() -> None:
    alone = planned(entry(5, "emit"), loaded=replace(LOADED, version=7))
    among_others = planned(entry(4), entry(5, "emit"))

    assert [e.fields["id"] for e in alone.commit.emits] == [e.fields["id"] for e in among_others.commit.emits]


def test_effects_carry_their_settings() -> None:
    (effect,) = planned(entry(2, "effect", n=9)).commit.effects

    assert (effect.effect_id, effect.name, effect.args) == (f"{BIRTH}:2000-2:0", "charge", '{"cents":9}')
    assert (effect.timeout_ms, effect.retries, effect.idempotent, effect.backoff_ms) == (5, 2, False, 7)


def test_stop_ends_the_batch_and_what_came_with_it_is_committed() -> None:
    found = planned(entry(1), entry(2, "stop"), entry(3))

    assert found.ends == Ends("stop", "shutdown:done")
    assert (found.taken, found.commit.cursor, found.commit.version) == (2, "2000-2", 42)
    assert [emit.fields["type"] for emit in found.commit.emits] == ["bye"]


# The journal.


def test_the_journal_tells_each_transition_and_holds_the_state_at_the_last() -> None:
    entries = [entry(1), entry(2, "emit"), entry(3, "reject"), entry(4, "nothing")]
    found = planned(*entries)

    journal = found.commit.journal
    assert [(j.entry, j.signal_id, j.type, j.at_ms, j.version, j.outcome) for j in journal] == [
        ("2000-1", "s-1", "do", 2000, 41, "applied"),
        ("2000-2", "s-2", "do", 2000, 42, "applied"),
        ("2000-3", "s-3", "do", 2000, 42, "rejected"),
        ("2000-4", "s-4", "do", 2000, 43, "unchanged"),
    ]
    assert [j.data for j in journal] == [fields["data"] for _, fields in entries]
    assert [j.state for j in journal] == ["", "", "", found.commit.state]
    assert json.loads(journal[1].directives) == [{"emit": "do", "to": "other"}, {"emit": "x.y", "to": "b"}]
    assert journal[0].directives == "[]"
    assert journal[0].digest != journal[1].digest == journal[2].digest == journal[3].digest


def test_effects_and_stops_stand_in_the_journal() -> None:
    assert json.loads(planned(entry(1, "effect")).commit.journal[0].directives) == [{"effect": "charge"}]
    assert json.loads(planned(entry(1, "stop")).commit.journal[0].directives)[0] == {"stop": "shutdown:done"}


# What goes wrong.


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry(2, "reject"), "rejected"),
        (raw(2, id="s-2", type="unheard.of", data="1"), "unhandled"),
        (raw(2, id="s-2", type="do", data='{"n":"x"}'), "bad_data"),
        (raw(2, id="s-2", type="do", data="{"), "bad_data"),
        (raw(2, id="s-2", type="do", data='"\\ud800"'), "bad_data"),
        (raw(2, id="s-2", type="do", data="\ud800"), "bad_data"),
        (raw(2, id="s-2", type="do", data='{"what":"add","n":1e400}'), "bad_data"),
        (raw(2, id="s-2", type="do", data="[" * 100_000), "bad_data"),
        (raw(2, id="s-2", type="do", data=""), "bad_data"),
        (raw(2, id="s-2", type="look.x", data="NaN"), "bad_data"),
        (raw(2, id="s-2", type="look.x", data='"\\ud800"'), "bad_data"),
        (raw(2, id="s-2", type="look.x", data="1", subject=b"\xff"), "bad_data"),
        (raw(2, id="s-2", type="look.x", data="1", hops="many"), "bad_data"),
        (raw(2, id="s-2", type="look.a b", data="1"), "bad_data"),
        (entry(2, "bad_emit"), "not_strict_json"),
        (entry(2, "fat_emit"), "signal_too_large"),
        (entry(2, "many", n=1_001), "too_many_directives"),
        (entry(2, "pad", n=2 << 20), "state_too_large"),
        (raw(2), "malformed"),
        (raw(2, type="do", data="1"), "malformed"),
        (raw(2, id="s-2", data="1"), "malformed"),
        (raw(2, id="s-2", type="do"), "malformed"),
        (raw(2, id=b"\xff\xfe", type="do", data="1"), "malformed"),
        (raw(2, id="s-2", type=b"\xe9", data="1"), "malformed"),
        (raw(2, id="s-2", type="do", data=b"\xff\xfe"), "malformed"),
        (raw(2, id="", type="do", data="1"), "malformed"),
        (raw(2, id="s-2", type="", data="1"), "malformed"),
        (raw(2, id="ü", type="do", data="1"), "malformed"),
        (raw(2, id="x" * 600, type="do", data="1"), "malformed"),
        (raw(2, id="s-2", type="x" * 600, data="1"), "malformed"),
        (raw(2, payload=b"\x80\x04\x95", other="x"), "malformed"),
    ],
    ids=str,
)
def test_a_bad_signal_becomes_a_dead_letter_and_the_others_are_applied(bad: Entry, reason: str) -> None:
    found = planned(entry(1), bad, entry(3))

    assert state_of(found) == {"total": 7, "seen": ["s-1", "s-3"], "pad": ""}
    (letter,) = found.commit.dead
    assert (letter.entry, letter.reason, letter.fields) == ("2000-2", reason, bad[1])
    assert letter.error and "\n" not in letter.error and letter.error.isprintable()
    assert (found.commit.handled, found.commit.failed, found.commit.version) == (2, 1, 42)
    assert (found.taken, found.commit.cursor, found.ends) == (3, "2000-3", None)
    assert found.commit.emits == [] and found.commit.last_error is None


def test_only_dead_letters_leave_version_and_state() -> None:
    found = planned(raw(1), entry(2, "reject"))

    assert (found.commit.version, found.commit.cursor, found.commit.state) == (40, "2000-2", None)
    assert found.after == replace(LOADED, cursor="2000-2", own_text=True)


def test_rejections_are_counted() -> None:
    assert (
        planned(entry(1, "reject"), entry(2, "reject")).commit.counters[
            "signals_rejected_total|type=recorder"
        ]
        == 2
    )


def test_an_exception_ends_the_batch_with_its_signal_dead_in_the_same_commit() -> None:
    found = planned(entry(1), entry(2, "crash"), entry(3))

    assert found.ends is not None
    assert (found.ends.kind, found.ends.reason) == ("crash", "exception:KeyError: 'boom'")
    assert (found.taken, found.commit.cursor, found.commit.version) == (2, "2000-2", 41)
    (letter,) = found.commit.dead
    assert (letter.entry, letter.reason, letter.attempts) == ("2000-2", "exception", 1)
    assert found.commit.last_error == letter.error == found.ends.error
    assert "boom" in letter.error
    assert state_of(found)["seen"] == ["s-1"]


def test_on_error_dead_letter_spares_the_restart() -> None:
    found = planned(entry(1), entry(2, "crash"), entry(3), agent_type=Patient)

    assert found.ends is None
    assert [letter.reason for letter in found.commit.dead] == ["exception"]
    assert state_of(found)["seen"] == ["s-1", "s-3"]
    assert found.commit.last_error is not None


def test_an_unknown_directive_is_the_handlers_crash() -> None:
    found = planned(entry(1, "unknown"))

    assert found.ends is not None and "Unknown is no directive" in found.ends.reason
    assert found.commit.state is None


@pytest.mark.parametrize("what", ["reject", "mutate"])
def test_a_mutated_state_is_never_what_the_batch_goes_on_from(what: str) -> None:
    found = planned(entry(1), entry(2, what), entry(3))

    assert state_of(found)["seen"] == ["s-1", "s-3"]


def test_a_mutated_state_after_a_lone_reject_leaves_the_stored_bytes() -> None:
    found = planned(entry(1, "reject"))

    assert found.commit.state is None
    assert found.after.state == LOADED.state


@pytest.mark.parametrize(("every", "crashes"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_changed_input_is_found_when_it_is_looked_for(every: int, crashes: bool) -> None:
    found = (
        planned(entry(1), entry(2), entry(3, "mutate"), check_every=every)
        if every != 3
        else planned(entry(1), entry(2, "mutate"), check_every=every)
    )

    assert (found.ends is not None) is crashes
    if found.ends is not None:
        assert "Recorder.do() changed seen in the state it was given" in found.ends.reason


def test_a_commit_that_could_never_fit_is_refused_whole() -> None:
    found = planned(entry(1, "bulk", n=100), entry(2), limits=Limits(commit_bytes=50_000))

    (letter,) = found.commit.dead
    assert (letter.reason, found.commit.emits) == ("commit_too_large", [])
    assert "a commit holds 50,000" in letter.error
    assert state_of(found)["seen"] == ["s-2"]


# Bounds.


def ticking(step: float) -> Callable[[], float]:
    times: Iterator[int] = iter(range(10**9))
    return lambda: next(times) * step


def test_a_batch_ends_after_its_number_of_signals() -> None:
    assert planned(*[entry(n) for n in range(1, 151)]).taken == 100
    assert planned(*[entry(n) for n in range(1, 9)], max_signals=3).taken == 3


@pytest.mark.parametrize(("step", "taken"), [(0.0, 20), (0.001, 10), (0.004, 3), (0.02, 1)])
def test_a_batch_ends_after_its_time(step: float, taken: int) -> None:
    assert planned(*[entry(n) for n in range(1, 21)], clock=ticking(step)).taken == taken


def test_a_batch_ends_before_the_signal_that_would_go_over_the_appends() -> None:
    found = planned(
        entry(1, "many", n=6), entry(2, "many", n=4), entry(3, "emit"), limits=Limits(commit_appends=10)
    )

    assert (found.taken, len(found.commit.emits), found.ends) == (2, 10, None)
    assert found.commit.cursor == "2000-2"


def test_dead_letters_count_among_the_appends() -> None:
    entries = [raw(n) for n in range(1, 31)]

    assert planned(*entries, limits=Limits(commit_appends=10)).taken == 10


def test_a_batch_ends_before_the_signal_that_would_go_over_the_bytes() -> None:
    found = planned(
        entry(1, "bulk", n=10), entry(2, "bulk", n=10), entry(3), limits=Limits(commit_bytes=20_000)
    )

    assert (found.taken, len(found.commit.emits)) == (1, 10)


def test_the_size_of_the_state_counts_among_the_bytes() -> None:
    found = planned(
        entry(1), entry(2, "pad", n=7_000), entry(3, "bulk", n=10), limits=Limits(commit_bytes=20_000)
    )

    assert found.taken == 2


def test_a_large_dead_letter_goes_alone() -> None:
    big = raw(2, junk="x" * 10_000)

    assert planned(entry(1), big, limits=Limits(commit_bytes=5_000)).taken == 1
    assert planned(big, entry(3), limits=Limits(commit_bytes=5_000)).taken == 1


def test_the_hook_is_called_before_each_handler_with_the_entry() -> None:
    begun: list[str] = []

    planned(entry(1), raw(2), entry(3, "crash"), entry(4), before=begun.append)

    assert begun == ["2000-1", "2000-2", "2000-3"]


# Attempts.


def test_a_careful_agent_takes_signals_one_by_one_until_the_bound() -> None:
    loaded = replace(LOADED, careful_until="2000-2")
    entries = [entry(n) for n in range(1, 5)]

    first = planned(*entries, loaded=loaded)
    second = planned(*entries[1:], loaded=first.after)
    third = planned(*entries[2:], loaded=second.after)

    assert (first.taken, second.taken, third.taken) == (1, 1, 2)
    assert (first.after.careful_until, second.after.careful_until) == ("2000-2", "")


@pytest.mark.parametrize(
    ("condemned", "reason", "attempts"), [("attempts", "max_attempts", 3), ("kills", "max_kills", 3)]
)
def test_a_condemned_signal_is_a_dead_letter_unseen_by_its_handler(
    condemned: Any, reason: str, attempts: int
) -> None:
    loaded = replace(
        LOADED,
        condemned=condemned,
        trying_entry="2000-1",
        trying_attempts=2,
        trying_kills=1,
        careful_until="2000-9",
    )
    begun = planned(entry(1, "crash"), entry(2), loaded=loaded)

    (letter,) = begun.commit.dead
    assert (letter.entry, letter.reason, letter.attempts) == ("2000-1", reason, attempts)
    assert begun.ends is None and "with this signal in hand" in letter.error
    assert begun.commit.last_error == letter.error
    assert (begun.after.condemned, begun.after.trying_entry, begun.after.trying_attempts) == ("", "", 0)
    assert begun.after.careful_until == "2000-9"
    assert state_of(planned(entry(2), loaded=begun.after))["seen"] == ["s-2"]


def test_what_was_tried_is_remembered_until_the_cursor_has_passed_it() -> None:
    loaded = replace(LOADED, trying_entry="2000-2", trying_attempts=1, careful_until="2000-2")

    first = planned(entry(1), entry(2), loaded=loaded)
    second = planned(entry(2, "crash"), loaded=first.after)

    assert (first.after.trying_entry, first.after.trying_attempts) == ("2000-2", 1)
    assert second.after.trying_entry == ""
    assert second.commit.dead[0].attempts == 2


# Newer code.


def test_a_signal_without_handler_is_left_to_newer_code() -> None:
    unheard = raw(2, id="s-2", type="unheard.of", data="1")

    found = planned(entry(1), unheard, entry(3), nowhere=("other",))

    assert found.ends is not None
    assert (found.ends.kind, found.ends.reason) == ("hand_over", "unheard.of")
    assert (found.taken, found.commit.cursor, found.commit.dead) == (1, "2000-1", [])
    assert planned(unheard, nowhere=()).taken == 0


@pytest.mark.parametrize("nowhere", [None, ("unheard.of",)])
def test_a_signal_that_nobody_handles_is_a_dead_letter(nowhere: Any) -> None:
    unheard = raw(2, id="s-2", type="unheard.of", data="1")

    found = planned(entry(1), unheard, entry(3), nowhere=nowhere)

    assert (found.taken, found.ends) == (3, None)
    assert [letter.reason for letter in found.commit.dead] == ["unhandled"]


# Time.


def test_transition_times_are_counted_in_buckets() -> None:
    found = planned(entry(1), entry(2), entry(3, "reject"), clock=ticking(0.002))

    assert found.commit.counters == {
        "transition_seconds_bucket|type=recorder|le=0.005": 3,
        "transition_seconds_sum_us|type=recorder": 6_000,
        "transition_seconds_count|type=recorder": 3,
        "signals_rejected_total|type=recorder": 1,
    }


def test_a_very_slow_transition_falls_into_the_last_bucket() -> None:
    counters = planned(entry(1), clock=ticking(60.0)).commit.counters

    assert counters["transition_seconds_bucket|type=recorder|le=+Inf"] == 1


def test_time_and_chance_come_from_the_entry_and_the_birth() -> None:
    def seen(number: int, birth: str = BIRTH, **more: str) -> list[str]:
        found = planned(
            entry(number, "times", 1, **more), loaded=replace(LOADED, birth=birth, version=number)
        )
        seen: list[str] = state_of(found)["seen"]
        return seen

    assert seen(1) == seen(1)
    assert seen(1)[0] == "1970-01-01T00:00:02+00:00"
    assert seen(1)[1:] != seen(2)[1:]
    assert seen(1)[1:] != seen(1, birth="c" * 32)[1:]


@pytest.mark.parametrize("at_ms", ["", "junk", "-5", "9" * 30])
def test_without_a_readable_time_the_entrys_id_tells_it(at_ms: str) -> None:
    found = planned(entry(1, "times", at_ms=at_ms))

    assert state_of(found)["seen"][0] == "1970-01-01T00:00:02+00:00"
    assert found.commit.journal[0].at_ms == 2000


# Any mixture.

KINDS = ["add", "nothing", "emit", "reject", "mutate", "bad_emit", "stop", "crash", "effect"]


@given(st.lists(st.sampled_from([*KINDS, "junk"]), min_size=1, max_size=30), st.integers(1, 12))
def test_every_signal_is_applied_once_or_dead_in_order_however_it_is_cut(kinds: list[str], size: int) -> None:
    entries = [raw(n, junk=b"\xff") if kind == "junk" else entry(n, kind) for n, kind in enumerate(kinds, 1)]

    commits = list(all_commits(entries, size))

    dead = [letter.entry for commit in commits for letter in commit.dead]
    journal = [j for commit in commits for j in commit.journal]
    applied = [j.entry for j in journal if j.outcome in ("applied", "unchanged")]
    assert sorted([*dead, *applied], key=place) == [each for each, _ in entries]
    assert applied == sorted(applied, key=place)
    assert sum(commit.handled for commit in commits) == len(applied) == commits[-1].version - LOADED.version
    assert commits[-1].cursor == entries[-1][0]
    last: Mapping[str, Any] = json.loads(next((c.state for c in reversed(commits) if c.state), LOADED.state))
    assert last["seen"] == [f"s-{n}" for n, kind in enumerate(kinds, 1) if kind == "add"]


def place(name: str) -> int:
    return int(name.partition("-")[2])


def all_commits(entries: list[Entry], size: int) -> Iterator[Commit]:
    """As the worker does: commit by commit, going on from what was committed, also after an end."""
    loaded, left = LOADED, entries
    while left:
        found = planned(*left[:size], loaded=loaded)
        assert newer(found.commit.cursor, loaded.cursor)
        yield found.commit
        loaded, left = found.after, left[found.taken :]
