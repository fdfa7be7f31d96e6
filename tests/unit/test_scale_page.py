"""The table and the picture of ``benchmarks/scale.py``, from figures that are made up."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.scale import BEGIN, END, as_table, panels, with_table
from benchmarks.scale_plot import Panel, as_svg

FOUND: dict[str, Any] = {
    "agents": [
        {"agents": 10, "by": "send", "tree_ms": 400.0, "few_cpu_us": 50.0, "restart_ms": 2.0},
        {"agents": 100_000, "by": "send", "tree_ms": 1_900.4, "few_cpu_us": 55.0, "restart_ms": 2.5},
    ],
    "backlog": [
        {"backlog": 10, "cpu_us_per_signal": 80.0},
        {"backlog": 1_000_000, "cpu_us_per_signal": 30.0},
    ],
    "isolated": [{"agents": 500, "all_running_s": 12.3}],
    "load": [0.5, 3.0],
}


def test_the_table_has_a_column_for_each_size_and_no_row_without_figures() -> None:
    table = as_table(FOUND)

    assert "| what | 10 by send | 100,000 by send |" in table
    assert "| `regrow tree` | 400 ms | 1,900 ms |" in table
    assert "which_children" not in table
    assert "500 isolated agents run 12.3 s" in table


def test_the_table_stands_between_its_marks() -> None:
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(SystemExit, match="are not there"):
        with_table("a", "new")


def test_the_picture_is_an_svg_with_a_dot_for_each_figure() -> None:
    drawn = panels(FOUND)

    picture = ElementTree.fromstring(as_svg(drawn))

    dots = [each for each in picture.iter() if each.tag.endswith("circle")]
    assert len(dots) == sum(len(line) for panel in drawn for line in panel.lines.values()) == 8
    inside = [(0 <= float(dot.attrib["cx"]) <= 250, 0 <= float(dot.attrib["cy"]) <= 220) for dot in dots]
    assert set(inside) == {(True, True)}


def test_names_in_a_picture_are_text() -> None:
    assert "a &lt;b&gt;" in as_svg([Panel("a <b>", "x", "y", {"": [(1, 1), (10, 1)]})])
