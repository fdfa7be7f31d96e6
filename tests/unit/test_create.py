"""``send(..., create=...)`` before anything is sent, and what the watchdog makes of a start that fails: pure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow import Agent, State, Supervisor
from regrow.control import start_child
from regrow.create import creation
from regrow.errors import BadDefinition, BadInput, TooLarge
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_supervisor.commit_plan import Extras, plan_commit
from regrow_supervisor.created import NotStarted, about, split_answers
from regrow_supervisor.entries import Junk, RequestMade, read_entry
from regrow_supervisor.events import StartChild, StartTree
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.requests import BadRequest, read_request
from regrow_supervisor.spec import child_definition
from regrow_supervisor.turn import take_turn


class Talk(State):
    said: tuple[str, ...] = ()


class Chat(Agent[Talk], name="chat"):
    pass


def test_the_record_and_the_spec_are_those_of_start_child() -> None:
    made = creation("chat-1", Chat.child(under="desk/chats", init={"said": ["hi"]}, max_mailbox=7), Limits())

    assert (made.record.agent, made.record.type, made.record.supervisor) == ("chat-1", "chat", "desk/chats")
    assert (made.record.state, made.record.init) == ('{"said":["hi"]}', '{"said": ["hi"]}')
    assert (made.record.schema, made.record.bounds.max_mailbox) == (Chat.definition.schema, 7)
    assert json.loads(made.spec) == child_definition(
        Chat.child("chat-1", init={"said": ["hi"]}, max_mailbox=7)
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"id": "chat-1", "under": "chats"}, "give either id or under="),
        ({}, "child id"),
        ({"under": "no path!"}, "supervisor"),
        ({"under": "chats", "init": {"sad": 1}}, "child under 'chats': init"),
    ],
)
def test_a_spec_names_its_id_or_its_supervisor(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadDefinition, match=why):
        Chat.child(**fields)


def test_a_spec_without_an_id_fits_nowhere_else() -> None:
    unnamed = Chat.child(under="chats")

    with pytest.raises(BadDefinition, match="give it an id here"):
        Supervisor("desk", [unnamed])
    with pytest.raises(BadInput, match="give it an id here"):
        start_child(Keys(), "chats", unnamed)


@pytest.mark.parametrize(
    ("spec", "error", "why"),
    [
        (Chat.child("chat-1"), BadInput, "under="),
        (None, BadInput, "under="),
        (Chat.child(under="chats", significant=True, restart="transient"), BadInput, "invalid_significant"),
        (Chat.child(under="chats", labels={"x": "y" * (1 << 20)}), TooLarge, "characters"),
        (Chat.child(under="chats", init={"said": ["x" * (1 << 20)]}), TooLarge, "max_state"),
    ],
)
def test_what_no_supervisor_would_take_is_refused_before_it_is_sent(
    spec: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        creation("chat-1", spec, Limits())


def entry(**fields: str) -> dict[str, str]:
    spec = json.dumps(child_definition(Chat.child("chat-1")))
    return {
        "kind": "request", "request": "r", "op": "create", "path": "chats", "child": "chat-1", "spec": spec, **fields,
    }  # fmt: skip


def test_the_request_is_about_its_agent_for_nobody_waits_for_an_answer() -> None:
    read = read_entry(entry())

    assert isinstance(read, RequestMade) and read.request == about("chat-1")
    assert isinstance(read_entry(entry(child="{bad}")), Junk)


def chats(**flags: Any) -> LeaderView:
    """A dynamic supervisor that runs, and no node."""
    view = LeaderView(agents={"chat-1": AgentView("chats")})
    definition = Supervisor("chats", strategy="dynamic", agents=[Chat], **flags).definition()
    turn = take_turn(view, StartTree(path="chats", definition=definition), 0)
    view.take_over(turn.states, turn.removed)
    return view


def request(view: LeaderView, **fields: str) -> StartChild:
    read = read_entry(entry(**fields))
    assert isinstance(read, RequestMade)
    event = read_request(view, read).event
    assert isinstance(event, StartChild)
    return event


@pytest.mark.parametrize(
    ("agents", "fields", "code"),
    [
        ({}, {}, "not_found"),
        ({"chat-1": AgentView("elsewhere")}, {}, "not_found"),
        ({"chat-1": AgentView("chats")}, {"path": "nowhere"}, "noproc"),
        ({"chat-1": AgentView("chats")}, {"spec": "{"}, "bad_json"),
        ({"chat-2": AgentView("chats")}, {"child": "chat-2"}, "invalid_child_spec"),
    ],
)
def test_a_request_of_which_the_agent_is_gone_or_the_spec_is_wrong_starts_nobody(
    agents: dict[str, AgentView], fields: dict[str, str], code: str
) -> None:
    view = chats()
    view.agents = agents

    with pytest.raises(BadRequest) as refused:
        request(view, **fields)

    assert refused.value.code == code


def no_state(type_name: str, init: Any) -> tuple[str, int]:
    return "", 1


def test_a_start_that_succeeds_or_waits_for_a_node_answers_nobody() -> None:
    view = chats()

    plan = plan_commit(view, take_turn(view, request(view), 0), Extras(), "token", no_state)

    assert not plan.replies
    assert [update.fields["status"] for update in plan.agent_updates] == ["waiting"]
    assert [event["event"] for event in plan.events] == ["waiting"]


def test_a_start_that_fails_is_written_where_people_look() -> None:
    view = chats(max_children=0)

    plan = plan_commit(view, take_turn(view, request(view), 0), Extras(), "token", no_state)

    assert not plan.replies
    [update] = plan.agent_updates
    assert (update.agent, update.fields) == (
        "chat-1", {"status": "registered", "last_error": "not started: max_children"}
    )  # fmt: skip
    assert list(plan.events) == [
        {"event": "not_started", "agent": "chat-1", "supervisor": "chats", "reason": "max_children"}
    ]


def test_one_that_its_supervisor_has_on_record_is_left_as_it_is() -> None:
    view = chats()
    turn = take_turn(view, request(view), 0)
    view.take_over(turn.states, turn.removed)

    plan = plan_commit(view, take_turn(view, request(view), 0), Extras(), "token", no_state)

    assert not plan.agent_updates and not plan.events and not plan.replies


def test_answers_that_somebody_waits_for_pass() -> None:
    answers = [
        ("r-1", '{"ok": 1}'),
        (about("a"), '{"ok": 1}'),
        (about("b"), '{"error": "x", "message": "y"}'),
    ]

    assert split_answers(answers) == ([("r-1", '{"ok": 1}')], [NotStarted("b", "x: y")])
