"""Figures from observations: the order of the search, single features, weights, held-out folds."""

import json
from dataclasses import replace

import numpy as np

from benchmarks import reporting
from benchmarks.datasets.haystacks import Question
from benchmarks.reporting import build_report, lines_of
from benchmarks.running import Observation
from search.retrieval.candidates import Feature, item_keys

NAN = float("nan")
OPTIONS = {"messages": False, "held_out": 0.0, "fit": False, "ablate": False, "features": True}


def observation(*, category: str = "plain", fold: str = "f", gold: int = 1) -> Observation:
    """Three turns of two conversations; the words find the right one, the passages another."""
    keys = item_keys([5, 5, 6], [0, 1, 0])
    words = np.array([0, 3, 1], np.float32)
    passages = np.array([1, NAN, 2], np.float32)
    return Observation(
        question=Question(text="?", category=category, fold=fold),
        gold=keys[gold : gold + 1],
        gold_conversations=frozenset({5}),
        keys=keys,
        features={Feature.BM25: words, Feature.PASSAGE_COSINE: passages},
        order=keys[[2, 1, 0]],
        milliseconds=4.0,
    )


def test_order_of_search_counts_turns_and_conversations() -> None:
    figures = reporting.figures([observation()], reporting.as_searched)
    assert (figures["hit@1"], figures["hit@5"], figures["mrr"]) == (0.0, 1.0, 0.5)
    assert (figures["conversation_hit@1"], figures["conversation_mrr"]) == (0.0, 0.5)


def test_each_feature_is_reported_as_ranking_of_its_own() -> None:
    figures = reporting.each_feature([observation()])
    assert figures[Feature.BM25]["hit@1"] == 1.0
    assert figures[Feature.PASSAGE_COSINE]["hit@1"] == 0.0


def test_weights_fuse_features_and_unknown_ones_find_nothing() -> None:
    assert (
        reporting.figures([observation()], reporting.weighted({Feature.BM25: 2.0, Feature.PASSAGE_COSINE: 1.0}))[
            "hit@1"
        ]
        == 1.0
    )
    assert reporting.figures([observation()], reporting.weighted({Feature.MAX_SIM: 1.0}))["mrr"] == 0.0


def test_categories_are_told_apart() -> None:
    figures = reporting.by_category([observation(), observation(category="rare", gold=2)], reporting.as_searched)
    assert {name: f["hit@1"] for name, f in figures.items()} == {"plain": 0.0, "rare": 1.0}


def test_larger_held_out_share_contains_smaller() -> None:
    folds = [f"fold {number}" for number in range(400)]
    small = {fold for fold in folds if reporting.is_held_out("set", fold, 0.2)}
    large = {fold for fold in folds if reporting.is_held_out("set", fold, 0.5)}
    assert small < large
    assert 40 < len(small) < 120
    assert not any(reporting.is_held_out("set", fold, 0.0) for fold in folds)


def test_fit_excludes_held_out_folds() -> None:
    rows = [observation(fold=f"fold {number}", gold=number % 3) for number in range(12)]
    report = build_report({"set": rows}, OPTIONS | {"fit": True, "held_out": 0.5})
    counted = report["set"]["development"]["questions"] + report["set"]["held out"]["questions"]
    assert counted == report["set"]["all"]["questions"] == 12
    assert report["fit"]["hybrid"]["fitted"]["set"]["questions"] == report["set"]["development"]["questions"]
    assert "held out, hybrid fitted" in report["set"]


def test_report_reads_as_tables_and_as_json() -> None:
    rows = [observation(fold=str(number)) for number in range(3)]
    report = build_report({"set": rows}, OPTIONS | {"fit": True, "ablate": True})
    text = "\n".join(lines_of(report))
    assert "set: 3 questions" in text
    assert "hybrid = {" in text
    assert "fitted without" in text
    assert json.loads(json.dumps(report)) == report


def test_table_of_long_turns_is_fitted_on_those_alone() -> None:
    short, long = observation(), replace(observation(fold="g"), mean_turn_length=2_000.0)
    tables = {"hybrid_long_items": (Feature.BM25, Feature.PASSAGE_COSINE)}
    assert reporting.fit_tables({"chats": [short]}, tables) == {}
    fitted = reporting.fit_tables({"chats": [short], "runs": [long, short]}, tables)["hybrid_long_items"]
    assert {name: f["questions"] for name, f in fitted["fitted"].items()} == {"runs": 1}
