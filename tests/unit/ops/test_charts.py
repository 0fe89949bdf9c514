"""The geometry of charts."""

import numpy as np
import pytest

from convmemory.ops.observability.charts import (
    LABEL_HEIGHT,
    MAP_SIZE,
    MapLabel,
    Series,
    apart,
    bars,
    line_chart,
    map_place,
    nice_ticks,
    path_of,
    short_number,
    size_text,
)
from convmemory.ops.observability.turn_maps import principal_plane


@pytest.mark.parametrize(
    ("top", "last", "count"), [(0, 1, 2), (7, 8, 5), (100, 100, 5), (101, 150, 4), (0.3, 0.3, 4), (1e6, 1e6, 5)]
)
def test_ticks_are_round_and_reach_top(top: float, last: float, count: int) -> None:
    ticks = nice_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(last)
    assert len(ticks) == count


def test_chart_starts_at_zero_and_keeps_to_its_frame() -> None:
    chart = line_chart([Series("a", [(0, 0), (10, 4)]), Series("none", [])], x_text=str)
    assert chart
    (line,) = chart.lines
    assert line.path == f"M{chart.left:.1f} {chart.baseline:.1f} L{chart.right:.1f} 12.0"
    assert [tick.text for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]
    assert [tick.text for tick in chart.x_ticks] == ["0.0", "2.5", "5.0", "7.5", "10.0"]


def test_chart_of_one_point_is_dot_and_of_none_is_none() -> None:
    assert line_chart([Series("a", [])], x_text=str) is None
    chart = line_chart([Series("a", [(5, 5)])], x_text=str)
    assert chart
    assert len(chart.x_ticks) == 1
    assert path_of([(1, 2)]) == "M1.0 2.0h0.01"


def test_bars_are_shares() -> None:
    assert [bar.percent for bar in bars([("a", 5, ""), ("b", 20, "")], full=10)] == [50.0, 100.0]
    assert [bar.percent for bar in bars([("a", 5, "")], full=0)] == [0.0]


def test_numbers_and_sizes_are_short() -> None:
    assert [short_number(value) for value in (0, 2.5, 950, 1_200, 3_400_000)] == ["0", "2.5", "950", "1.2k", "3.4M"]
    assert [size_text(value) for value in (12, 2_048, 5 * 1024**2)] == ["12 B", "2.0 kB", "5.0 MB"]


def test_map_s_corners() -> None:
    assert map_place(-1, 1) == (12, 12)
    assert map_place(1, -1) == (628, 628)


def test_plane_of_points_on_line_is_that_line() -> None:
    vectors = np.outer(np.arange(5), np.array([0.0, -3.0, 4.0])).astype(np.float32)
    plane, explained = principal_plane(vectors)
    assert plane[:, 0] == pytest.approx([-1, -0.5, 0, 0.5, 1], abs=1e-5)
    assert plane[:, 1] == pytest.approx([0] * 5, abs=1e-5)
    assert explained == pytest.approx(1.0)


def test_single_point_is_middle() -> None:
    plane, explained = principal_plane(np.ones((1, 4), dtype=np.float32))
    assert plane.tolist() == [[0, 0]]
    assert explained == 0


def test_labels_of_map_cover_no_other_and_stay_inside() -> None:
    labels = [MapLabel("deadlock · payments", 300, 200, 9), MapLabel("lock · timeout", 310, 204, 8)]
    first, second = apart(labels)
    assert second.y >= first.y + LABEL_HEIGHT
    (edge,) = apart([MapLabel("sourdough · flour", 636, 100, 3)])
    assert edge.x + edge.half_width <= MAP_SIZE
    assert apart([MapLabel("left", 60, 200, 1), MapLabel("right", 500, 204, 1)])[1].y == 204
