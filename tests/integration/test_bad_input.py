"""Bad input through the command line: one line that names the thing and the fix, an exit code, and nothing changed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]


class CommandLine:
    """``regrow`` as a process of its own, in a folder of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REGROW_")}
        self.environment = {**kept, "REDIS_URL": url, "REGROW_STATE_DIR": str(folder / "state")}

    def run(self, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "regrow", *words],
            cwd=self.folder, env={**self.environment, **more}, input=stdin,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def refused(self, *words: str, code: int, stdin: str = "", **more: str) -> str:
        """The one line that it says."""
        done = self.run(*words, stdin=stdin, **more)
        lines = done.stderr.splitlines()
        assert (done.returncode, done.stdout, len(lines)) == (code, "", 1), done
        return lines[0]


@pytest.fixture
def regrow(redis_url: str, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, redis_url)


@pytest.fixture
def stage(connection: Connection, raw: Any, keys: Keys) -> Stage:
    """Agents ``support`` and ``full``, whose mailbox has room for one signal."""
    stage = Stage(connection, raw, keys)
    stage.register("support")
    stage.register("full", max_mailbox=1)
    return stage


def assert_says(line: str, *parts: str) -> None:
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("send", "nobody", "ticket.opened"), 1, ("nobody", "regrow tree")),
        (("state", "nobody"), 1, ("nobody", "regrow tree")),
        (("send", "no spaces!", "ticket.opened"), 2, ("no spaces!", "A-Z a-z 0-9")),
        (("state", "/x"), 2, ("/x", "A-Z a-z 0-9")),
        (("send", "support", "ticket..opened"), 2, ("ticket..opened", "dot")),
        (("send", "support", "ticket opened"), 2, ("ticket opened", "dot")),
        (("send", "support", "ticket.opened", "{'subject': 1}"), 2, ("JSON",)),
        (("send", "support", "ticket.opened", '{"cents": NaN}'), 2, ("strict JSON", "column")),
        (("send", "support", "ticket.opened", '{"cents": 1e999}'), 2, ("JSON",)),
        (("send", "support", "ticket.opened", '{"who": "\\ud800"}'), 2, ("strict JSON", "column")),
        (("send", "support", "ticket.opened", "[" * 65 + "]" * 65), 2, ("64",)),
        (("dead", "retry", "nobody", "1-1"), 1, ("nobody",)),
        (("dead", "drop", "support", "1-1"), 1, ("1-1",)),
    ],
)
def test_input_that_is_wrong_by_itself(
    regrow: CommandLine,
    stage: Stage,
    unchanged: Unchanged,
    words: tuple[str, ...],
    code: int,
    says: tuple[str, ...],
) -> None:
    with unchanged():
        line = regrow.refused(*words, code=code)
    assert_says(line, *says)


def test_an_oversized_signal(regrow: CommandLine, stage: Stage, unchanged: Unchanged) -> None:
    with unchanged():
        line = regrow.refused("send", "support", "a.b", "-", stdin=f'"{"x" * 300_000}"', code=2)
    assert_says(line, "300", "262")


def test_a_full_mailbox(regrow: CommandLine, stage: Stage, unchanged: Unchanged) -> None:
    assert regrow.run("send", "full", "a.b").returncode == 0

    with unchanged():
        line = regrow.refused("send", "full", "a.b", code=1)
    assert_says(line, "full", "mailbox", "1")


def test_full_dead_letters(regrow: CommandLine, stage: Stage, unchanged: Unchanged) -> None:
    stage.raw.xadd(
        stage.keys.dead("support"), {"reason": "rejected", "entry": "1-1", "id": "x", "type": "a.b"}
    )

    with unchanged():
        line = regrow.refused("send", "support", "a.b", code=1, REGROW_MAX_DEAD="1")
    assert_says(line, "support", "dead letters", "retry or drop", "regrow dead")


