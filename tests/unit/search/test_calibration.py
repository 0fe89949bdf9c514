"""The file of calibrations, and the probabilities that are read from it."""

import json
from pathlib import Path

import numpy as np
import pytest

from convmemory.embeddings.model_folder import DEFAULT_MODEL
from search.query import MODES
from search.query_text import QueryText
from search.ranking import relevance
from search.ranking.relevance import Odds, calibration_of, gather_evidence, read_calibrations
from search.retrieval.candidates import Feature, FeatureTable, item_keys
from search.retrieval.prepared import PreparedQuery

ODDS = {"intercept": -1.0, "weights": {"max_sim": 4.0}}


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "by_distance"])
def test_default_model_is_calibrated_for_every_mode_and_no_other_is(mode: str) -> None:
    assert calibration_of(DEFAULT_MODEL, mode) is not None
    assert calibration_of("some-other-model", mode) is None


def test_words_are_calibrated_whatever_model() -> None:
    assert calibration_of("some-other-model", "full_text") is not None


def test_odds_are_logistic_for_numbers_and_for_arrays() -> None:
    odds = Odds(-1.0, {"max_sim": 4.0})
    assert odds.probability({"max_sim": 0.25}) == pytest.approx(0.5)
    assert odds.probability({"max_sim": np.array([0.25, 1.0])}) == pytest.approx([0.5, 0.9526], abs=1e-4)
    assert Odds(1e6, {}).probability({}) == pytest.approx(1.0)


def test_calibrations_are_read_by_model_and_mode() -> None:
    found = read_calibrations({"m": {"hybrid": {"anything": ODDS, "candidate": ODDS}}})
    assert found["m"]["hybrid"].of_anything({"max_sim": 0.25}) == pytest.approx(0.5)
    own = {"max_sim": np.array([0.25, 1.0], np.float32)}
    chances = found["m"]["hybrid"].of_candidates({"max_sim": 0.25}, own)
    assert chances.dtype == np.float32
    assert chances == pytest.approx([0.25, 0.4763], abs=1e-4)


def test_probability_of_hits_is_fitted_to_evidence_of_query_and_hit_together() -> None:
    hit = {"intercept": -3.0, "weights": {"max_sim": 2.0, "own_max_sim": 4.0}}
    found = read_calibrations({"m": {"hybrid": {"anything": ODDS, "hit": hit}}})
    chances = found["m"]["hybrid"].of_candidates({"max_sim": 0.5}, {"max_sim": np.array([0.5, 0.0], np.float32)})
    assert chances == pytest.approx([0.5, 0.1192], abs=1e-4)


def test_calibrations_in_file_are_of_modes_and_of_finite_numbers() -> None:
    models = json.loads(Path(relevance.__file__).with_suffix(".json").read_text(encoding="utf-8"))["models"]
    entries = [(mode, odds) for modes in models.values() for mode, entry in modes.items() for odds in entry.values()]
    assert {mode for mode, _ in entries} <= {*MODES, "by_distance"}
    for _, odds in entries:
        assert np.isfinite([odds["intercept"], *odds["weights"].values()]).all()
    for modes in models.values():
        assert all(entry.keys() - {"anything"} for entry in modes.values())


def evidence_of(*values: float) -> dict[str, float]:
    """The evidence of a query whose candidates have these values of one feature, by which they are ranked."""
    scores = np.array(values, np.float32)
    table = FeatureTable(item_keys([1] * len(values), range(len(values))), {Feature.MAX_SIM: scores}, item_count=9)
    query = PreparedQuery(1, QueryText("why?"))
    return dict(gather_evidence(query, table, scores, np.argsort(-scores), word_weights={}).query)


def test_evidence_is_best_value_its_margin_over_median_and_lead_over_second() -> None:
    found = evidence_of(0.2, 0.8, 0.4)
    names = ("max_sim", "max_sim_margin", "max_sim_first", "lead")
    assert [found[name] for name in names] == pytest.approx([0.8, 0.4, 0.8, 0.5])
    assert found["passage_cosine_margin"] == 0


def test_single_candidate_leads_by_its_whole_score() -> None:
    assert evidence_of(0.8)["lead"] == 1
