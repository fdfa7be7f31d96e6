"""What grows with size, and what does not: ``python -m benchmarks.scale``.

Registers 10 to 100,000 pooled agents on this machine, by the spec tree and by sends that create them, and times all
that stands around them; before that, what a signal costs as backlog, state, signal and nodes grow. ``--write`` puts the
table into this folder's README and draws ``scale.svg``; ``--json FILE`` keeps the figures, ``--figures FILE`` takes
them from there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.scale_agents import measure_agents, measure_isolated
from benchmarks.scale_plot import Panel, as_svg
from benchmarks.scale_work import measure_backlog, measure_nodes, measure_signal_size, measure_state_size

HERE = Path(__file__).resolve().parent
PAGE, PICTURE = HERE / "README.md", HERE / "scale.svg"
BEGIN, END = "<!-- scale: begin -->", "<!-- scale: end -->"

Result = Mapping[str, Any]

#: sizes of agents by the way they are registered; a tree names each of its children, and is handed in whole
AGENTS: Mapping[str, Sequence[int]] = {"send": (10, 1_000, 10_000, 100_000), "tree": (10, 1_000, 10_000)}

WORK: Mapping[str, tuple[Callable[[int], Result], Sequence[int]]] = {
    "backlog": (measure_backlog, (10, 1_000, 100_000, 1_000_000)),
    "state_bytes": (measure_state_size, (100, 1_000, 10_000, 100_000, 1_000_000)),
    "signal_bytes": (measure_signal_size, (100, 1_000, 10_000, 100_000, 250_000)),
    "nodes": (measure_nodes, (1, 2, 3, 4)),
}

#: what a row says, the figure, and its form
ROWS: Sequence[tuple[str, str, str]] = (
    ("all registered and begun", "registered_s", "{:,.1f} s"),
    ("sends that create, accepted a second (one client)", "creating_sends_per_second", "{:,.0f}"),
    ("one more such send: accepted", "create_accepted_ms", "{:.1f} ms"),
    ("... until its agent has applied it", "create_applied_ms", "{:.1f} ms"),
    ("send to committed, an agent at random", "latency_ms", "{:.1f} ms"),
    ("processor time of a signal, ten busy agents among all", "few_cpu_us", "{:.0f} µs"),
    (
        "the same, 20,000 in turn over all agents (so one each from 20,000 agents on)",
        "turn_cpu_us",
        "{:.0f} µs",
    ),
    ("an agent is restarted (`regrow restart`): answered", "restart_ms", "{:.1f} ms"),
    ("... processor time of the watchdog for it", "watchdog_cpu_ms_per_restart", "{:.1f} ms"),
    ("`which_children`", "which_children_ms", "{:,.0f} ms"),
    ("`count_children`", "count_children_ms", "{:,.0f} ms"),
    ("`regrow tree`", "tree_ms", "{:,.0f} ms"),
    ("`regrow tree AGENT`", "tree_of_one_ms", "{:,.0f} ms"),
    ("`regrow doctor`", "doctor_ms", "{:,.0f} ms"),
    ("`regrow top --once`", "top_ms", "{:,.0f} ms"),
    ("a scrape of /metrics", "scrape_ms", "{:,.0f} ms"),
    ("watchdog killed, a standby answers", "takeover_s", "{:.1f} s"),
    ("a tree with one child more is handed in: it has begun", "deploy_tree_s", "{:.1f} s"),
    ("the node is drained, and gone", "deploy_drained_s", "{:.1f} s"),
    ("commands a second in Redis, all idle, those in scripts included", "idle_commands_per_second", "{:.0f}"),
    ("processes and connections of all services", "processes", "{:.0f}"),
    ("memory of Redis for an agent", "redis_bytes_per_agent", "{:,.0f} B"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=int, default=100_000, help="the largest number of agents (100,000)")
    parser.add_argument("--tries", type=int, default=50, help="of what is short, for each median (50)")
    parser.add_argument("--json", type=Path, help="keep the figures here, one after the other")
    parser.add_argument("--figures", type=Path, help="measure nothing: take them from here")
    parser.add_argument("--write", action="store_true", help="put table and picture into this folder")
    told = parser.parse_args(arguments)
    if told.figures is not None:
        found: dict[str, Any] = json.loads(told.figures.read_text(encoding="utf-8"))
    else:
        found = measured(told.agents, told.tries, told.json)
    text = as_table(found)
    print(text)
    if told.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
        PICTURE.write_text(as_svg(panels(found)), encoding="utf-8")


def measured(most: int, tries: int, keep: Path | None) -> dict[str, Any]:
    """Everything, the small sizes first; what was measured is kept after each step."""
    found: dict[str, Any] = {"agents": [], "load": [os.getloadavg()[0]], **{name: [] for name in WORK}}

    def note(name: str, result: Result) -> None:
        found[name].append(dict(result))
        found["load"].append(os.getloadavg()[0])
        if keep is not None:
            keep.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        print(f"{time.strftime('%H:%M:%S')} {name}: {json.dumps(result)}", file=sys.stderr)

    for name, (measure, sizes) in WORK.items():
        for size in sizes:
            note(name, measure(size))
    for way, sizes in AGENTS.items():
        for size in sizes:
            if size <= most:
                note("agents", measure_agents(size, created=way == "send", tries=tries))
    found["isolated"] = []
    note("isolated", measure_isolated(500))
    return found


def as_table(found: Mapping[str, Any]) -> str:
    """Markdown: a row for each figure, a column for each number of agents and way."""
    agents: list[Result] = found["agents"]
    heads = [f"{each['agents']:,} by {each['by']}" for each in agents]
    lines = [f"| what | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for what, name, form in ROWS:
        cells = [form.format(each[name]) if each.get(name) is not None else "" for each in agents]
        if any(cells):
            lines.append(f"| {what} | {' | '.join(cells)} |")
    for each in found.get("isolated", []):
        count, seconds = each["agents"], each["all_running_s"]
        lines += [
            "",
            f"{count} isolated agents run {seconds:.1f} s after the start of their node (reach: 30 s).",
        ]
    loads: list[float] = found["load"]
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, Redis on the same machine. "
        f"Load average meanwhile: {min(loads):.1f} to {max(loads):.1f} (a quiet machine shows less than 0.5; times are "
        "the worse for what ran beside it, processor times less so)."
    )
    lines += ["", machine, "", "![cost against size](scale.svg)"]
    return "\n".join(lines)


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """What is drawn: processor time of a signal against each size, and the surroundings against agents."""
    micro = "µs of processor a signal"

    def line(name: str, size: str, cost: str = "cpu_us_per_signal") -> list[tuple[float, float]]:
        return [(each[size], each[cost]) for each in found.get(name, []) if each.get(cost)]

    def of_agents(cost: str, way: str = "send") -> list[tuple[float, float]]:
        return [
            (each["agents"], each[cost]) for each in found["agents"] if each["by"] == way and each.get(cost)
        ]

    drawn = [
        Panel("Signals, pooled agents", "registered agents", micro, {
            "ten busy agents": of_agents("few_cpu_us"), "20,000 in turn over all": of_agents("turn_cpu_us"),
        }),
        Panel("Backlog of one isolated agent", "signals", micro, {"": line("backlog", "backlog")}),
        Panel("State of one isolated agent", "bytes of state", micro, {"": line("state_bytes", "state_bytes")}),
        Panel("Signal", "bytes of data", micro, {"": line("signal_bytes", "signal_bytes")}),
        Panel("Nodes of one machine", "nodes", micro, {"": line("nodes", "nodes")}),
        Panel("Around the agents", "registered agents", "ms", {
            "tree": of_agents("tree_ms"), "doctor": of_agents("doctor_ms"), "scrape": of_agents("scrape_ms"),
            "restart": of_agents("restart_ms"), "send to committed": of_agents("latency_ms"),
        }),
    ]  # fmt: skip
    shown = [
        Panel(
            each.title, each.size, each.cost, {name: points for name, points in each.lines.items() if points}
        )
        for each in drawn
    ]
    return [each for each in shown if each.lines]


def with_table(page: str, text: str) -> str:
    """The page with what stands between the two marks replaced."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: the marks {BEGIN} and {END} are not there")
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"


if __name__ == "__main__":
    main()
