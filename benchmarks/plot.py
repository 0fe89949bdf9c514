"""Draws a plot as SVG, readable on a light and on a dark page. Pure.

One line per series over a logarithmic axis of sizes; each point is labelled with its value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 48, 48
INKS = (("#1d4ed8", "#8ab4f8"), ("#b45309", "#f5b971"))
"""The colours of the series, on a light page and on a dark one."""

Series = Mapping[int, float]
"""Values by size."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The title and the label of the horizontal axis; `unit` follows the values of the vertical axis."""

    title: str
    horizontal: str
    unit: str


def svg(axes: Axes, series: Mapping[str, Series]) -> str:
    """Return the plot of at most two series, each with at least one value above 0."""
    sizes = sorted({size for one in series.values() for size in one})
    top = _round_up(max(value for one in series.values() for value in one.values()))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(axes.title)}</title>",
        _style(),
        f'<text class="title" x="{LEFT}" y="20">{escape(axes.title)}</text>',
        *_grid(axes, sizes, top),
    ]
    for number, (name, values) in enumerate(series.items()):
        lines += _line(number, name, values, sizes, top)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _style() -> str:
    light = "".join(f".s{n}{{stroke:{ink};fill:{ink}}}" for n, (ink, _) in enumerate(INKS))
    dark = "".join(f".s{n}{{stroke:{ink};fill:{ink}}}" for n, (_, ink) in enumerate(INKS))
    return (
        "<style>text{font:12px system-ui,sans-serif;fill:#333;stroke:none}.title{font-weight:600}"
        f".grid{{stroke:#ccc}}path{{fill:none!important;stroke-width:2}}{light}"
        f"@media(prefers-color-scheme:dark){{text{{fill:#ddd}}.grid{{stroke:#555}}{dark}}}</style>"
    )


def _grid(axes: Axes, sizes: Sequence[int], top: float) -> list[str]:
    marks = [top * share for share in (0, 0.25, 0.5, 0.75, 1)]
    lines = []
    for mark in marks:
        y = _y(mark, top)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g} {escape(axes.unit)}</text>')
    for size in sizes:
        x = _x(size, sizes)
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(axes.horizontal)}</text>')
    return lines


def _line(number: int, name: str, values: Series, sizes: Sequence[int], top: float) -> list[str]:
    points = [(_x(size, sizes), _y(value, top), value) for size, value in sorted(values.items())]
    path = " L".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    kind = f"s{number}"
    below = 16 if number else -8
    at = LEFT + 120 * number
    lines = [f'<path class="{kind}" d="M{path}"/>']
    for x, y, value in points:
        lines.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        lines.append(f'<text x="{x:.1f}" y="{y + below:.1f}" text-anchor="middle">{value:g}</text>')
    lines.append(f'<circle class="{kind}" cx="{at + 4}" cy="34" r="4"/>')
    lines.append(f'<text x="{at + 14}" y="38">{escape(name)}</text>')
    return lines


def _x(size: int, sizes: Sequence[int]) -> float:
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    share = (math.log(size) - low) / (high - low) if high > low else 0.5
    return LEFT + 30 + share * (WIDTH - RIGHT - LEFT - 60)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 8 times a power of ten, with room for a label above the highest point."""
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10, 20) if step * power >= value * 1.1)
