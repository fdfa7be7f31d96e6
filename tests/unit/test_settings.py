"""Settings: one class, read once, checked whole; each refusal names the variable and the fix, and no secret."""

from __future__ import annotations

import ast
import os
from datetime import timedelta
from pathlib import Path

import pytest

import regrow
from regrow.quantities import bytes_of, seconds_of, show_bytes, show_seconds
from regrow.settings import Settings, load_settings, setting_rows, settings_table
from regrow_signals.errors import BadSetting
from regrow_signals.limits import Limits
from regrow_supervisor.watchdog_settings import WatchdogSettings
from regrow_workers.settings import NodeSettings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("REGROW_") or name == "REDIS_URL":
            monkeypatch.delenv(name)


def refusal(**given: object) -> str:
    with pytest.raises(BadSetting) as caught:
        load_settings(**given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_those_of_the_rooms_that_use_them() -> None:
    settings = load_settings()

    assert settings.limits == Limits()
    assert settings.node == NodeSettings()
    assert settings.watchdog == WatchdogSettings()


def test_defaults_of_the_contract() -> None:
    settings = load_settings()

    assert (settings.heartbeat, settings.node_timeout, settings.lease) == (1.0, 3.0, 3.0)
    assert (settings.deadline, settings.start_timeout, settings.shutdown, settings.drain) == (
        5.0,
        10.0,
        5.0,
        4.0,
    )
    assert (settings.max_state, settings.max_signal, settings.max_json_depth) == (1 << 20, 256 << 10, 64)
    assert (settings.max_mailbox, settings.max_dead, settings.max_outbox) == (10_000, 10_000, 1_000)
    assert (settings.max_attempts, settings.max_kills, settings.max_hops) == (2, 10, 64)
    assert (settings.dedupe_window, settings.dedupe_ids, settings.held_timeout) == (600.0, 100_000, 60.0)
    assert (settings.metrics_host, settings.metrics_port) == ("127.0.0.1", 9464)


def test_two_rooms_agree_on_the_defaults_they_share() -> None:
    for name in ("node_timeout", "start_timeout"):
        assert getattr(NodeSettings(), name) == getattr(WatchdogSettings(), name), name


def test_the_environment_is_read_with_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://localhost:6379/1")
    monkeypatch.setenv("REGROW_HEARTBEAT", "500ms")
    monkeypatch.setenv("REGROW_NODE_TIMEOUT", "2m")
    monkeypatch.setenv("REGROW_MAX_STATE", "2MiB")
    monkeypatch.setenv("REGROW_LABELS", "zone=a, disk=ssd")
    monkeypatch.setenv("REGROW_LEASE", "")

    settings = load_settings()

    assert settings.redis_url == "redis://localhost:6379/1"
    assert settings.node.heartbeat == 0.5
    assert settings.watchdog.node_timeout == 120
    assert settings.limits.max_state_bytes == 2 << 20
    assert settings.node.labels == {"zone": "a", "disk": "ssd"}
    assert settings.lease == 3.0


def test_what_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGROW_NAMESPACE", "one")
    monkeypatch.setenv("REDIS_URL", "redis://one")

    assert load_settings(namespace="two", redis_url="redis://two").redis_url == "redis://two"
    assert load_settings(namespace=None).namespace == "one"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().heartbeat = 2.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_an_unknown_variable_is_refused_with_the_near_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGROW_HEARTBEET", "1")

    assert refusal() == "REGROW_HEARTBEET: no such setting; did you mean REGROW_HEARTBEAT?"


def test_a_misspelt_argument_is_refused_with_the_near_one() -> None:
    assert "did you mean node_timeout?" in refusal(node_timout=3)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"node_timeout": 2}, ["REGROW_NODE_TIMEOUT=2", "more than twice REGROW_HEARTBEAT (1 s)"]),
        ({"lease": 1}, ["REGROW_LEASE=1", "at least twice REGROW_HEARTBEAT"]),
        ({"start_timeout": 0.5}, ["REGROW_START_TIMEOUT=0.5", "at least REGROW_HEARTBEAT"]),
        ({"heartbeat": 0}, ["REGROW_HEARTBEAT", "at least 50ms"]),
        ({"max_signal": "8MiB"}, ["REGROW_MAX_SIGNAL", "REGROW_MAX_COMMIT"]),
        ({"max_directives": 2000}, ["REGROW_MAX_DIRECTIVES", "REGROW_MAX_COMMIT_APPENDS"]),
        ({"heartbeat": "soon"}, ["REGROW_HEARTBEAT", "not a duration", "ms, s, m, h"]),
        ({"heartbeat": float("nan")}, ["REGROW_HEARTBEAT", "nan"]),
        ({"max_state": "12 parsecs"}, ["REGROW_MAX_STATE", "give bytes, or a size"]),
        ({"max_state": 0}, ["REGROW_MAX_STATE", "at least 1"]),
        ({"max_mailbox": 0}, ["REGROW_MAX_MAILBOX", "greater than or equal to 1"]),
        ({"metrics_port": 70000}, ["REGROW_METRICS_PORT", "65535"]),
        ({"labels": "zone"}, ["REGROW_LABELS", "zone=a,disk=ssd"]),
        ({"namespace": "a{b"}, ["REGROW_NAMESPACE", "not usable"]),
        ({"log_level": "loud"}, ["REGROW_LOG_LEVEL", "'DEBUG'"]),
        ({"heartbeat": 10, "lease": 1}, ["REGROW_NODE_TIMEOUT", "REGROW_LEASE"]),
    ],
)
def test_a_bad_value_is_refused_naming_the_variable_and_the_fix(
    given: dict[str, object], named: list[str]
) -> None:
    message = refusal(**given)

    for part in named:
        assert part in message


