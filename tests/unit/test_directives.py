"""Directives are values: equal when they ask for the same, refused when they could not be carried out."""

from __future__ import annotations

from typing import Any

import pytest

from regrow_signals.errors import BadId, BadInput, BadTypeName, NotStrictJSON, TooLarge
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_workers.directives import EffectRun, Emit, Stop


class Due(Payload, type="invoice.due"):
    subject: str
    amount: float = 0.0


class Untyped(Payload):
    pass


class Anything(Payload, type="anything"):
    value: Any


LIMITS = Limits(max_signal_bytes=100)


def test_equal_when_they_say_the_same() -> None:
    by_payload = Emit(Due(subject="x"), to="billing")

    assert by_payload == Emit(Due(subject="x"), to="billing")
    assert by_payload == Emit("invoice.due", {"subject": "x", "amount": 0.0}, to="billing")
    assert by_payload == Emit(Signal.of(Due(subject="x"), id="any"), to="billing")
    assert hash(by_payload) == hash(Emit("invoice.due", {"subject": "x", "amount": 0.0}, to="billing"))


@pytest.mark.parametrize(
    "other",
    [
        Emit(Due(subject="y"), to="billing"),
        Emit(Due(subject="x"), to="support"),
        Emit(Due(subject="x"), to="billing", subject="s"),
        Emit("invoice.paid", {"subject": "x", "amount": 0.0}, to="billing"),
        Stop(),
        None,
    ],
)
def test_different_when_anything_differs(other: object) -> None:
    assert Emit(Due(subject="x"), to="billing") != other


def test_the_data_is_plain_json_values() -> None:
    assert Emit(Due(subject="x"), to="b").data == {"subject": "x", "amount": 0.0}
    assert Emit("a", to="b").data is None
    assert Emit("a", (1, 2), to="b").data == [1, 2]


def test_a_signal_gives_type_data_subject_and_schema() -> None:
    emit = Emit(Signal.of("a", 1, subject="s", dataschema="urn:x"), to="b")

    assert (emit.type, emit.data, emit.subject, emit.dataschema) == ("a", 1, "s", "urn:x")
    assert Emit(Signal.of("a", subject="s"), to="b", subject="t").subject == "t"


def test_repr_shows_what_is_sent() -> None:
    assert repr(Emit("a", {"n": 1})) == "Emit('a', {'n': 1})"
    assert repr(Emit("a", {"n": 1}, to="b")) == "Emit('a', {'n': 1}, to='b')"
    assert repr(Emit(Due(subject="x"), to="b")) == "Emit(Due(subject='x', amount=0.0), to='b')"


emit: Any = Emit


@pytest.mark.parametrize(
    ("args", "keywords", "error", "told"),
    [
        (("a",), {"to": "not ok"}, BadId, "Emit: to 'not ok'"),
        (("a",), {"to": "{x}"}, BadId, "Emit: to"),
        (("a b",), {"to": "x"}, BadTypeName, "Emit: type 'a b'"),
        (("ticket.*",), {"to": "x"}, BadTypeName, "Emit: type"),
        ((5,), {"to": "x"}, BadInput, "not a int"),
        ((Untyped(),), {"to": "x"}, BadInput, "Untyped names no signal type"),
        ((Due(subject="x"), {"a": 1}), {"to": "x"}, BadInput, "not both"),
        (("a",), {"to": "x", "subject": ""}, BadInput, "subject must be text"),
        (("a",), {"to": "x", "subject": 5}, BadInput, "subject must be text"),
    ],
)
def test_what_could_not_be_sent_is_refused(
    args: Any, keywords: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        emit(*args, **keywords)


@pytest.mark.parametrize("data", [float("nan"), {"a": object()}, "\ud800", {1: 2}, {"a": {1, 2}}])
def test_data_that_is_not_strict_json_is_found_when_it_is_laid_out(data: Any) -> None:
    with pytest.raises(NotStrictJSON, match="data of a"):
        Emit("a", data, to="x").data_json(LIMITS)


@pytest.mark.parametrize("value", [float("inf"), object(), "\ud800"])
def test_a_payload_that_is_not_strict_json_is_found_as_well(value: Any) -> None:
    with pytest.raises(NotStrictJSON, match="data of anything"):
        Emit(Anything(value=value), to="x").data_json(LIMITS)


def test_data_over_the_bound_is_refused() -> None:
    with pytest.raises(TooLarge, match="100"):
        Emit("a", "x" * 101, to="x").data_json(LIMITS)
    with pytest.raises(TooLarge, match="100"):
        Emit(Due(subject="x" * 101), to="x").data_json(LIMITS)
    with pytest.raises(TooLarge, match="100"):
        EffectRun("charge", {"x": "x" * 101}).args_json(LIMITS)


@pytest.mark.parametrize("reason", ["normal", "shutdown", "shutdown:done for today", "broken"])
def test_stop_takes_any_reason(reason: str) -> None:
    assert Stop(reason).reason == reason


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "x" * 201, 5, None, "\x00", "\ud800"])
def test_stop_refuses_what_is_no_line(reason: Any) -> None:
    with pytest.raises(BadInput, match="Stop: reason"):
        Stop(reason)


def test_effect_runs_are_equal_by_name_and_arguments() -> None:
    assert EffectRun("charge", {"n": 1}, retries=9) == EffectRun("charge", {"n": 1})
    assert EffectRun("charge", {"n": 1}) != EffectRun("charge", {"n": 2})
    assert hash(EffectRun("charge", {"n": 1})) == hash(EffectRun("charge", {"n": 1}, retries=9))
