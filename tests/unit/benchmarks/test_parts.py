"""Ablations: pipelines without one part, otherwise unchanged."""

import pytest

from benchmarks.parts import COMPLETE, OF_CONVERSATIONS, OF_PASSAGES, PARTS, Part, single_features
from search.pipeline import PIPELINE
from search.ranking.rankers import weights_of
from search.retrieval.candidates import EXCHANGES


def weighed(part: Part) -> frozenset[str]:
    return part.pipeline().rankers.features


def by_title(beginning: str) -> Part:
    (part,) = [part for part in PARTS if part.title.startswith(beginning)]
    return part


def test_complete_search_is_products_own() -> None:
    assert COMPLETE.pipeline() is PIPELINE
    assert (COMPLETE.mode, COMPLETE.settings) == ("hybrid", {})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.title)
def test_every_part_can_be_left_out_and_something_changes(part: Part) -> None:
    changed = part.pipeline() != PIPELINE or part.mode != "hybrid" or part.settings or part.is_timeless
    assert changed


@pytest.mark.parametrize(
    ("title", "features"),
    [
        ("vectors of sentence", OF_PASSAGES),
        ("the question before", EXCHANGES),
        ("the conversation around", OF_CONVERSATIONS),
    ],
)
def test_features_of_removed_part_have_no_weight(title: str, features: frozenset[str]) -> None:
    left = weighed(by_title(title))
    assert not left & features
    assert left == PIPELINE.rankers.features - features


def test_retriever_that_is_left_out_is_not_asked() -> None:
    kept = by_title("vectors of whole turns").pipeline().retrievers
    assert [type(one).__name__ for one in kept] == ["LexicalRetriever", "PassageRetriever"]


def test_without_late_interaction_first_stage_decides() -> None:
    rankers = by_title("late interaction").pipeline().rankers
    assert rankers.hybrid == rankers.first_stage == PIPELINE.rankers.first_stage


def test_ablation_covers_every_feature_with_weight() -> None:
    parts = single_features()
    assert {part.title for part in parts} >= {f"`{name}`" for name, weight in weights_of("hybrid").items() if weight}
    for part in parts:
        assert part.title.strip("`") not in weighed(part)
