"""The parts of docs that are made from code, as they must stand there. Run it to write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regrow.metrics.catalogue import COUNTERS, GAUGES, HISTOGRAMS, Metric
from regrow.settings import settings_table

__all__ = ["DOCS", "metrics_tables", "tables_of"]

DOCS = Path(__file__).resolve().parents[2] / "docs"


def metrics_tables() -> str:
    """Every metric by its kind, as a table each."""
    parts = [
        _metrics_table("Counters", COUNTERS),
        _metrics_table("Histograms", HISTOGRAMS),
        _metrics_table("Gauges", GAUGES),
    ]
    return "\n".join(parts)


def _metrics_table(heading: str, metrics: Sequence[Metric]) -> str:
    lines = [f"## {heading}", "", "| metric | labels | meaning |", "| --- | --- | --- |"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `regrow_{metric.name}` | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


def tables_of(page: str) -> str:
    """What the page ``settings.md`` or ``metrics.md`` has after its mark."""
    made = {"settings.md": settings_table, "metrics.md": metrics_tables}
    return made[page]()


MARK = "<!-- from the code: python -m tests.unit.docs_tables -->\n"


def main() -> None:
    for page in ("settings.md", "metrics.md"):
        path = DOCS / page
        path.write_text(path.read_text().partition(MARK)[0] + MARK + "\n" + tables_of(page))


if __name__ == "__main__":
    main()
