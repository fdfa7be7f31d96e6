"""Rules of OTP's and Elixir's supervisors that the scenarios do not show, each read in their sources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.otp.run import run

Op = dict[str, Any]


def crash(child: str, reason: str = "crash") -> Op:
    return {"op": "exit", "child": child, "reason": reason}


def call(op: str, child: Any = None, **more: Any) -> Op:
    return {"op": op, **({} if child is None else {"child": child}), **more}


def play(sup: Op, children: list[Op], *events: Op) -> dict[str, Any]:
    return run({"id": "x", "sup": sup, "children": children, "events": list(events)})


def replies(result: dict[str, Any]) -> list[Any]:
    return [step["reply"] for step in result["steps"]]


def test_a_stop_order_is_heard_between_two_retries_and_later_calls_fail_with_its_reason() -> None:
    during = [{"op": "stop_sup", "reason": "shutdown"}, call("which_children")]
    a: Op = {"id": "a", "starts": ["ok", {"do": {"error": "boom"}, "during": during}]}

    result = play({"intensity": 5}, [a, {"id": "b"}], crash("a"))

    step = result["steps"][0]
    assert step["trace"] == [
        "exit a#1 crash",
        "start a#2 error:boom",
        "exit b#1 shutdown",
        "exit root#1 shutdown",
    ]
    assert step["reply"] == {"during": [[None, "call_exit:shutdown"]]}


def test_terminating_a_child_whose_end_is_queued_consumes_the_end() -> None:
    ops = [call("which_children"), call("count_children"), call("terminate_child", "a"), crash("a")]

    result = play({}, [{"id": "a"}, {"id": "b"}], {"op": "batch", "ops": ops})

    step = result["steps"][0]
    assert step["reply"] == [[["a", "a#1"], ["b", "b#1"]], [2, 1, 0, 2], "ok", None]
    assert (step["trace"], step["reports"]) == (["exit a#1 crash"], ["shutdown_error a crash"])


def test_rest_for_one_restarts_twice_if_the_later_one_died_first() -> None:
    result = play(
        {"strategy": "rest_for_one", "intensity": 2},
        [{"id": "a"}, {"id": "b"}, {"id": "c"}],
        {"op": "batch", "ops": [crash("c"), crash("a")]},
    )

    assert result["steps"][0]["trace"] == [
        *("exit c#1 crash", "exit a#1 crash", "start c#2 ok"),
        *("exit c#2 shutdown", "exit b#1 shutdown", "start a#2 ok", "start b#2 ok", "start c#3 ok"),
    ]


def test_a_child_that_ignores_its_stop_is_killed_when_its_time_is_up() -> None:
    children = [{"id": "a", "shutdown": 50, "stop": {"ignore": True}}, {"id": "b", "shutdown": 50}]

    result = play({}, children, {"op": "stop_sup", "reason": "shutdown"})

    assert result["steps"][0]["reports"] == ["shutdown_error a killed"]


def test_a_significant_end_during_start_up_ends_the_supervisor_right_after_it() -> None:
    a: Op = {"id": "a", "restart": "transient", "significant": True, "starts": [{"die": "normal"}]}

    result = play({"auto_shutdown": "any_significant"}, [a, {"id": "b"}])

    assert result["start"]["reply"] == "ok:root#1"
    assert result["start"]["root"] == "exited:shutdown"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"omit": ["id"]}, "missing_id"),
        ({"omit": ["start"]}, "missing_start"),
        ({"start": "text"}, "invalid_mfa"),
        ({"restart": "always"}, "invalid_restart_type"),
        ({"restart": "transient", "significant": True}, "bad_combination"),
        ({"significant": "yes"}, "invalid_significant"),
        ({"type": "agent"}, "invalid_child_type"),
        ({"shutdown": -1}, "invalid_shutdown"),
        ({"shutdown": "soon"}, "invalid_shutdown"),
        ({"modules": "x"}, "invalid_modules"),
        ({"shutdown": -1, "restart": "always"}, "invalid_restart_type"),
        ({"raw": "text"}, "invalid_child_spec"),
    ],
)
def test_a_bad_spec_is_refused_with_its_first_problem_and_nothing_is_added(spec: Op, error: str) -> None:
    result = play({}, [], call("start_child", {"id": "a", **spec}))

    assert replies(result) == [f"error:{error}"]
    assert result["final"]["tree"]["children"] == []


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"strategy": "foo"}, "invalid_strategy"),
        ({"intensity": -1}, "invalid_intensity"),
        ({"intensity": "infinity"}, "invalid_intensity"),
        ({"period": 0}, "invalid_period"),
        ({"auto_shutdown": "x"}, "invalid_auto_shutdown"),
        ({"strategy": "foo", "period": 0}, "invalid_strategy"),
    ],
)
def test_bad_flags_fail_the_start_before_any_child(flags: Op, error: str) -> None:
    result = play(flags, [{"id": "a"}])

    assert error in result["start"]["reply"]
    assert [line for line in result["start"]["trace"] if line.startswith("start")] == []


def test_two_children_of_one_id_fail_the_start_before_any_child() -> None:
    result = play({}, [{"id": "a"}, {"id": "a"}])

    assert "duplicate_child_name(a)" in result["start"]["reply"]
    assert len(result["start"]["trace"]) == 1


def test_a_supervisor_that_declines_starts_nothing() -> None:
    result = play({"init_returns": "ignore"}, [{"id": "a"}], call("which_children"))

    assert result["start"]["reply"] == "ignore"
    assert replies(result) == ["noproc"]


def test_a_nested_supervisor_past_its_own_shutdown_time_is_killed() -> None:
    stubborn: Op = {"id": "w", "shutdown": "infinity", "stop": {"ignore": True}}
    s: Op = {"id": "s", "shutdown": 30, "sup": {}, "children": [stubborn]}

    result = play({}, [s], call("terminate_child", "s"))

    step = result["steps"][0]
    assert (step["reply"], step["reports"]) == ("ok", ["shutdown_error s killed"])
    assert step["trace"][0] == "exit s#1 killed"


SIMPLE = {"strategy": "simple_one_for_one", "intensity": 5}


def test_simple_one_for_one_takes_handles_only() -> None:
    result = play(
        SIMPLE,
        [{"id": "t"}],
        call("start_child", {"id": "x"}),
        crash("x"),
        call("terminate_child", "x", by_id=True),
        call("restart_child", "t"),
        call("delete_child", "t"),
        call("count_children"),
        call("terminate_child", "x"),
        call("terminate_child", "x"),
        call("terminate_child", "root"),
        call("count_children"),
    )

    refused = "error:simple_one_for_one"
    assert replies(result) == [
        *("ok:x#1", None, refused, refused, refused, [1, 1, 0, 1]),
        *("ok", "ok", "error:not_found", [1, 0, 0, 0]),
    ]


def test_simple_one_for_one_knows_a_restarting_instance_by_its_last_handle() -> None:
    during = [call("which_children"), call("terminate_child", "x"), call("which_children")]
    x: Op = {"id": "x", "starts": ["ok", {"do": {"error": "boom"}, "during": during}]}

    result = play(SIMPLE, [{"id": "t"}], call("start_child", x), crash("x"))

    assert result["steps"][1]["reply"] == {"during": [[["restarting"], "ok", []]]}


def test_simple_one_for_one_stops_all_at_once_and_reports_once_per_reason() -> None:
    slow: Op = {"stop": {"ignore": True}}
    result = play(
        SIMPLE,
        [{"id": "t", "shutdown": 100}],
        call("start_child", {"id": "x", **slow}),
        call("start_child", {"id": "y", **slow}),
        call("start_child", {"id": "z", "stop": {"exit": "oops", "delay_ms": 10}}),
        {"op": "stop_sup", "reason": "shutdown"},
    )

    step = result["steps"][-1]
    assert step["trace"] == ["exit z#1 oops", "exit x#1 killed", "exit y#1 killed", "exit root#1 shutdown"]
    assert step["reports"] == ["shutdown_error t x2 killed", "shutdown_error t x1 oops"]


def test_simple_one_for_one_with_all_significant_ends_with_its_last_instance() -> None:
    template: Op = {"id": "t", "restart": "temporary", "significant": True}
    starts = [call("start_child", {"id": name}) for name in ("x", "y")]

    result = play({**SIMPLE, "auto_shutdown": "all_significant"}, [template], *starts, crash("x"), crash("y"))

    assert [step["root"] for step in result["steps"]] == ["alive", "alive", "alive", "exited:shutdown"]


def test_dynamic_supervisors_take_two_children_of_one_name_each_with_its_own_type() -> None:
    result = play(
        {"strategy": "dynamic"},
        [],
        call("start_child", {"id": "x"}),
        call("start_child", {"id": "x", "restart": "temporary"}),
        crash("x"),
        call("which_children"),
        call("count_children"),
    )

    assert replies(result) == ["ok:x#1", "ok:x#2", None, ["x#1"], [1, 1, 0, 1]]


def test_a_branch_started_anew_goes_on_counting_its_attempts() -> None:
    s: Op = {"id": "s", "restart": "temporary", "sup": {"intensity": 0}, "children": [{"id": "w"}]}

    result = play({}, [s], crash("w"), call("start_child", s))

    assert result["steps"][1]["trace"] == ["start w#2 ok", "start s#2 ok"]