@pytest.mark.parametrize(
    "url",
    [
        "http://:s3cret@h",
        "redis://:s3cret@h:notaport",
        "s3cret",
        "rediss://:s3cret%40x@h/notadb",
        "unix://:s3cret@",
    ],
)
def test_a_bad_redis_url_is_refused_without_its_password(url: str) -> None:
    message = refusal(redis_url=url)

    assert "REDIS_URL" in message
    assert "s3cret" not in message


def test_no_representation_shows_a_password() -> None:
    settings = load_settings(redis_url="redis://:s3cret@h", rq_url="redis://:s3cret@h")

    assert "s3cret" not in repr(settings) + str(settings)


def test_durations_are_read_as_people_write_them() -> None:
    assert seconds_of("1.5s") == 1.5
    assert seconds_of("2m") == 120
    assert seconds_of(" 250 ms ") == 0.25
    assert seconds_of("3") == seconds_of(3) == seconds_of(timedelta(seconds=3)) == 3.0
    for seconds in (0.25, 1.0, 1.5, 60.0, 600.0, 86400.0):
        assert seconds_of(show_seconds(seconds)) == seconds
    for wrong in ("", "-1", "1 fortnight", "1e9", "inf", True, None, -1.0):
        with pytest.raises(ValueError, match=r"duration|seconds"):
            seconds_of(wrong)


def test_sizes_are_read_as_people_write_them() -> None:
    assert bytes_of("512MiB") == 512 << 20
    assert bytes_of("64 kb") == 64_000
    assert bytes_of("7") == bytes_of(7) == 7
    for size in (1, 1000, 1 << 10, 3 << 20, 1 << 30):
        assert bytes_of(show_bytes(size)) == size
    for wrong in ("", "-1", "0.5", "MiB", True, None, 0, 1.0):
        with pytest.raises(ValueError, match=r"size|bytes"):
            bytes_of(wrong)


def test_the_state_folder_follows_the_xdg_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert load_settings(namespace="shop").state_folder == tmp_path / "regrow" / "shop"

    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert load_settings().state_folder == Path.home() / ".local" / "state" / "regrow" / "regrow"

    assert load_settings(state_dir=tmp_path / "mine").state_folder == tmp_path / "mine" / "regrow"


def test_the_table_shows_every_setting_and_its_default() -> None:
    rows = {row.variable: row for row in setting_rows()}

    assert len(rows) == len(Settings.model_fields)
    assert all(row.meaning.endswith(".") for row in rows.values())
    assert rows["REGROW_HEARTBEAT"].default == "1s"
    assert rows["REGROW_MAX_SIGNAL"].default == "256KiB"
    assert rows["REGROW_DEDUPE_WINDOW"].default == "10m"
    assert rows["REGROW_LABELS"].default == ""
    assert settings_table().count("\n") == len(rows) + 2


def test_no_other_module_reads_the_environment() -> None:
    readers: set[str] = set()
    for folder in (
        "signals/regrow_signals",
        "workers/regrow_workers",
        "supervisor/regrow_supervisor",
        "regrow",
    ):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            if names & {"environ", "getenv", "environb"}:
                readers.add(path.relative_to(ROOT).as_posix())

    # A child's environment is built from our own: that reads no setting.
    assert readers <= {"regrow/settings.py", "regrow/child_environment.py"}


def test_the_package_is_typed() -> None:
    assert Path(regrow.__file__).with_name("py.typed").exists()
