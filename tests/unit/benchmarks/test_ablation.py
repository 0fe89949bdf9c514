"""Ablations: pipelines without one part, otherwise unchanged."""

import pytest

from benchmarks.ablation import COMPLETE, PARTS, Part, single_features
from search.pipeline import PIPELINE
from search.ranking.rankers import weights_of


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.title)
def test_every_part_can_be_left_out_and_something_changes(part: Part) -> None:
    assert COMPLETE.pipeline() is PIPELINE
    assert part.pipeline() != PIPELINE or part.mode != "hybrid" or part.settings or part.is_timeless


def test_every_feature_with_weight_is_left_out_alone() -> None:
    parts = {part.title.strip("`"): part.pipeline().rankers.features for part in single_features()}
    assert parts.keys() >= {name for name, weight in weights_of("hybrid").items() if weight}
    assert all(PIPELINE.rankers.features - left == {name} for name, left in parts.items())
