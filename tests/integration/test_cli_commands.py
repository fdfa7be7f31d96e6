"""The command line against one running system: what is printed for people, what for machines, and the exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regrow.cli
from regrow.settings import load_settings
from regrow.up import Stack
from tests.conftest import wait_until

APPLICATION = """
from regrow import Agent, Context, Payload, Reject, Reply, Signal, State, Step, Supervisor, handles

class Add(Payload, type="add"):
    by: int

class Count(State):
    total: int = 0

class Counter(Agent[Count], name="counter"):
    @handles(Add)
    def add(self, state: Count, add: Add) -> Step[Count]:
        if add.by < 0:
            raise Reject("only upwards")
        return state.evolve(total=state.total + add.by)

    @handles("total")
    def tell(self, state: Count, signal: Signal, ctx: Context) -> Step[Count]:
        return Reply({"total": state.total, "times": signal.value["times"]}, to=ctx.reply_to)

    @handles("silence")
    def say_nothing(self, state: Count, signal: Signal) -> Step[Count]:
        return None

tree = Supervisor("shop", [Counter.child("a"), Counter.child("b")])
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs ``regrow`` beside a system of its own."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-cli-"))
    (folder / "shop.py").write_text(APPLICATION)
    (folder / "shop_of_tomorrow.py").write_text(
        APPLICATION.replace("state.total + add.by", "state.total + 2 * add.by")
    )
    environment = {
        **os.environ,
        "REGROW_STATE_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
    }
    environment.pop("REDIS_URL", None)

    def command(*words: str, stdin: str = "", process: bool = False) -> subprocess.CompletedProcess[str]:
        if not process:
            return in_this_process(words, stdin, folder)
        return subprocess.run(
            [sys.executable, "-m", "regrow", *words],
            env=environment, input=stdin, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip

    settings = load_settings(state_dir=folder, redis_url="")
    with Stack("shop:tree", settings=settings, services=("watchdog", "worker"), environment=environment):
        wait_until(lambda: command("tree").stdout.count("running") == 3, "both agents run", timeout=40)
        yield command
    shutil.rmtree(folder, ignore_errors=True)


def in_this_process(words: tuple[str, ...], stdin: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As a process of its own would, without the time that its imports take."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGROW_STATE_DIR", str(folder))
        patch.delenv("REDIS_URL", raising=False)
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = regrow.cli.run_words(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sent_signal_is_applied_and_seen_in_the_state(run: Run) -> None:
    before = document(run("state", "a", "--json"))["state"]["total"]

    sent = run("send", "a", "add", '{"by": 2}', "--wait", "10")

    assert (sent.returncode, "applied" in sent.stdout) == (0, True)
    after = document(run("state", "a", "--json"))
    assert after["state"]["total"] == before + 2
    assert after["status"] == "running"
    assert '"total"' in run("state", "a").stdout


def test_data_may_come_from_stdin_and_a_repeated_id_changes_nothing(run: Run) -> None:
    first = document(
        run("send", "a", "add", "-", "--id", "same", "--json", "--wait", "10", stdin='{"by": 1}')
    )
    again = document(run("send", "a", "add", '{"by": 1}', "--id", "same", "--json", "--wait", "10"))

    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again["entry"] == first["entry"]
    other = run("send", "a", "add", '{"by": 5}', "--id", "same")
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)


def test_an_agent_is_asked_and_its_reply_is_on_stdout(run: Run) -> None:
    total = document(run("state", "a", "--json"))["state"]["total"]

    assert document(run("ask", "a", "total", '{"times": 3}')) == {"total": total, "times": 3}
    assert document(run("ask", "a", "total", "-", stdin='{"times": 4}')) == {"total": total, "times": 4}


def test_a_cloudevent_is_sent_from_stdin_or_a_file(run: Run, tmp_path: Path) -> None:
    event = {"specversion": "1.0", "id": "ce-1", "type": "add", "source": "/web", "data": {"by": 2}}
    (tmp_path / "event.json").write_text(json.dumps(event))

    first = run("send", "a", "--cloudevent", str(tmp_path / "event.json"), "--json", "--wait", "10")
    again = run("send", "a", "--cloudevent", "-", "--json", stdin=json.dumps(event))
    wrong = run("send", "a", "--cloudevent", "-", stdin='{"specversion": "0.3"}')

    assert document(first)["id"] == "ce-1" and document(first)["status"] == "applied"
    assert document(again)["duplicate"] is True
    assert (wrong.returncode, "specversion" in wrong.stderr) == (2, True)
    assert run("send", "a").returncode == 2
    assert run("send", "a", "add", "{}", "--cloudevent", "-", stdin="{}").returncode == 2


def test_what_came_instead_of_a_reply_is_told_by_the_exit_code(run: Run) -> None:
    unknown = run("ask", "a", "add", '{"by": -1}', "--id", "no-1")
    silent = run("ask", "a", "silence", "--timeout", "0.1", "--id", "si-1")
    nobody = run("ask", "nobody", "total", "{}")

    assert (unknown.returncode, unknown.stdout) == (4, "")
    assert "rejected: only upwards" in unknown.stderr and "regrow dead list a" in unknown.stderr
    assert (silent.returncode, silent.stdout) == (5, "")
    assert "no handler has replied" in silent.stderr and "--id si-1" in silent.stderr
    assert nobody.returncode == 1
    assert "dropped" in run("dead", "drop", "a", "--all").stdout


def test_a_journal_is_run_again_and_other_code_is_found_by_the_version(run: Run) -> None:
    version = document(run("state", "b", "--json"))["version"]
    assert run("send", "b", "add", '{"by": 3}', "--wait", "10").returncode == 0
    assert run("ask", "b", "total", '{"times": 1}').returncode == 0

    same = run("replay", "b", "shop:tree", "--from", str(version + 1), process=True)
    other = run("replay", "b", "shop_of_tomorrow:tree", "--json", process=True)

    assert same.returncode == 0, same.stderr
    assert "total: " in same.stdout and "2 transitions of b came out as they did" in same.stdout
    assert other.returncode == 1, other.stderr
    found = json.loads(other.stdout)
    assert version + 1 in [step["version"] for step in found["steps"] if "state" in step["differs"]]
    assert found["differs_at"] <= version + 1
    assert run("replay", "nobody", "shop:tree").returncode == 1
    assert run("replay", "b", "no.such:tree").returncode == 78


def test_rejected_signal_is_a_dead_letter_that_can_be_listed_retried_and_dropped(run: Run) -> None:
    sent = run("send", "b", "add", '{"by": -1}', "--wait", "10")
    assert (sent.returncode, "dead (rejected)" in sent.stdout) == (4, True)

    [letter] = document(run("dead", "list", "b", "--json"))
    assert "only upwards" in letter["error"]
    assert "only upwards" in run("dead", "list", "b").stdout
    assert "is sent again as" in run("dead", "retry", "b", letter["letter"]).stdout
    wait_until(
        lambda: len(document(run("dead", "list", "b", "--json"))) == 1, "it is dead once more", timeout=40
    )
    assert "is dropped" in run("dead", "drop", "b", "--all").stdout
    assert run("dead", "list", "b").stdout == "b has no dead letters\n"
    assert run("dead", "retry", "b").returncode == 2


def test_hold_is_kept_until_it_is_lifted(run: Run) -> None:
    assert run("stop", "b").returncode == 0
    wait_until(lambda: document(run("state", "b", "--json"))["status"] == "held", "b is held", timeout=40)
    assert "on hold" in run("tree").stdout

    assert run("start", "b").returncode == 0
    wait_until(lambda: document(run("state", "b", "--json"))["status"] == "running", "b runs", timeout=40)


def test_a_state_that_cannot_be_read_is_shown_and_read_once_more_when_it_is_mended(run: Run) -> None:
    def status() -> str:
        return str(document(run("state", "b", "--json"))["status"])

    life = document(run("state", "b", "--json"))
    assert run("redis", "HSET", "{regrow}:agent:b", "state", "junk", process=True).returncode == 0

    assert run("kill", "b").returncode == 0
    wait_until(lambda: status() == "parked", "b is parked", timeout=40)
    sent = run("send", "b", "add", '{"by": 1}')

    assert sent.returncode == 0
    assert "unreadable_state:stored state does not fit Count" in run("tree").stdout
    doctor = run("doctor")
    assert "b (unreadable_state:" in doctor.stdout
    assert document(run("revive", "--unreadable", "--json"))["agents"] == ["b"]
    wait_until(lambda: status() == "parked", "b is parked again", timeout=40)
    assert run("redis", "HSET", "{regrow}:agent:b", "state", '{"total": 7}', process=True).returncode == 0
    assert "1 agent(s) read their state once more: b" in run("revive", "--unreadable").stdout
    wait_until(lambda: status() == "running", "b runs", timeout=40)
    wait_until(lambda: document(run("state", "b", "--json"))["state"]["total"] == 8, "b goes on", timeout=40)
    assert "none was parked for it" in run("revive", "--unreadable").stdout
    assert document(run("state", "b", "--json"))["incarnation"] == life["incarnation"] + 3
    assert (run("revive").returncode, run("revive", "b", "--unreadable").returncode) == (2, 2)


def test_killed_agent_comes_back_and_the_events_say_why(run: Run) -> None:
    before = document(run("state", "a", "--json"))["incarnation"]

    assert run("kill", "a").returncode == 0

    wait_until(
        lambda: document(run("state", "a", "--json"))["incarnation"] > before, "a new life began", timeout=40
    )
    listed = [json.loads(line) for line in run("events", "--json").stdout.splitlines()]
    assert any(event["event"] == "exited" and event["reason"] == "operator" for event in listed)
    assert "exited" in run("events", "--count", "30").stdout


def test_tree_is_one_document_for_machines(run: Run) -> None:
    tree = document(run("tree", "--json"))

    assert tree["leader"] is True
    [root] = tree["roots"]
    assert (root["path"], root["strategy"]) == ("shop", "one_for_one")
    assert [child["id"] for child in root["children"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("state", "nobody"), 1, "no agent nobody"),
        (("send", "nobody", "add", "{}"), 1, "no agent nobody"),
        (("send", "a", "add", "{"), 2, "JSON"),
        (("send", "a", "a..b", "{}"), 2, "a..b"),
        (("send", "a b", "add", "{}"), 2, "a b"),
        (("kill", "nobody"), 1, "nobody"),
        (("stop", "nobody"), 1, "nobody"),
        (("worker", "shop:tree"), 2, "REDIS_URL"),
        (("watchdog", "shop:tree"), 2, "REDIS_URL"),
        (("metrics",), 2, "REDIS_URL"),
        (("up", "nothing_there:tree"), 78, "nothing_there"),
    ],
)
def test_what_is_wrong_is_one_line_with_a_code(
    run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    done = run(*words)

    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_top_tells_of_a_running_system_once(run: Run) -> None:
    picture = document(run("top", "--once", "--interval", "0.1", "--json"))

    assert picture["leader"] and picture["rates"].keys() >= {"applied", "ends"}
    assert {row["type"]: row["agents"] for row in picture["types"]} == {"counter": 2}
    assert "running" in run("top", "--once", "--interval", "0.1").stdout


def test_tree_of_one_agent_shows_it_under_its_supervisor(run: Run) -> None:
    (branch,) = document(run("tree", "b", "--json"))["roots"]

    assert (branch["path"], [leaf["id"] for leaf in branch["children"]]) == ("shop", ["b"])
    assert run("tree", "nobody").returncode == 1


def test_help_names_every_command(run: Run) -> None:
    text = run("--help", process=True).stdout

    for command in (
        "up",
        "send",
        "state",
        "tree",
        "events",
        "dead",
        "kill",
        "stop",
        "start",
        "redis",
        "doctor",
        "bench",
    ):
        assert f"\n  {command} " in text
