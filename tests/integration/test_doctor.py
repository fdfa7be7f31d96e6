"""The doctor against a real server: it sees what is amiss, changes nothing, and shows no password."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from regrow.diagnosis import Check, exit_code
from regrow.doctor import examine, run_doctor
from regrow.server_rights import acl_rule, missing_rights
from regrow.settings import Settings, load_settings
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("REDIS_URL", raising=False)
    return load_settings()


def look(url: str, settings: Settings) -> tuple[int, list[Check]]:
    checks = list(examine(settings.model_copy(update={"redis_url": url})))
    return exit_code(checks), checks


def levels(url: str, settings: Settings) -> dict[str, str]:
    return {check.name: check.level for check in look(url, settings)[1]}


def administrator(redis_url: str) -> redis.Redis:
    return redis.Redis(unix_socket_path=redis_url.removeprefix("unix://"), decode_responses=True)


def test_an_empty_healthy_server_warns_only_that_nothing_runs(redis_url: str, settings: Settings) -> None:
    code, checks = look(redis_url, settings)

    assert code == 1
    assert {check.name for check in checks if check.level != "OK"} == {"nodes", "watchdog"}
    client = administrator(redis_url)
    assert client.dbsize() == 0
    client.close()


def test_a_running_system_is_well(redis_url: str, settings: Settings) -> None:
    client, keys = administrator(redis_url), Keys()
    seconds, _ = client.time()
    client.zadd(keys.nodes, {"n1": seconds * 1000})
    client.set(keys.leader, "token", px=3000)
    client.close()

    code, checks = look(redis_url, settings)

    assert code == 0, checks


def test_a_key_of_a_wrong_type_fails(redis_url: str, settings: Settings) -> None:
    client, keys = administrator(redis_url), Keys()
    client.set(keys.mailbox("a"), "not a stream")
    client.set(keys.nodes, "not a sorted set")
    client.set("somebody:elses", "ignored")
    client.close()

    code, checks = look(redis_url, settings)

    [wrong] = [check for check in checks if check.name == "keys"]
    assert code == 2
    assert "{regrow}:mailbox:a is a string, not a stream" in wrong.text
    assert "elses" not in wrong.text


def test_the_documented_rights_are_enough_and_one_less_is_named(redis_url: str, settings: Settings) -> None:
    client = administrator(redis_url)
    # +acl, so that the user may ask about itself
    client.execute_command(*acl_rule("clerk", "regrow").split(), ">s3cret", "+acl")
    url = redis_url.replace("unix://", "unix://clerk:s3cret@")
    try:
        assert levels(url, settings)["rights"] == "OK"

        client.execute_command("ACL", "SETUSER", "clerk", "-xadd")
        code, checks = look(url, settings)
        [rights] = [check for check in checks if check.name == "rights"]
        assert (code, rights.level, "xadd" in rights.text) == (2, "FAIL", True)
        assert "s3cret" not in "".join(map(str, checks))

        with Connection.open(url) as connection:
            other = missing_rights(connection, Keys("other"))
            assert other
            assert "{other}:" in other[0]

        client.execute_command("ACL", "SETUSER", "clerk", "-acl", "-info")
        assert levels(url, settings)["rights"] == levels(url, settings)["version"] == "WARN"
    finally:
        client.execute_command("ACL", "DELUSER", "clerk")
        client.close()


def test_a_server_that_is_not_there_fails_in_one_line_without_its_password(settings: Settings) -> None:
    code, checks = look("redis://:s3cret@127.0.0.1:1", settings)

    assert code == 2
    assert [check.name for check in checks] == ["python", "settings", "server"]
    assert "s3cret" not in "".join(map(str, checks))
    assert all("\n" not in str(check) for check in checks)


def test_it_prints_a_line_a_check_or_one_json_list(
    redis_url: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    named = settings.model_copy(update={"redis_url": redis_url})

    assert run_doctor(named) == 1
    lines = capsys.readouterr().out.splitlines()
    assert run_doctor(named, as_json=True) == 1
    checks = json.loads(capsys.readouterr().out)

    assert len(lines) == len(checks)
    assert lines[0].startswith("OK    python")
    assert set(checks[0]) == {"name", "level", "text", "fix"}


def test_without_any_server_it_says_how_to_get_one(settings: Settings, tmp_path: Path) -> None:
    checks = list(examine(settings.model_copy(update={"state_dir": tmp_path})))

    assert checks[-1].level == "FAIL"
    assert "set REDIS_URL, or start one with `regrow up`" in checks[-1].text
