"""Which servers are taken, which refused, which warned about; decided from INFO alone."""

from __future__ import annotations

import pytest

from regrow_signals.errors import WrongServer
from regrow_signals.server_check import check_server, info_fields, judge

GOOD = {
    "redis_version": "7.2.4",
    "aof_enabled": "1",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "role": "master",
}


def test_good_server_is_taken_without_a_word() -> None:
    report = judge(GOOD)
    assert (report.software, report.version, report.warnings) == ("Redis", "7.2.4", ())
    assert report.persistence == "append-only file" and not report.is_cluster


def test_valkey_is_called_by_its_own_name_and_number() -> None:
    report = judge({**GOOD, "valkey_version": "9.1.2"})
    assert (report.software, report.version) == ("Valkey", "9.1.2")


@pytest.mark.parametrize("version", ["6.2.14", "", "unknown", "5.0.7"])
def test_old_server_is_refused_with_the_floor(version: str) -> None:
    with pytest.raises(WrongServer, match=r"needs 7\.0 or newer"):
        judge({**GOOD, "redis_version": version})


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "volatile-ttl"])
def test_server_that_evicts_is_refused_with_the_fix(policy: str) -> None:
    with pytest.raises(WrongServer, match="CONFIG SET maxmemory-policy noeviction"):
        judge({**GOOD, "maxmemory": "100", "maxmemory_policy": policy})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ({"aof_enabled": "0"}, "appendonly"),
        ({"role": "slave"}, "replica"),
        ({"cluster_enabled": "1"}, "cluster"),
        ({"rdb_last_bgsave_status": "err"}, "disk"),
    ],
)
def test_what_may_go_wrong_is_warned_about(fields: dict[str, str], word: str) -> None:
    [warning] = judge({**GOOD, **fields}).warnings
    assert word in warning


def test_info_is_read_line_by_line() -> None:
    assert info_fields("# Server\r\nredis_version:7.0.15\r\n\r\nexecutable:/a:b\r\n") == {
        "redis_version": "7.0.15",
        "executable": "/a:b",
    }


def test_user_without_info_is_taken_with_a_warning() -> None:
    op = check_server()
    next(op)
    with pytest.raises(StopIteration) as end:
        op.throw(WrongServer("may not run INFO"))
    assert end.value.value.warnings == ("may not run INFO",)
