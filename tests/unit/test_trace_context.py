"""W3C trace context goes from a signal to what it causes.

Which texts are a ``traceparent`` is taken from the W3C recommendation (w3.org/TR/trace-context-2, section 3.2) and from
the cases of its own test suite (github.com/w3c/trace-context, test/test.py).
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from regrow import Agent, Ask, Context, Emit, Forward, Reply, Signal, State, Step, Supervisor, handles
from regrow.testing import Harness
from regrow_workers.trace_context import caused_trace

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-(0[0-3])")


def caused(**given: str) -> tuple[tuple[str, ...], str | None]:
    fields = caused_trace(given, "birth:1-1", "birth:1-1:0")
    found = FORM.fullmatch(fields["traceparent"])
    assert found is not None, fields
    return found.groups(), fields.get("tracestate")


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"00-{TRACE}-{SPAN}-01", "01"),
        (f"00-{TRACE}-{SPAN}-03", "03"),
        (f"00-{TRACE}-{SPAN}-ff", "03"),  # flags that 00 does not know are not handed on
        (f"cc-{TRACE}-{SPAN}-01", "01"),  # a later version is read as far as 00 goes
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", "01"),
    ],
)
def test_the_trace_goes_on_with_a_span_of_its_own_and_the_sampled_flag(given: str, flags: str) -> None:
    (trace, span, kept), state = caused(traceparent=given, tracestate="congo=t61rcWkgMzE")

    assert (trace, kept, state) == (TRACE, flags, "congo=t61rcWkgMzE")
    assert span != SPAN


@pytest.mark.parametrize(
    "given",
    [
        "", "junk", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01.",
        f"ff-{TRACE}-{SPAN}-01", f"0-{TRACE}-{SPAN}-01", f"000-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}x-{SPAN}-01", f"00-{TRACE[:-1]}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-be-like", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-0g",
        f" 00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01\n",
    ],
)  # fmt: skip
def test_where_there_is_no_trace_the_cause_is_the_root_of_one(given: str) -> None:
    (trace, _, flags), state = caused(traceparent=given, tracestate="congo=t61rcWkgMzE")

    assert trace not in {TRACE, "0" * 32} and (flags, state) == ("00", None)
    assert caused()[0] == (trace, caused()[0][1], "00")


def test_ids_are_the_same_when_a_signal_is_applied_again_and_differ_from_emit_to_emit() -> None:
    first = caused_trace({}, "birth:1-1", "birth:1-1:0")

    assert caused_trace({}, "birth:1-1", "birth:1-1:0") == first
    other = caused_trace({}, "birth:1-1", "birth:1-1:1")
    assert other["traceparent"][:36] == first["traceparent"][:36] and other != first
    assert caused_trace({}, "birth:1-2", "birth:1-2:0")["traceparent"][:36] != first["traceparent"][:36]


class Seen(State):
    traces: tuple[str, ...] = ()


class Walker(Agent[Seen], name="walker"):
    @handles("go")
    def go(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        return self.note(seen, signal), [Emit("seen", to="end"), Ask("asked", to="end", tag="t")]

    @handles("hand.on")
    def hand_on(self, seen: Seen, signal: Signal) -> Step[Seen]:
        return self.note(seen, signal), [] if signal.hops else [Forward(to="end")]

    @handles("**")
    def end(self, seen: Seen, signal: Signal, ctx: Context) -> Step[Seen]:
        return self.note(seen, signal), Reply(None, to=ctx.reply_to)

    def note(self, seen: Seen, signal: Signal) -> Seen:
        line = f"{signal.id} {signal.causationid} {signal.traceparent} {signal.tracestate}"
        return seen.evolve(traces=(*seen.traces, line))


def test_jido_24_an_emit_has_the_trace_of_its_cause_a_span_of_its_own_and_the_causes_id() -> None:
    tree = Harness(Supervisor("t", [Walker.child("start"), Walker.child("end")]))
    tree.client.send("start", "go", id="t-1", traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="a=b")
    tree.run()

    emitted, asked = [line.split(" ") for line in tree.state("end", Walker).traces]
    _, replied = [line.split(" ") for line in tree.state("start", Walker).traces]
    for ident, cause, trace, state in (emitted, asked, replied):
        found: Any = FORM.fullmatch(trace)
        assert found[1] == TRACE and found[3] == "01" and state == "a=b"
        assert ident != cause
    assert emitted[1] == asked[1] == "t-1" and replied[1] == asked[0]
    spans = {SPAN, *(line[2].split("-")[2] for line in (emitted, asked, replied))}
    assert len(spans) == 4


def test_jido_24_without_a_trace_a_root_is_made_and_goes_on() -> None:
    tree = Harness(Supervisor("t", [Walker.child("start"), Walker.child("end")]))
    tree.client.send("start", "go", id="t-1")
    tree.run()

    emitted, asked = [line.split(" ")[2] for line in tree.state("end", Walker).traces]
    replied = tree.state("start", Walker).traces[1].split(" ")[2]
    assert tree.state("start", Walker).traces[0].split(" ")[2] == "None"
    assert emitted[:36] == asked[:36] == replied[:36] and len({emitted, asked, replied}) == 3


def test_a_forwarded_signal_goes_on_in_its_trace() -> None:
    tree = Harness(Supervisor("t", [Walker.child("start"), Walker.child("end")]))
    tree.client.send("start", "hand.on", id="t-1", traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="a=b")
    tree.client.send("start", "hand.on", id="t-2", traceparent="junk", tracestate="a=b")
    tree.run()

    first, second = [line.split(" ") for line in tree.state("end", Walker).traces]
    assert first[2].startswith(f"00-{TRACE}-") and SPAN not in first[2] and first[3] == "a=b"
    assert FORM.fullmatch(second[2]) and second[3] == "None"
