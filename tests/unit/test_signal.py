"""Signals and payloads, without Redis."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from regrow_signals.errors import (
    BadDefinition,
    BadId,
    BadInput,
    BadPayload,
    BadTypeName,
    NotStrictJSON,
    TooLarge,
)
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal


class TicketOpened(Payload, type="ticket.opened"):
    subject: str
    weight: float = 1.0


class Tagged(TicketOpened):
    tag: str = ""


class Untyped(Payload):
    x: int = 0


def test_payload_class_carries_its_signal_type() -> None:
    assert TicketOpened.signal_type == "ticket.opened"
    assert Tagged.signal_type == "ticket.opened"
    assert "signal_type" not in TicketOpened.model_fields


def test_payload_with_a_bad_type_name_is_refused_at_its_definition() -> None:
    with pytest.raises(BadTypeName, match="type of Wrong"):

        class Wrong(Payload, type="ticket opened"):  # pyright: ignore[reportUnusedClass]
            pass


def test_payload_is_frozen_and_takes_no_unknown_field() -> None:
    ticket = TicketOpened(subject="x")
    with pytest.raises(ValidationError):
        ticket.subject = "y"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        TicketOpened(subject="x", subjekt="y")  # type: ignore[call-arg]


def test_payload_round_trips_through_a_signal() -> None:
    signal = Signal.of(TicketOpened(subject="printer on fire ü\0"), id="t-17", subject="desk")

    assert (signal.type, signal.id, signal.subject, signal.source) == (
        "ticket.opened",
        "t-17",
        "desk",
        "regrow:client",
    )
    assert TicketOpened.parse(signal.data) == TicketOpened(subject="printer on fire ü\0")
    assert Signal.from_fields(signal.to_fields()) == signal


def test_data_that_does_not_fit_is_told_in_a_line_without_the_data() -> None:
    with pytest.raises(BadPayload) as caught:
        TicketOpened.parse('{"subject": {"secret": "hunter2"}, "more": 1}')
    assert "TicketOpened: subject: " in str(caught.value)
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ['{"subject":"x","weight":1e400}', '{"subject":"\\ud800"}', "{", '{"subject":1}', "null"]
)
def test_data_that_is_not_strict_json_is_a_bad_payload(text: str) -> None:
    with pytest.raises(BadPayload):
        TicketOpened.parse(text)


@pytest.mark.parametrize(
    ("what", "data", "error"),
    [
        ("ticket opened", {}, BadTypeName),
        ("a.b", math.nan, NotStrictJSON),
        ("a.b", {1: 2}, NotStrictJSON),
        ("a.b", "x" * 300_000, TooLarge),
        (TicketOpened(subject="\ud800"), None, NotStrictJSON),
        (TicketOpened(subject="x"), {"y": 1}, BadInput),
        (Untyped(), None, BadDefinition),
    ],
)
def test_what_is_wrong_with_a_signal_is_found_when_it_is_made(
    what: Any, data: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Signal.of(what, data)


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"id": "a b"}, BadId),
        ({"subject": ""}, BadInput),
        ({"subject": 5}, BadInput),
        ({"source": ""}, BadInput),
        ({"subject": "x" * 2000}, TooLarge),
        ({"traceparent": "\ud800"}, NotStrictJSON),
        ({"hops": 65}, TooLarge),
        ({"hops": -1}, TooLarge),
    ],
)
def test_attributes_are_checked(attributes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Signal.of("a.b", None, **attributes)


def test_limits_given_are_the_ones_applied() -> None:
    with pytest.raises(TooLarge, match="5 is the bound"):
        Signal.of("a.b", "xxxxxxxx", limits=Limits(max_signal_bytes=5))


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"id": "x", "type": "a.b"}, {"id": "", "type": "a.b", "data": "1"},
        {"id": "x", "type": "a", "data": b"\xff"}, {"id": b"\xff", "type": "a", "data": "1"},
        {"id": "x", "type": "a", "data": "1", "hops": "many"},
    ],
)  # fmt: skip
def test_entry_that_nobody_of_ours_wrote_is_bad_input(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Signal.from_fields(fields)


def test_unknown_fields_of_an_entry_are_left_aside() -> None:
    signal = Signal.from_fields(
        {"id": "x", "type": "a.b", "source": "s", "data": "[1]", "at_ms": "5", "colour": b"\xff"}
    )
    assert signal == Signal(id="x", type="a.b", source="s", data="[1]")
    assert signal.value == [1]


def test_digest_is_of_the_content_not_of_id_time_or_order_of_keys() -> None:
    one = Signal.of("a.b", {"x": 1, "y": 2}, id="1", time="2026-01-01T00:00:00Z", traceparent="t")
    two = Signal.of("a.b", {"y": 2, "x": 1}, id="2")
    assert one.content_digest() == two.content_digest()
    assert one.content_digest() != Signal.of("a.b", {"x": 1, "y": 3}).content_digest()
    assert one.content_digest() != Signal.of("a.c", {"x": 1, "y": 2}).content_digest()


def test_ids_made_for_a_signal_differ() -> None:
    assert Signal.of("a.b").id != Signal.of("a.b").id


class Reading(BaseModel):
    value: Any


class Measured(Payload, type="measured"):
    reading: Reading


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_number_that_json_has_no_word_for_is_refused_in_a_nested_model_too(number: float) -> None:
    with pytest.raises(NotStrictJSON, match="measured"):
        Signal.of(Measured(reading=Reading(value=[number])))
