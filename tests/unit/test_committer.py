"""The shell around a decision, on a connection that answers as the script does: what cannot be written is set aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from regrow_signals.calls import Call, Command
from regrow_signals.connection import Connection
from regrow_signals.errors import BadPayload, CorruptKey
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_supervisor.commit_plan import Extras
from regrow_supervisor.committer import Committer
from regrow_supervisor.leader import Lease
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.life_ends import kill_order
from regrow_workers.stored_child import InitialState
from tests.unit.test_turn import gone, running

KEYS = Keys("regrow")


class Damaged:
    """Refuses each plan that writes the damaged key, as ``decision.lua`` does."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.plans: list[dict[str, Any]] = []

    def call(self, call: Call[Any]) -> int:
        plan = json.loads(str(call.args[2]))
        self.plans.append(plan)
        assert len(self.plans) < 10, "the same plan again and again"
        if self.key and self.key in json.dumps({name: plan[name] for name in ("orders", "deletions")}):
            raise CorruptKey(f"{self.key} holds a string where something else belongs")
        return 1

    def pipeline(self, commands: Sequence[Command[str]]) -> list[str]:
        names = [str(command.words[1]) for command in commands]
        return ["string" if name == self.key else "none" for name in names]


def empty(type_name: str, init: Mapping[str, Any]) -> tuple[str, int]:
    del type_name, init
    return "{}", 1


def committer(connection: Damaged, initial: InitialState = empty) -> Committer:
    lease = Lease(KEYS, 3000, lambda: 0.0)
    lease.acquire_call()
    lease.acquired(0.0)
    return Committer(
        cast("Connection", connection), KEYS, lease, limits=Limits(), initial=initial, counts=Counter()
    )


def test_an_order_to_a_node_whose_stream_cannot_be_written_is_left_out() -> None:
    view, server = running("a"), Damaged(KEYS.control("n1"))

    committer(server).commit(view, None, Extras(exits_entry="1-1", orders=[kill_order("n1", "a", 1, "x")]), 0)

    assert [len(plan["orders"]) for plan in server.plans] == [1, 0]
    assert server.plans[-1]["exits_entries"] == ["1-1"]


def test_a_deletion_of_an_agent_whose_record_cannot_be_written_is_left_out() -> None:
    view, server = LeaderView(), Damaged(KEYS.agent("z"))

    committer(server).commit(view, None, Extras(exits_entry="1-1", deletions=["z"]), 0)

    assert [len(plan["deletions"]) for plan in server.plans] == [1, 0]


def test_what_is_set_aside_already_is_no_reason_to_try_again() -> None:
    view, server = LeaderView(corrupt={"z"}), Damaged("1-1")

    class Always(Damaged):
        def call(self, call: Call[Any]) -> int:
            super().call(call)
            raise CorruptKey(f"{KEYS.agent('z')} cannot be written")

    server = Always("")
    with pytest.raises(CorruptKey):
        committer(server).commit(view, None, Extras(exits_entry="1-1", deletions=["z"]), 0)
    assert len(server.plans) == 1


def test_a_first_state_that_does_not_fit_any_more_is_left_to_the_worker() -> None:
    def misfit(type_name: str, init: Mapping[str, Any]) -> tuple[str, int]:
        del type_name, init
        raise BadPayload("Desk.open: a field that is not there any more")

    server = Damaged("")
    view = running("a")
    start = {"type": "support", "resume": "fresh"}
    child = view.states["desk"].children["a"]
    view.states["desk"].children["a"] = child.but(spec={**child.spec, "start": start})

    assert committer(server, misfit).commit(view, gone("a"), Extras(exits_entry="1-1"), 0)

    [order] = server.plans[-1]["orders"]
    assert order["fresh"]["state"] == ""