def test_the_same_id_with_other_content(regrow: CommandLine, stage: Stage, unchanged: Unchanged) -> None:
    assert regrow.run("send", "support", "a.b", '{"n": 1}', "--id", "t-17").returncode == 0
    again = regrow.run("send", "support", "a.b", '{"n": 1}', "--id", "t-17")
    assert (again.returncode, "accepted before" in again.stdout) == (0, True)

    with unchanged():
        line = regrow.refused("send", "support", "a.b", '{"n": 2}', "--id", "t-17", code=1)
    assert_says(line, "support", "t-17")


@pytest.mark.parametrize(
    "words", [("send", "support", "a.b"), ("tree",), ("state", "support"), ("kill", "support")]
)
def test_a_redis_that_is_not_there(regrow: CommandLine, words: tuple[str, ...]) -> None:
    line = regrow.refused(*words, code=3, REDIS_URL="unix:///nowhere/redis.sock")
    assert_says(line, "/nowhere/redis.sock", "cannot be reached", "REDIS_URL")


@pytest.mark.parametrize(
    "service", [("watchdog", "a:b"), ("worker", "a:b"), ("effects", "a:b"), ("metrics",), ("tree",)]
)
def test_no_redis_named_at_all(regrow: CommandLine, service: tuple[str, ...]) -> None:
    line = regrow.refused(*service, code=2, REDIS_URL="")
    assert_says(line, "REDIS_URL", "regrow up")


@pytest.mark.parametrize("url", ["http://here", "redis://here:port", "here"])
def test_a_url_that_is_none(regrow: CommandLine, url: str) -> None:
    assert_says(regrow.refused("tree", code=2, REDIS_URL=url), "REDIS_URL")


def test_a_setting_that_is_wrong_or_unknown(regrow: CommandLine) -> None:
    assert_says(regrow.refused("tree", code=2, REGROW_LEASE="often"), "REGROW_LEASE")
    assert_says(regrow.refused("tree", code=2, REGROW_LEESE="3"), "REGROW_LEESE", "did you mean REGROW_LEASE")
    assert_says(regrow.refused("-n", "}{", "tree", code=2), "}{")


@pytest.mark.parametrize("key", ["agent", "mailbox", "dead", "seen"])
def test_a_key_of_ours_with_the_wrong_type(
    regrow: CommandLine, stage: Stage, unchanged: Unchanged, key: str
) -> None:
    name = getattr(stage.keys, key)("support")
    stage.raw.delete(name)
    stage.raw.set(name, "not ours")

    with unchanged():
        line = regrow.refused("send", "support", "a.b", code=3)
    assert_says(line, name)


class OldServer:
    """Answers like a Redis of another age: enough to be asked for its version."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="regrow-old-"))
        self.url = f"unix://{self.folder}/redis.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self.folder}/redis.sock")
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        info = b"# Server\r\nredis_version:5.0.7\r\nredis_mode:standalone\r\nrun_id:x\r\n"
        with suppress(OSError), link:
            while data := link.recv(65536):
                for command in data.split(b"*")[1:]:
                    if b"\r\nINFO\r\n" in command:
                        link.sendall(b"$%d\r\n%s\r\n" % (len(info), info))
                    elif b"\r\nPING\r\n" in command:
                        link.sendall(b"+PONG\r\n")
                    elif b"\r\nXREAD\r\n" in command:
                        link.sendall(b"*-1\r\n")
                    elif b"\r\nEVALSHA\r\n" in command:
                        link.sendall(b"-NOSCRIPT No matching script.\r\n")
                    else:
                        link.sendall(b"-ERR unknown command\r\n")


@pytest.fixture
def old_server() -> Iterator[OldServer]:
    server = OldServer()
    yield server
    server.close()


TREE = """
    from regrow import Agent, State, Supervisor
    class Desk(State):
        open: int = 0
    class Support(Agent[Desk], name="support"):
        pass
    tree = Supervisor("desk", [Support.child("support")])
