"""Log lines: one for each event of a life, no secrets in them; Redis's absence is two lines however long it takes."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from regrow_workers import log
from regrow_workers.store_watch import LONGEST_PAUSE, StoreWatch

LOGGER = logging.getLogger("regrow_test_log")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level


def test_an_event_is_one_line_of_text(stream: io.StringIO) -> None:
    log.configure("text", stream=stream)

    log.event(
        LOGGER, "worker_exited", agent="support", incarnation=3, reason="exit:1", error="a b", node=None
    )

    (line,) = stream.getvalue().splitlines()
    assert line.endswith(' INFO worker_exited agent=support incarnation=3 reason=exit:1 error="a b"')


def test_an_event_is_one_object_of_json(stream: io.StringIO) -> None:
    log.configure("json", stream=stream)

    log.event(LOGGER, "worker_exited", level=logging.WARNING, agent="support", reason="line\nbreak")

    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["event"], told["level"], told["agent"], told["reason"]) == (
        "worker_exited", "WARNING", "support", "line\nbreak",
    )  # fmt: skip


@pytest.mark.parametrize("style", ["text", "json"])
def test_secrets_are_masked(stream: io.StringIO, style: str) -> None:
    log.configure("json" if style == "json" else "text", stream=stream)

    log.event(LOGGER, "connecting", url="redis://me:hunter2@host:6379/0", owner_token="t0k3n")
    LOGGER.warning("cannot reach redis://:hunter2@host")

    assert "hunter2" not in stream.getvalue()
    assert "t0k3n" not in stream.getvalue()
    assert "redis://me:***@host:6379/0" in stream.getvalue()


def test_an_absence_of_redis_is_told_once_and_its_return_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = StoreWatch(LOGGER, "reports")

    with caplog.at_level(logging.INFO):
        pauses = [watch.failed(ConnectionError("refused")) for _ in range(50)]
        watch.answered()
        watch.answered()

    assert [record.getMessage() for record in caplog.records] == ["store_away", "store_back"]
    assert max(pauses) <= LONGEST_PAUSE
    assert pauses[0] < pauses[-1]
