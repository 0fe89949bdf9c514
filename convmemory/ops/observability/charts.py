"""Computes the geometry of the dashboard's charts: values in, coordinates and SVG paths out. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28
Y_TICKS, X_TICKS = 4, 5
MAP_SIZE = 640
MAP_MARGIN = 12
# SVG made on the server cannot measure text, so the width of a letter is an estimate.
LABEL_HEIGHT, LETTER_WIDTH = 18, 7

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A named line; `points` are (x, y) with x rising."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at a coordinate on its axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """One series as an SVG path."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """The values for a template that draws lines over a time axis."""

    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    baseline: int = HEIGHT - BOTTOM
    text_y: int = HEIGHT - 8
    text_x: int = LEFT - 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar of a share from 0 to 100."""

    name: str
    text: str
    percent: float


def line_chart(series: Sequence[Series], *, x_text: Callable[[float], str]) -> LineChart | None:
    """Return lines from zero up; None if no series has a point."""
    points = [point for one in series for point in one.points]
    if not points:
        return None
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    ticks = nice_ticks(max(y for _, y in points))

    def position(point: Point) -> Point:
        share = (point[0] - first) / (last - first) if last > first else 0.5
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - point[1] / ticks[-1] * (HEIGHT - TOP - BOTTOM)

    count = X_TICKS if last > first else 1
    moments = [first + (last - first) * n / max(count - 1, 1) for n in range(count)]
    return LineChart(
        lines=[Line(one.name, path_of([position(point) for point in one.points])) for one in series if one.points],
        x_ticks=[Tick(round(position((moment, 0))[0], 1), x_text(moment)) for moment in moments],
        y_ticks=[Tick(round(position((first, value))[1], 1), short_number(value)) for value in ticks],
    )


def path_of(places: Sequence[Point]) -> str:
    """Return an SVG path through the places; the line's round ends draw a single one as a dot."""
    text = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f"M{text}" + ("h0.01" if len(places) == 1 else "")


def nice_ticks(top: float) -> list[float]:
    """Return round values from 0 to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / Y_TICKS
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    return [step * n for n in range(math.ceil(top / step - 1e-9) + 1)]


def short_number(value: float) -> str:
    """Return a number in at most four characters: 950, 1.2k, 3.4M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def size_text(size_bytes: int) -> str:
    """Return a size in bytes in a readable unit."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("kB", 1024)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} B"


def bars(values: Sequence[tuple[str, float, str]], *, full: float) -> list[Bar]:
    """Return bars of (name, value, text) as shares of `full`."""
    return [Bar(name, text, round(min(value / full, 1.0) * 100, 1) if full else 0.0) for name, value, text in values]


def map_place(x: float, y: float) -> Point:
    """Return the place on the map of a point from -1 to 1 on both axes, y upwards."""
    reach = MAP_SIZE / 2 - MAP_MARGIN
    return round(MAP_SIZE / 2 + x * reach, 1), round(MAP_SIZE / 2 - y * reach, 1)


@dataclass(frozen=True, slots=True)
class MapLabel:
    """A label on the map: its words, its centre, and the number of points in its cluster."""

    text: str
    x: float
    y: float
    count: int

    @property
    def half_width(self) -> float:
        return len(self.text) * LETTER_WIDTH / 2


def apart(labels: Sequence[MapLabel]) -> list[MapLabel]:
    """Return the labels from top to bottom, inside the map, each moved down until it overlaps none before it."""
    placed: list[MapLabel] = []
    for label in sorted(labels, key=lambda each: (each.y, each.x)):
        margin = min(label.half_width + MAP_MARGIN, MAP_SIZE / 2)
        moved = replace(label, x=min(max(label.x, margin), MAP_SIZE - margin))
        for other in placed:
            is_beside = abs(moved.x - other.x) >= moved.half_width + other.half_width
            if not is_beside and moved.y < other.y + LABEL_HEIGHT:
                moved = replace(moved, y=other.y + LABEL_HEIGHT)
        placed.append(moved)
    return placed
