"""What the doctor says of what it found: the right level, and the fix beside it."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from regrow import diagnosis
from regrow.diagnosis import Check, exit_code
from regrow.pool_view import NodePool, PoolView, unserved
from regrow.server_rights import COMMANDS, acl_rule
from regrow_signals.census import Census, Group, Seen, Tally
from regrow_signals.keys import Keys

ROOT = Path(__file__).resolve().parents[2]
AOF = {"aof_enabled": "1"}


def test_the_exit_code_is_that_of_the_worst_check() -> None:
    ok, warn, fail = Check("a", "OK", ""), Check("b", "WARN", ""), Check("c", "FAIL", "")

    assert [exit_code([]), exit_code([ok]), exit_code([ok, warn]), exit_code([fail, warn, ok])] == [
        0,
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("info", "config", "level", "part"),
    [
        (AOF, {"appendfsync": "always"}, "OK", "nothing accepted is lost"),
        (AOF, {"appendfsync": "everysec"}, "OK", "up to 1 s"),
        (AOF, {"appendfsync": "no"}, "WARN", "30 s"),
        (AOF, {}, "WARN", "unknown"),
        ({"aof_enabled": "0", "rdb_changes_since_last_save": "7"}, {"save": "3600 1"}, "WARN", "7 changes"),
        ({"aof_enabled": "0"}, {"save": ""}, "FAIL", "loses everything"),
        ({**AOF, "aof_last_write_status": "err"}, {"appendfsync": "everysec"}, "FAIL", "save failed"),
        ({}, {}, "WARN", "unknown"),
    ],
)
def test_persistence_says_how_much_may_be_lost(
    info: dict[str, str], config: dict[str, str], level: str, part: str
) -> None:
    check = diagnosis.judge_persistence(info, config)

    assert check.level == level
    assert part in check.text
    assert bool(check.fix) == (level != "OK")


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "7.0.15"}, "OK"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "OK"),
        ({"redis_version": "8.0.2"}, "OK"),
        ({"redis_version": "6.2.14"}, "FAIL"),
        ({"redis_version": "odd"}, "FAIL"),
        ({}, "FAIL"),
    ],
)
def test_servers_older_than_seven_fail(info: dict[str, str], level: str) -> None:
    assert diagnosis.judge_version(info).level == level


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"maxmemory_policy": "noeviction", "maxmemory": "100"}, "OK"),
        ({"maxmemory_policy": "volatile-lru", "maxmemory": "0"}, "WARN"),
        ({"maxmemory_policy": "volatile-lru", "maxmemory": "100"}, "FAIL"),
        ({}, "WARN"),
    ],
)
def test_a_server_that_may_evict_leases_fails(info: dict[str, str], level: str) -> None:
    assert diagnosis.judge_eviction(info).level == level


def test_memory_near_its_limit_is_a_warning() -> None:
    assert diagnosis.judge_memory({"used_memory": "81", "maxmemory": "100"}).level == "WARN"
    assert diagnosis.judge_memory({"used_memory": "79", "maxmemory": "100"}).level == "OK"
    assert diagnosis.judge_memory({"used_memory": "79", "maxmemory": "0"}).level == "OK"


def test_replicas_fail_and_clusters_warn() -> None:
    assert diagnosis.judge_cluster({"role": "slave"}, "regrow").level == "FAIL"
    assert diagnosis.judge_cluster({"cluster_enabled": "1"}, "regrow").level == "WARN"
    assert diagnosis.judge_cluster({"role": "master", "cluster_enabled": "0"}, "regrow").level == "OK"


def test_a_clock_inside_the_answers_time_is_right() -> None:
    assert diagnosis.judge_clock(100.5, 100.0, 101.0).level == "OK"
    assert diagnosis.judge_clock(99.5, 100.0, 101.0).level == "OK"
    assert diagnosis.judge_clock(97.0, 100.0, 101.0).level == "WARN"
    assert "3.0 s" in diagnosis.judge_clock(104.0, 100.0, 101.0).text


def test_keys_of_another_type_fail_and_strangers_warn() -> None:
    keys = Keys("shop")

    good = diagnosis.judge_key_types(keys, {keys.agent("a"): "hash", keys.exits: "none"}, complete=True)
    strange = diagnosis.judge_key_types(keys, {"{shop}:cart:7": "hash"}, complete=True)
    wrong = diagnosis.judge_key_types(
        keys, {keys.agent("a"): "string", "{shop}:cart:7": "hash"}, complete=True
    )

    assert (good.level, strange.level, wrong.level) == ("OK", "WARN", "FAIL")
    assert "{shop}:agent:a is a string, not a hash" in wrong.text


def test_late_nodes_are_named() -> None:
    late = diagnosis.judge_nodes({"n1": 0.5, "n2": 9.0}, 3.0)

    assert (late.level, "n2 (9 s)" in late.text) == ("WARN", True)
    assert diagnosis.judge_nodes({}, 3.0).level == "WARN"
    assert diagnosis.judge_nodes({"n1": 0.5}, 3.0).level == "OK"


def census(*seen: Seen) -> Census:
    """Each of them in a group of its own, and named wherever it belongs."""
    found = Census(groups={Group("desk", "chat", "idle"): Tally(agents=3)})
    for each in seen:
        tally = Tally(1, each.backlog, each.dead)
        found.groups.setdefault(Group(each.supervisor, each.type, each.status), Tally()).add(tally)
    found.down = [each for each in seen if each.status in ("parked", "waiting")]
    found.lettered = [each for each in seen if each.dead]
    return found


def seen(agent: str, status: str = "idle", *, dead: int = 0) -> Seen:
    return Seen(agent, "desk", "chat", status, "", 0, dead)


def test_agents_that_do_not_run_though_they_are_wanted_are_named() -> None:
    assert diagnosis.judge_agents(census(), {}).level == "OK"
    why = "waiting: no worker node runs agent type 'x'"
    waiting = diagnosis.judge_agents(census(seen("a", "waiting")), {"a": why})
    assert (waiting.level, "a (no worker node runs agent type 'x')" in waiting.text) == ("WARN", True)
    parked = diagnosis.judge_agents(
        census(seen("b", "parked"), seen("a", "waiting")), {"b": "signal:SIGKILL"}
    )
    assert ("1 parked: b (signal:SIGKILL)" in parked.text, "regrow revive ID" in parked.fix) == (True, True)
    reasons = {"b": "exit:1", "c": "unreadable_state:no step @upcast(1)"}
    unreadable = diagnosis.judge_agents(census(seen("b", "parked"), seen("c", "parked")), reasons)
    assert "c (unreadable_state:no step @upcast(1))" in unreadable.text
    assert "b" not in unreadable.text.split()
    assert "regrow revive --unreadable" in unreadable.fix


def test_dead_letters_are_told_with_their_agents_and_reasons() -> None:
    assert diagnosis.judge_letters(census(), []).level == "OK"
    letters = [
        [("1-0", {"reason": "bad_data"}), ("2-0", {"reason": "bad_data"})],
        [("1-0", {"reason": "unhandled"})],
    ]

    told = diagnosis.judge_letters(census(seen("a", dead=2), seen("b", dead=1)), letters)

    assert told.level == "WARN"
    assert told.text == "3 of 2 agents (bad_data, unhandled): a (2), b (1)"


def worker(*types: str, labels: str = "{}", status: str = "up") -> dict[str, str]:
    about = json.dumps({name: {"schema": 2, "handles": []} for name in types})
    return {"kind": "worker", "status": status, "types": about, "labels": labels}


@pytest.mark.parametrize(
    ("queue", "served"),
    [
        ("chat@1", True),
        ("chat@2", True),
        ("chat@3", False),
        ("mail@1", False),
        ("chat[zone=a]@1", True),
        ("chat[zone=b]@1", False),
        ("old@1", False),
    ],
)
def test_a_run_queue_is_served_by_a_live_node_with_its_type_schema_and_labels(
    queue: str, *, served: bool
) -> None:
    nodes = [worker("chat", labels='{"zone": "a"}'), worker("old", status="draining"), {"kind": "effects"}]

    assert (unserved({queue: 7}, nodes) == {}) == served


def test_a_pool_with_agents_that_nobody_can_run_is_told() -> None:
    fine = PoolView([NodePool("n1", 4, 1, 3)], Counter({"chat@1": 2}))
    assert diagnosis.judge_pool(PoolView()).level == "OK"
    assert (
        diagnosis.judge_pool(fine).text
        == "4 slots on 1 node(s), 1 of them stuck; 3 agents in hand, 2 in line"
    )
    fine.unserved = Counter({"chat@1": 2})
    assert "2 in chat@1" in diagnosis.judge_pool(fine).text
    assert diagnosis.judge_pool(PoolView([NodePool("n1", 2, 2, 2)], Counter({"chat@1": 9}))).level == "WARN"


def test_missing_rights_are_named() -> None:
    assert diagnosis.judge_rights([]).level == "OK"
    assert diagnosis.judge_rights(None).level == "WARN"
    assert "no right to xadd" in diagnosis.judge_rights(["no right to xadd"]).text


def test_platforms_are_judged() -> None:
    assert diagnosis.judge_python((3, 11), "linux").level == "OK"
    assert diagnosis.judge_python((3, 13), "darwin").level == "WARN"
    assert diagnosis.judge_python((3, 10), "linux").level == "FAIL"
    assert diagnosis.judge_python((3, 12), "win32").level == "FAIL"


def test_every_command_of_every_script_is_in_the_list_of_rights() -> None:
    scripts = (ROOT / "signals" / "regrow_signals" / "lua").rglob("*.lua")
    used = {
        name
        for path in scripts
        for name in re.findall(r"redis\.p?call\(\s*['\"](\w+)['\"]", path.read_text(encoding="utf-8"))
    }

    assert used, "no script found"
    assert used - {name.partition("|")[0] for name in COMMANDS} == set()


def test_every_command_sent_from_python_is_in_the_list_of_rights() -> None:
    asked_only = {"ACL", "CONFIG"}  # of the doctor, which does without where they are denied
    sent: set[str] = set()
    for folder in (
        "signals/regrow_signals",
        "workers/regrow_workers",
        "supervisor/regrow_supervisor",
        "regrow",
    ):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Command" and node.args:
                    words = node.args[0]
                    if (
                        isinstance(words, ast.Tuple)
                        and words.elts
                        and isinstance(words.elts[0], ast.Constant)
                    ):
                        sent.add(str(words.elts[0].value))

    assert sent, "no command found"
    assert sent - asked_only - {name.partition("|")[0] for name in COMMANDS} == set()


def test_the_rule_for_a_user_names_keys_and_commands() -> None:
    rule = acl_rule("regrow", "shop")

    assert rule.startswith("ACL SETUSER regrow on ~{shop}:* &{shop}:* +ping ")
    assert "+xinfo|stream" in rule
