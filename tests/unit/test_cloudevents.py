"""Signals as CloudEvents 1.0 in structured JSON, both ways.

The events of SPEC are the examples of the specification itself: "JSON Event Format for CloudEvents - Version 1.0.2",
sections 3.2 and 4.3 (github.com/cloudevents/spec, cloudevents/formats/json-format.md). Where that page has the words
"... base64 encoded string ..." in place of Base64, real Base64 stands here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow import Agent, Context, Emit, Forward, Reply, Signal, State, Step, Supervisor, handles
from regrow.testing import Harness
from regrow_signals.errors import BadId, BadInput, BadTypeName, NotStrictJSON, TooLarge
from regrow_signals.limits import Limits

EXTENDED: dict[str, Any] = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
    "comexampleothervalue": 5,
}
JSON_DATA = {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True}
SPEC: dict[str, dict[str, Any]] = {
    "binary": {
        **EXTENDED, "id": "A234-1234-1234", "datacontenttype": "application/vnd.apache.thrift.binary",
        "data_base64": "gAEAAQ==",
    },
    "xml": {
        **EXTENDED, "id": "B234-1234-1234", "unsetextension": None, "datacontenttype": "application/xml",
        "data": '<much wow="xml"/>',
    },
    "json": {
        **EXTENDED, "id": "C234-1234-1234", "subject": None, "datacontenttype": "application/json", "data": JSON_DATA,
    },
    "string": {**EXTENDED, "id": "D234-1234-1234", "subject": None, "data": "I'm just a string"},
    "batched": {
        **EXTENDED, "id": "C234-1234-1234", "type": "com.example.someotherevent", "source": "/mycontext/9",
        "time": "2018-04-05T17:31:05Z", "datacontenttype": "application/json", "data": JSON_DATA,
    },
}  # fmt: skip


def without_nulls(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if value is not None}


@pytest.mark.parametrize("name", SPEC)
def test_the_specifications_own_examples_come_through_a_mailbox_unchanged(name: str) -> None:
    event = SPEC[name]
    signal = Signal.from_cloudevent(json.dumps(event))

    assert Signal.from_fields(signal.to_fields()) == signal
    assert json.loads(Signal.from_fields(signal.to_fields()).to_cloudevent()) == without_nulls(event)


def test_the_examples_attributes_are_a_signals() -> None:
    signal = Signal.from_cloudevent(SPEC["json"])

    assert (signal.id, signal.type, signal.source) == (
        "C234-1234-1234",
        "com.example.someevent",
        "/mycontext",
    )
    assert (signal.time, signal.subject, signal.datacontenttype) == (
        "2018-04-05T17:31:00Z", None, "application/json",
    )  # fmt: skip
    assert signal.value == JSON_DATA
    assert signal.extensions == {"comexampleextension1": "value", "comexampleothervalue": 5}
    assert (Signal.from_cloudevent(SPEC["binary"]).data_base64, signal.data_base64) == (True, False)
    assert Signal.from_cloudevent(SPEC["string"]).value == "I'm just a string"


def test_what_regrow_adds_is_extension_attributes() -> None:
    signal = Signal.of(
        "a.b", {"x": 1}, id="t-1", source="desk", dataschema="urn:x", traceparent="00-1", tracestate="a=b",
        causationid="t-0", replyto="reply:desk#t-1", hops=3, extensions={"flag": True, "ring": -1},
    )  # fmt: skip
    event = json.loads(signal.to_cloudevent())

    assert event == {
        "specversion": "1.0", "id": "t-1", "type": "a.b", "source": "desk", "data": {"x": 1}, "dataschema": "urn:x",
        "traceparent": "00-1", "tracestate": "a=b", "causationid": "t-0", "replyto": "reply:desk#t-1", "hops": 3,
        "flag": True, "ring": -1,
    }  # fmt: skip
    assert Signal.from_cloudevent(signal.to_cloudevent()) == signal


def test_no_data_is_no_member() -> None:
    event = json.loads(Signal.of("a.b", id="1").to_cloudevent())

    assert event == {"specversion": "1.0", "id": "1", "type": "a.b", "source": "regrow:client"}
    assert Signal.from_cloudevent(event).value is None


SMALL = {"specversion": "1.0", "id": "1", "type": "a.b", "source": "s"}


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"specversion": None}, BadInput, "specversion of the event is None"),
        ({"specversion": "0.3"}, BadInput, "CloudEvents 1.0 is what is read here"),
        ({"id": None}, BadInput, "the event has no id"),
        ({"source": None}, BadInput, "the event has no source"),
        ({"type": None}, BadInput, "the event has no type"),
        ({"id": "a b"}, BadId, "id of the event"),
        ({"type": "a b"}, BadTypeName, "type of the event"),
        ({"source": ""}, BadInput, "source of signal 1: must be text that is not empty"),
        ({"subject": 5}, BadInput, "subject of the event is 5"),
        ({"subject": "a\nb"}, BadInput, "holds a control character"),
        ({"time": "yesterday"}, BadInput, "time of the event"),
        ({"time": "2018-13-05T17:31:00Z"}, BadInput, "time of the event"),
        ({"time": "2018-04-05T17:31:00"}, BadInput, "time of the event"),
        ({"dataschema": "schema.json"}, BadInput, "must be an absolute URI"),
        ({"datacontenttype": "json"}, BadInput, "must be a media type"),
        ({"datacontenttype": "application/xml", "data": {"x": 1}}, BadInput, "data of the event must be text"),
        ({"data": 1, "data_base64": "AA=="}, BadInput, "one of them"),
        ({"data_base64": "not base64!"}, BadInput, "is not Base64"),
        ({"data_base64": 5}, BadInput, "is not Base64"),
        ({"Upper": "x"}, BadInput, "extension attribute 'Upper'"),
        ({"with_underscore": "x"}, BadInput, "lower-case letters and digits"),
        ({"ext": 1.5}, BadInput, "extension attribute ext is 1.5"),
        ({"ext": 2**31}, BadInput, "32 bits"),
        ({"ext": {"a": 1}}, BadInput, "extension attribute ext"),
        ({"ext": ""}, BadInput, "not empty"),
        ({"ext": "x" * 1025}, TooLarge, "1024 is the bound"),
        ({f"ext{n}": n for n in range(51)}, TooLarge, "50 is the bound"),
        ({f"ext{n}": "x" * 1000 for n in range(9)}, TooLarge, "8,192|8192"),
        ({"hops": "many"}, BadInput, "hops of the event"),
        ({"hops": 65}, TooLarge, "hops"),
        ({"data": "x" * 300_000}, TooLarge, "data of the event"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_event_is_told_by_name(
    change: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Signal.from_cloudevent({**SMALL, **change})


@pytest.mark.parametrize(
    "time", ["2018-04-05t17:31:00.123456789z", "1990-12-31T23:59:60Z", "2018-04-05T17:31:00+02:00"]
)
def test_every_time_of_rfc_3339_is_taken_as_it_is(time: str) -> None:
    assert Signal.from_cloudevent({**SMALL, "time": time}).time == time


@pytest.mark.parametrize(
    "content", ["application/json; charset=utf-8", "text/json", "application/vnd.x+json", "APPLICATION/JSON"]
)
def test_json_by_any_name_may_have_any_data(content: str) -> None:
    assert Signal.from_cloudevent({**SMALL, "datacontenttype": content, "data": [1]}).value == [1]


@pytest.mark.parametrize(
    "text", ["[]", "1", '{"id": 1', '{"id":"1","id":"2"}', '{"specversion":"1.0","x":NaN}']
)
def test_text_that_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Signal.from_cloudevent(text)


def test_nesting_of_data_is_bounded_as_everywhere() -> None:
    deep: Any = 1
    for _ in range(Limits().max_json_depth):
        deep = [deep]
    assert Signal.from_cloudevent(json.dumps({**SMALL, "data": deep})).value == deep
    with pytest.raises(NotStrictJSON):
        Signal.from_cloudevent(json.dumps({**SMALL, "data": [deep]}))


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"A":1}', '{"a":1.5}', '{"a":null}'])
def test_extensions_that_nobody_of_ours_wrote_are_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        Signal.from_fields({"id": "x", "type": "a.b", "data": "1", "extensions": text})


def test_extensions_are_part_of_the_content() -> None:
    one = Signal.of("a.b", 1, id="1", extensions={"a": 1})

    assert one.content_digest() == Signal.of("a.b", 1, id="2", extensions={"a": 1}).content_digest()
    assert one.content_digest() != Signal.of("a.b", 1, id="1", extensions={"a": True}).content_digest()
    assert one.content_digest() != Signal.of("a.b", 1, id="1").content_digest()


# Through agents.


class Nothing(State):
    pass


class Post(Agent[Nothing], name="post"):
    @handles("com.example.*")
    def pass_on(self, state: Nothing, signal: Signal) -> Step[Nothing]:
        return Emit(signal, to="end") if signal.subject == "emit" else Forward(to="end")


class End(Agent[Nothing], name="end"):
    @handles("**")
    def tell(self, state: Nothing, signal: Signal, ctx: Context) -> Step[Nothing]:
        return Reply(json.loads(signal.to_cloudevent()), to="reply:post#asked")


@pytest.mark.parametrize("name", ["binary", "xml", "json"])
@pytest.mark.parametrize("how", ["emit", "forward"])
def test_extensions_and_the_form_of_data_survive_an_agent_that_sends_the_signal_on(
    name: str, how: str
) -> None:
    tree = Harness(Supervisor("t", [Post.child("post"), End.child("end")]))
    event = Signal.from_cloudevent({**SPEC[name], "subject": how})

    seen = tree.client.ask("post", event, id="asked")

    kept = (
        "comexampleextension1",
        "comexampleothervalue",
        "datacontenttype",
        "data",
        "data_base64",
        "type",
        "subject",
    )
    sent = json.loads(event.to_cloudevent())
    assert {name: seen.get(name) for name in kept} == {name: sent.get(name) for name in kept}
    assert (seen["causationid"], seen["hops"]) == ("asked", 1)
    # Forwarded as it is, or emitted as the agent's own.
    assert (seen["source"], seen.get("time")) == (
        ("/mycontext", "2018-04-05T17:31:00Z") if how == "forward" else ("post", None)
    )


def test_a_whole_signal_is_sent_as_it_is_and_what_is_given_besides_takes_its_place() -> None:
    tree = Harness(Supervisor("t", [End.child("end")]))
    event = Signal.from_cloudevent(SPEC["json"])

    receipt = tree.client.send("end", event)
    assert receipt.signal_id == "C234-1234-1234"
    assert tree.client.send("end", event).duplicate
    assert tree.client.send("end", event, id="other", subject="s").signal_id == "other"
    with pytest.raises(BadInput, match="not both"):
        tree.client.send("end", event, {"x": 1})
    with pytest.raises(BadInput, match="not strict JSON"):
        tree.client.send("end", Signal(id="x", type="a.b", data="{"))
