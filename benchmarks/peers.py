"""regrow beside its peers, on one Redis, in turns: ``python -m benchmarks.peers``.

Each peer is installed, by this program, into an environment of its own, and works off a backlog of tasks: *no-op*, and
*the same work*: one counter in Redis goes up by one and the task is acknowledged after it. regrow's agent counts in its
own state, which is in Redis, with journal and cursor, when it counts. All run with as many processes as the machine
has cores where they can use them, and otherwise as they come; the time is from the first tenth to the last task, so
starting up is no part of it. Medians of rounds; every round checks that the counter is exact.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regrow.bench.pooled import measure_pooled
from regrow.bench.system import BenchError, until
from regrow.bench.throughput import measure_throughput
from regrow.embedded_redis import EmbeddedRedis
from regrow_signals.calls import Command
from regrow_signals.connection import Connection

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "benchmarks" / "peers.txt"
CORES = str(os.cpu_count() or 1)
STAMPS, COUNTER = "peers:stamps", "peers:counter"
ONE, POOLED = "regrow, one agent", "regrow, 10,000 pooled agents, one signal in turn for each"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


@dataclass(frozen=True, slots=True)
class Peer:
    """``app`` fills the queue when run; ``worker`` is how its own command works it off, in the peers' environment."""

    name: str
    app: str
    worker: tuple[str, ...]
    tasks: int


