"""How commands print: for people by default, one JSON document with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click

__all__ = ["DEAD", "NOT_IN_TIME", "json_option", "print_json", "table", "ago", "stamp", "parse_json"]

DEAD: Final = 4
"""Exit code: the signal became a dead letter."""

NOT_IN_TIME: Final = 5
"""Exit code: what was waited for did not come in time."""

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """``--json``: one JSON document on stdout, for machines."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for machines.")(
        function
    )


def print_json(value: object) -> None:
    """Print ``value`` as one indented JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; the last column is not padded."""
    cells = [[str(heading).upper() for heading in headings]] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def ago(then_ms: str | int | None, now_ms: int) -> str:
    """``"12 s"``, ``"3 min"``, ``"5 h"``, ``"2 d"``; ``"-"`` where nothing is known."""
    if not then_ms:
        return "-"
    seconds = max(0.0, (now_ms - int(then_ms)) / 1000)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def stamp(ms: str | int | None) -> str:
    """Redis milliseconds as UTC text."""
    if not ms:
        return "-"
    return datetime.fromtimestamp(int(ms) / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def parse_json(text: str | None) -> Any:
    """Stored JSON as a value; text that cannot be read is shown as it is rather than hidden."""
    if text is None or text == "":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