"""


@pytest.mark.parametrize("service", ["watchdog", "worker"])
def test_a_server_that_is_too_old(regrow: CommandLine, old_server: OldServer, service: str) -> None:
    (regrow.folder / "desk_app.py").write_text(textwrap.dedent(TREE))

    done = regrow.run(service, "desk_app:tree", REDIS_URL=old_server.url)

    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert (done.returncode, len(lines)) == (69, 1), done
    assert_says(lines[0], "5.0.7", "7.0")


def test_doctor_names_a_server_that_is_too_old(regrow: CommandLine, old_server: OldServer) -> None:
    done = regrow.run("doctor", REDIS_URL=old_server.url)

    assert done.returncode != 0, done
    assert any("FAIL" in line and "5.0.7" in line and "7.0" in line for line in done.stdout.splitlines()), (
        done
    )


HEAD = """
from regrow import Agent, Emit, Payload, Signal, State, Step, Supervisor, handles

class Opened(Payload, type="ticket.opened"):
    subject: str

class Desk(State):
    open: int = 0
"""
AGENT = """
class Support(Agent[Desk], name="support"):
    @handles(Opened)
    {handler}

tree = Supervisor("desk", [Support.child("support")])
"""
TWICE = """
class Support(Agent[Desk], name="support"):
    @handles(Opened)
    def first(self, desk: Desk, opened: Opened) -> Step[Desk]: ...
    @handles("ticket.opened")
    def second(self, desk: Desk, signal: Signal) -> Step[Desk]: ...

tree = Supervisor("desk", [Support.child("support")])
"""
SAME_ID = """
class Support(Agent[Desk], name="support"):
    pass

tree = Supervisor("desk", [Support.child("support"), Support.child("support")])
"""


def handler(text: str) -> str:
    return HEAD + AGENT.format(handler=text)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nothing_of_this_name", ("nothing_of_this_name", "bad_app.py:1")),
        ("tree = ", ("SyntaxError", "bad_app.py")),
        ("1 / 0", ("ZeroDivisionError", "bad_app.py:1")),
        ("tree = 5", ("bad_app:tree", "int", "Supervisor(...)")),
        ("three = 5", ("bad_app", "no attribute 'tree'")),
        (HEAD + SAME_ID, ("'support'", "'desk'", "twice", "another id", "bad_app.py:")),
        (HEAD + TWICE, ("first()", "second()", "ticket.opened", "join them")),
        (handler("async def opened(self, desk: Desk, opened: Opened) -> Step[Desk]: ..."), ("opened()", "async def")),
        (handler("def opened(self, desk: Desk) -> Step[Desk]: ..."), ("opened()",)),
        (handler("def opened(self, desk: Desk, opened: int) -> Step[Desk]: ..."), ("opened()", "Opened")),
    ],
    ids=[
        "does not import", "is no Python", "fails at import", "names no tree", "has no tree",
        "two children with one id", "two handlers for one pattern", "async handler", "wrong arity",
        "wrong annotation",
    ],
)  # fmt: skip
def test_an_application_that_cannot_work(
    regrow: CommandLine, unchanged: Unchanged, source: str, says: tuple[str, ...]
) -> None:
    (regrow.folder / "bad_app.py").write_text(source)

    with unchanged():
        line = regrow.refused("watchdog", "bad_app:tree", code=78)
    assert_says(line, *says)


@pytest.mark.parametrize("service", ["worker", "effects"])
def test_a_node_with_an_application_that_cannot_work(
    regrow: CommandLine, unchanged: Unchanged, service: str
) -> None:
    (regrow.folder / "bad_app.py").write_text(HEAD + TWICE)

    with unchanged():
        done = regrow.run(service, "bad_app:tree")

    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert (done.returncode, len(lines)) == (78, 1), done
    assert_says(lines[0], "first()", "second()", "join them")


@pytest.mark.parametrize("named", ["bad_app", ":tree", "bad app:tree", "nowhere:tree"])
def test_an_application_that_is_not_named_right(regrow: CommandLine, named: str) -> None:
    line = regrow.refused("watchdog", named, code=78)
    assert_says(line, named.removesuffix(":tree") or named)
