"""The guard of purity: each thing that a handler must not do is refused by name, with what to do instead."""

from __future__ import annotations

# ruff: noqa: PLW0108  the calls are made from Python code, as handlers make them
import contextlib
import datetime as datetime_module
import gc
import logging
import os
import random
import secrets
import socket
import sqlite3
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from random import randint
from time import time as now_in_seconds
from uuid import uuid4

import pytest

from regrow import Agent, Context, Payload, State, Step, handles
from regrow.errors import BadDefinition, ImpureHandler
from regrow_workers.purity import guard, guarded


def refused(deed: Callable[[], object]) -> str:
    with pytest.raises(ImpureHandler) as caught:
        guarded(deed, (), "Desk.opened()", "enforce")
    assert guard.thread == 0
    return str(caught.value)


DEEDS: dict[str, tuple[Callable[[], object], str, str]] = {
    "time.time": (lambda: time.time(), "time.time()", "ctx.now"),
    "time.time by its own name": (lambda: now_in_seconds(), "time.time()", "ctx.now"),
    "time.monotonic": (lambda: time.monotonic(), "time.monotonic()", "ctx.now"),
    "datetime.now": (lambda: datetime.now(UTC), "datetime.now()", "ctx.now"),
    "datetime.utcnow": (lambda: datetime_module.datetime.today(), "datetime.today()", "ctx.now"),
    "date.today": (lambda: date.today(), "date.today()", "ctx.now"),
    "time.sleep": (lambda: time.sleep(0), "time.sleep()", "must not wait"),
    "random.random": (lambda: random.random(), "random.random()", "ctx.random"),
    "random.randint": (lambda: randint(1, 6), "random.randint()", "ctx.random"),
    "random.choice": (lambda: random.choice("abc"), "random.choice()", "ctx.random"),
    "uuid.uuid4": (lambda: uuid4(), "uuid.uuid4()", "ctx.uuid()"),
    "secrets": (lambda: secrets.token_hex(), "secrets.token_hex()", "ctx.random"),
    "os.urandom": (lambda: os.urandom(4), "os.urandom()", "ctx.uuid()"),
    "a thread": (lambda: threading.Thread(target=print).start(), "threading.start()", "effect.run"),
    "putenv": (lambda: os.environ.__setitem__("REGROW_TEST_X", "1"), "REGROW_TEST_X", "State"),
    "subprocess": (lambda: subprocess.run(["true"], check=True), "true", "effect"),
    "os.system": (lambda: os.system("true"), "os.system", "effect"),  # pyright: ignore[reportDeprecated]
    "os.fork": (lambda: os.fork(), "os.fork()", "effect"),
    "sqlite3": (lambda: sqlite3.connect(":memory:"), ":memory:", "effect"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_replay_could_not_repeat_is_refused_by_name(deed: str) -> None:
    function, call, instead = DEEDS[deed]

    message = refused(function)

    assert message.startswith("Desk.opened(): ")
    assert call in message
    assert instead in message


def test_a_connection_is_refused_before_it_is_made() -> None:
    with socket.socket() as listening, socket.socket() as calling:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        message = refused(lambda: calling.connect(listening.getsockname()))

    assert "connecting to ('127.0.0.1'" in message
    assert "effect" in message


def test_a_file_may_be_read_and_not_written(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("text")

    assert guarded(kept.read_text, (), "f", "enforce") == "text"
    for writing in (lambda: kept.write_text("x"), kept.unlink, (tmp_path / "new").mkdir):
        refused(writing)
    assert kept.read_text() == "text"


def test_imports_logging_and_printing_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    def deed() -> int:
        import wave

        assert wave

        logging.getLogger("handler").warning("seen")
        print("seen")
        return random.Random(7).randint(1, 6) + int(datetime(2020, 1, 1).timestamp() > 0)

    assert guarded(deed, (), "f", "enforce") in range(1, 8)
    assert "seen" in caplog.text


def test_who_is_called_back_by_the_garbage_collector_is_not_the_handlers_doing() -> None:
    def timed(phase: str, info: dict[str, int]) -> None:
        time.perf_counter()

    def collects() -> None:
        gc.collect()

    gc.callbacks.append(timed)
    try:
        guarded(collects, (), "f", "enforce")
    finally:
        gc.callbacks.remove(timed)


def test_what_a_handler_swallows_is_raised_all_the_same() -> None:
    def deed() -> None:
        with contextlib.suppress(Exception):
            time.time()

    assert "time.time()" in refused(deed)


def test_other_threads_are_left_alone() -> None:
    heard: list[float] = []
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(5)
        heard.append(time.time())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def deed() -> bool:
        go.set()
        return done.wait(5)

    with contextlib.suppress(ImpureHandler):  # waiting looks at a clock
        guarded(deed, (), "f", "enforce")
    thread.join(5)

    assert heard


def test_a_warning_is_logged_once_for_a_handler_and_the_call_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = f"Warned.{uuid.uuid4().hex}()"

    def deed() -> bool:
        os.environ["REGROW_TEST_WARNED"] = "1"
        return True

    assert [guarded(deed, (), shown, "warn") for _ in range(3)] == [True] * 3
    told = [record for record in caplog.records if record.getMessage() == "impure_handler"]
    assert len(told) == 1
    assert shown in str(vars(told[0]))


def test_off_does_not_look() -> None:
    assert guarded(time.time, (), "f", "off") > 0


class Asked(Payload, type="asked"):
    pass


class Told(State):
    at: float = 0.0


class Strict(Agent[Told], name="strict"):
    @handles(Asked)
    def asked(self, told: Told, asked: Asked, ctx: Context) -> Step[Told]:
        return told.evolve(at=time.time())


class Lax(Strict, name="lax", guard="off"):
    pass


def test_cmd_enforces_so_that_a_plain_unit_test_finds_it() -> None:
    with pytest.raises(ImpureHandler, match=r"Strict\.asked\(\): time\.time\(\) .* ctx\.now"):
        Strict.cmd(Told(), Asked())


def test_an_agent_type_may_choose_otherwise() -> None:
    assert Lax.cmd(Told(), Asked())[0].at > 0


def test_an_unknown_choice_is_refused_at_definition() -> None:
    with pytest.raises(BadDefinition, match='must be "enforce", "warn" or "off"'):

        class X(Agent[Told], name="x", guard="maybe"):  # type: ignore[arg-type]
            pass