PEERS = (
    Peer(
        "Celery",
        "celery_app",
        ("celery", "-A", "benchmarks.peer_apps.celery_app", "worker", "-c", CORES, "-l", "ERROR"),
        3_000,
    ),
    Peer(
        "Dramatiq",
        "dramatiq_app",
        ("dramatiq", "benchmarks.peer_apps.dramatiq_app", "-p", CORES),
        3_000,
    ),
    Peer("RQ, fork Worker", "rq_app", ("rq", "worker", "peers", "-q"), 200),
    Peer(
        "RQ, SimpleWorker",
        "rq_app",
        ("rq", "worker", "peers", "-q", "-w", "rq.worker.SimpleWorker"),
        1_000,
    ),
    Peer(
        "taskiq, streams",
        "taskiq_app",
        ("taskiq", "worker", "benchmarks.peer_apps.taskiq_app:broker", "-w", CORES, "--log-level", "ERROR"),
        10_000,
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a fifth of the tasks")
    parser.add_argument("--json", action="store_true", help="every round, as data")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    parser.add_argument("--environment", type=Path, help="where the peers are installed, and found again")
    told = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="regrow-peers-") as folder:
        environment = told.environment or Path(folder) / "environment"
        programs = install(environment)
        found = measured(Path(folder), programs, told.rounds, 5 if told.quick else 1)
        versions = installed(programs)
    table = as_table(found, versions, told.rounds)
    print(json.dumps({"rates": found, "versions": versions}, indent=2) if told.json else table)
    if told.write:
        page = ROOT / "benchmarks" / "README.md"
        head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{page}: the marks {BEGIN} and {END} are not there")
        page.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


def install(environment: Path) -> Path:
    """The peers at their pinned versions; the folder of their programs."""
    programs = environment / "bin"
    if not (programs / "taskiq").exists():
        print(f"installing the peers into {environment}", file=sys.stderr)
        venv.create(environment, with_pip=True)
        subprocess.run([programs / "pip", "install", "--quiet", "--requirement", PINS], check=True)
    return programs


def installed(programs: Path) -> dict[str, str]:
    """Their versions, as they say themselves."""
    listed = subprocess.run(
        [programs / "pip", "list", "--format", "json"], check=True, capture_output=True, text=True
    )
    wanted = {"celery", "dramatiq", "rq", "taskiq", "taskiq-redis", "redis"}
    return {one["name"]: one["version"] for one in json.loads(listed.stdout) if one["name"] in wanted}


def measured(folder: Path, programs: Path, rounds: int, part: int) -> dict[str, dict[str, list[float]]]:
    """Rates by name and kind of task, a round of all after a round of all: a busy minute falls on everybody."""
    found: dict[str, dict[str, list[float]]] = {}

    def add(name: str, kind: str, rate: float) -> None:
        print(f"{name}, {kind}: {rate:,.0f} a second", file=sys.stderr)
        found.setdefault(name, {}).setdefault(kind, []).append(rate)

    with EmbeddedRedis(folder / "redis") as server:
        stage = Stage(
            Connection.open(server.info.url, name="regrow-peers"),
            programs,
            {
                **os.environ,
                "PEERS_REDIS": f"redis://:{server.info.password}@127.0.0.1:{server.info.port}/0",
                "PYTHONPATH": str(ROOT),
            },
        )
        for _ in range(rounds):
            for peer in PEERS:
                for kind in ("noop", "work"):
                    add(peer.name, kind, stage.one_round(peer, kind, peer.tasks // part))
            stage.clear()
            result = measure_throughput(100_000 // part, 1)
            add(ONE, "work", float(result["per_second"]))
            add("regrow, one agent, batch 1", "work", float(result["batch_1_per_second"]))
            add(POOLED, "work", float(measure_pooled(10_000 // part, 1)["per_second"]))
        stage.connection.close()
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the peers run: their Redis, their programs, their environment."""

    connection: Connection
    programs: Path
    surroundings: Mapping[str, str]

    def clear(self) -> None:
        self.connection.command(Command(("FLUSHALL",), str))

    def one_round(self, peer: Peer, kind: str, tasks: int) -> float:
        """Tasks a second, from the first tenth to the last."""
        self.clear()
        fill = f"from benchmarks.peer_apps.{peer.app} import fill; fill({kind!r}, {tasks})"
        interpreter = self.programs / "python"
        subprocess.run([interpreter, "-c", fill], check=True, env=self.surroundings, cwd=ROOT)
        program, *rest = peer.worker
        command = [str(self.programs / program), *rest]
        if program == "rq":
            command += ["--url", self.surroundings["PEERS_REDIS"]]
        process = subprocess.Popen(
            command, env=self.surroundings, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until(
                lambda: process.poll() is not None or bool(self.stamp("done")),
                f"{peer.name} has done {tasks} tasks",
                180.0,
                pause=0.05,
            )
            if process.poll() is not None:
                raise BenchError(
                    f"{peer.name}: its worker ended with {process.returncode}: {' '.join(command)}"
                )
        finally:
            end(process)
        counted = self.connection.command(Command(("GET", COUNTER), str))
        if kind == "work" and counted != str(tasks):
            raise BenchError(f"{peer.name}: {tasks} tasks, its counter says {counted}")
        return (tasks - tasks // 10) / (float(self.stamp("done")) - float(self.stamp("began")))

    def stamp(self, name: str) -> str:
        """The moment that a task wrote down; empty before it did."""
        return self.connection.command(Command(("HGET", STAMPS, name), lambda reply: reply or ""))


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for whoever does not mind it."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def as_table(
    found: Mapping[str, Mapping[str, Sequence[float]]], versions: Mapping[str, str], rounds: int
) -> str:
    """Markdown: medians, spread, and how many times each regrow is, with one agent and with many."""
    ours = [statistics.median(found[name]["work"]) for name in (ONE, POOLED)]
    rows = [
        "| | no-op, a second | the same work, a second | rounds, lowest to highest | one agent is | pooled are |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, kinds in found.items():
        work = kinds["work"]
        noop = f"{statistics.median(kinds['noop']):,.0f}" if "noop" in kinds else ""
        median = statistics.median(work)
        times = ["" if name.startswith("regrow") else f"{rate / median:,.1f} times" for rate in ours]
        spread = f"{min(work):,.0f} to {max(work):,.0f}"
        rows.append(f"| {name} | {noop} | {median:,.0f} | {spread} | {' | '.join(times)} |")
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return (
        "\n".join(rows)
        + f"\n\n{said}; {CORES} cores, {platform.machine()}, Python {platform.python_version()}; medians of {rounds} "
        f"rounds in turns. Load average after: {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
