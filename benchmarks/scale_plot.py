"""Cost against size as one SVG, written by hand: small panels side by side, both axes in powers of ten. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Panel", "as_svg"]

WIDTH, HEIGHT = 250, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 42
COLOURS = ("#1f6feb", "#d1492f", "#2e8b57", "#8250df", "#b08800")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: ``lines`` by name, each a list of (size, cost), sizes and costs above zero."""

    title: str
    size: str
    cost: str
    lines: Mapping[str, Sequence[Point]]


def as_svg(panels: Sequence[Panel], columns: int = 3) -> str:
    """All panels in rows of ``columns``."""
    rows = math.ceil(len(panels) / columns)
    width, height = columns * WIDTH, rows * HEIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * WIDTH, number // columns * HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    xs, ys = _decades([x for x, _ in points]), _decades([y for _, y in points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(LEFT + (math.log10(x) - xs[0]) / (xs[1] - xs[0]) * (right - LEFT), 1),
            round(bottom - (math.log10(y) - ys[0]) / (ys[1] - ys[0]) * (bottom - TOP), 1),
        )

    found = [f'<text x="{LEFT}" y="14" font-weight="bold" font-size="11">{escape(panel.title)}</text>']
    for decade in range(xs[0], xs[1] + 1):
        x, _ = place(10**decade, 10 ** ys[0])
        found.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#ddd"/>')
        found.append(f'<text x="{x}" y="{bottom + 13}" text-anchor="middle">{_number(decade)}</text>')
    for decade in range(ys[0], ys[1] + 1):
        _, y = place(10 ** xs[0], 10**decade)
        found.append(f'<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>')
        found.append(f'<text x="{LEFT - 4}" y="{y + 3}" text-anchor="end">{_number(decade)}</text>')
    found.append(
        f'<text x="{(LEFT + right) / 2}" y="{bottom + 28}" text-anchor="middle">{escape(panel.size)}</text>'
    )
    middle = (TOP + bottom) / 2
    found.append(
        f'<text transform="translate(11,{middle}) rotate(-90)" text-anchor="middle">{escape(panel.cost)}</text>'
    )
    for number, (name, line) in enumerate(panel.lines.items()):
        found += _line(name, [place(*point) for point in line], COLOURS[number % len(COLOURS)], number)
    return found


def _line(name: str, places: Sequence[Point], colour: str, number: int) -> list[str]:
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in places]
    label = f'<text x="{LEFT + 5}" y="{TOP + 11 + 12 * number}" fill="{colour}">{escape(name)}</text>'
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>', *dots, label]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that hold them all, two at least."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _number(decade: int) -> str:
    if decade >= 6:
        return f"{10 ** (decade - 6)}M"
    if decade >= 3:
        return f"{10 ** (decade - 3)}k"
    return f"{10.0**decade:g}"
