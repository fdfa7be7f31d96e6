"""The container files, checked without an engine: linted, valid by their schemas, and true to the rest of the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrow.settings import Settings, load_settings, variable_of

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
SERVICES = ("watchdog", "worker", "effects", "metrics")


def run(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A program of the environment that runs this test."""
    path = Path(sys.executable).with_name(program)
    return subprocess.run([path, *map(str, words)], check=False, capture_output=True, text=True, cwd=ROOT)


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))
    return data


@pytest.fixture(scope="module")
def dockerfile() -> list[str]:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return load("compose.yaml")


def test_hadolint_finds_nothing() -> None:
    done = run("hadolint", DOCKER / "Dockerfile")

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_follows_its_schema() -> None:
    done = run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_check_would_catch_a_wrong_key(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text("services: {a: {imagine: x}}\n")

    assert run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", wrong).returncode == 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_configuration() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", DOCKER / "prometheus.yml"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_the_metrics_service_at_its_port(compose: dict[str, Any]) -> None:
    [job] = load("prometheus.yml")["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    host, _, port = target.partition(":")

    assert host in compose["services"]
    assert int(port) == load_settings().metrics_port


def test_the_image_runs_as_nobody_special_with_an_init_in_front(dockerfile: list[str]) -> None:
    last_stage = dockerfile[max(i for i, line in enumerate(dockerfile) if line.startswith("FROM")) :]

    assert "USER 10001" in last_stage
    assert last_stage.index("USER 10001") < last_stage.index('ENTRYPOINT ["tini", "--", "regrow"]')
    assert any(line.startswith("HEALTHCHECK") for line in last_stage)
    assert "STOPSIGNAL SIGTERM" in last_stage


def test_everything_that_the_image_copies_is_let_through_to_the_build(dockerfile: list[str]) -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        word
        for line in dockerfile
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }

    assert copied
    for name in copied:
        assert f"!{name}" in ignore, name
        assert (ROOT / name).exists(), name


def test_the_system_has_two_watchdogs_a_scalable_worker_and_every_other_service(
    compose: dict[str, Any],
) -> None:
    ours = {
        name: service["command"][0] for name, service in compose["services"].items() if "build" in service
    }

    assert sorted(ours.values()) == sorted([*SERVICES, "watchdog"])
    # A fixed name or host port would forbid a second one.
    assert not {"container_name", "ports"} & compose["services"]["worker"].keys()


def test_the_composed_redis_loses_one_second_at_most_and_evicts_nothing(compose: dict[str, Any]) -> None:
    command = " ".join(compose["services"]["redis"]["command"])

    assert "--appendonly yes" in command
    assert "--appendfsync everysec" in command
    assert "--maxmemory-policy noeviction" in command
    assert any(":/data" in volume for volume in compose["services"]["redis"]["volumes"])


def test_services_are_told_only_settings_that_exist(compose: dict[str, Any]) -> None:
    known = {variable_of(name) for name in Settings.model_fields}

    for service in compose["services"].values():
        assert set(service.get("environment", {})) <= known


def test_a_node_is_given_more_time_to_stop_than_it_needs_to_drain(compose: dict[str, Any]) -> None:
    grace = float(compose["services"]["worker"]["stop_grace_period"].removesuffix("s"))

    assert grace > load_settings().drain


def test_nothing_is_published_beyond_this_host(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_procfile_starts_every_service_once() -> None:
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text(encoding="utf-8").splitlines())

    assert tuple(lines) == SERVICES
    for name, command in lines.items():
        assert command.split()[:2] == ["regrow", name]
        # A shell in front would get the signals in the service's place.
        assert not set(command) & set("&|;<>$`")
