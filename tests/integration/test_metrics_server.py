"""The exporter over a real Redis: pages, readiness, a store that goes away, and Prometheus' own linter where it is."""

from __future__ import annotations

import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import redis

from regrow.metrics.server import MetricsServer
from regrow_signals.errors import BadSetting
from regrow_signals.keys import Keys
from tests.conftest import PrivateServer

KEYS = Keys("regrow")


@pytest.fixture
def raw(own_server: PrivateServer) -> Iterator[redis.Redis]:
    client = redis.Redis(unix_socket_path=str(own_server.socket), decode_responses=True)
    yield client
    client.close()


@pytest.fixture
def exporter(own_server: PrivateServer) -> Iterator[MetricsServer]:
    server = MetricsServer(own_server.url, namespace="regrow", host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server
    server.stop()
    thread.join()


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    host, port = server.address
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def put_agent(raw: redis.Redis, agent: str, **fields: str) -> None:
    for name, value in {"type": "support", "status": "running", **fields}.items():
        raw.hset(KEYS.agent(agent), name, value)
    raw.zadd(KEYS.agents, {agent: 0})


def test_agents_backlog_and_counters_are_shown(exporter: MetricsServer, raw: redis.Redis) -> None:
    put_agent(raw, "a")
    put_agent(raw, "b", status="held")
    raw.xadd(KEYS.mailbox("a"), {"id": "1", "at_ms": "1000"})
    raw.hset(KEYS.counters, "signals_applied_total|type=support", 12)

    status, text = get(exporter, "/metrics")

    assert status == 200
    assert "regrow_up 1.0" in text
    assert 'regrow_agents{status="running",type="support"} 1.0' in text
    assert 'regrow_agents{status="held",type="support"} 1.0' in text
    assert 'regrow_mailbox_backlog{type="support"} 1.0' in text
    assert 'regrow_signals_applied_total{type="support"} 12.0' in text
    oldest = next(
        line for line in text.splitlines() if line.startswith("regrow_oldest_waiting_signal_seconds{")
    )
    assert float(oldest.rpartition(" ")[2]) > 1e6


def test_series_do_not_grow_with_agents(exporter: MetricsServer, raw: redis.Redis) -> None:
    put_agent(raw, "a")
    few = len(get(exporter, "/metrics")[1].splitlines())
    for number in range(200):
        put_agent(raw, f"agent-{number}")

    assert len(get(exporter, "/metrics")[1].splitlines()) == few


def test_one_agents_damaged_keys_cost_its_own_figures_only(exporter: MetricsServer, raw: redis.Redis) -> None:
    put_agent(raw, "a")
    raw.zadd(KEYS.agents, {"b": 0})
    raw.set(KEYS.agent("b"), "no hash")
    raw.set(KEYS.mailbox("b"), "no stream")

    text = get(exporter, "/metrics")[1]

    assert 'regrow_agents{status="unreadable",type="unknown"} 1.0' in text
    assert 'regrow_agents{status="running",type="support"} 1.0' in text


def test_without_redis_it_says_down_and_nothing_else(
    exporter: MetricsServer, own_server: PrivateServer
) -> None:
    own_server.kill()

    status, text = get(exporter, "/metrics")

    assert status == 200
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["regrow_up 0.0"]
    assert get(exporter, "/healthz") == (200, "ok\n")
    assert get(exporter, "/readyz")[0] == 503


def test_ready_means_a_watchdog_leads(exporter: MetricsServer, raw: redis.Redis) -> None:
    assert get(exporter, "/readyz") == (503, "not ready: no watchdog leads\n")

    raw.set(KEYS.leader, "token")

    assert get(exporter, "/readyz") == (200, "ready\n")


def test_an_unknown_page_names_those_there_are(exporter: MetricsServer) -> None:
    status, text = get(exporter, "/nope")

    assert status == 404
    assert "/metrics" in text


def test_a_port_in_use_is_one_clear_line(exporter: MetricsServer, own_server: PrivateServer) -> None:
    _, port = exporter.address

    with pytest.raises(BadSetting, match="REGROW_METRICS_PORT"):
        MetricsServer(own_server.url, namespace="regrow", host="127.0.0.1", port=port)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_complain_of(exporter: MetricsServer, raw: redis.Redis) -> None:
    put_agent(raw, "a")
    raw.hset(KEYS.counters, mapping={"recovery_seconds_bucket|le=0.05": 1, "recovery_seconds_sum_us": 30_000})
    text = get(exporter, "/metrics")[1]

    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
