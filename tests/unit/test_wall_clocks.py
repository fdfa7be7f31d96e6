"""Stamps are Redis's, waits are monotonic: no module looks at its host's wall clock, so none can be an hour off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("signals/regrow_signals", "workers/regrow_workers", "supervisor/regrow_supervisor", "regrow")

#: What reads a wall clock, as it is called: the last two names.
CLOCKS = {
    "time.time", "time.time_ns", "time.localtime", "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "time.clock_gettime",
}  # fmt: skip

#: `regrow doctor` compares the host's clock with Redis's, to tell people; the guard names what it refuses to handlers.
ALLOWED = {
    "regrow/doctor.py: time.time",
    "workers/regrow_workers/purity.py: time.time",
    "workers/regrow_workers/purity.py: time.time_ns",
}


def _calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            yield from (f"{node.module}.{name.name}" for name in node.names if node.module == "time")


def test_only_the_doctor_reads_a_wall_clock() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {call}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for call in _calls(path)
        if call in CLOCKS
    }

    assert found == ALLOWED
