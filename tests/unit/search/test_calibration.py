"""The file of calibrations: what it holds, and what is refused."""

from typing import Any

import numpy as np
import pytest

from convmemory.embeddings.model_folder import DEFAULT_MODEL
from search.ranking.relevance import CalibrationError, Odds, calibration_of, read_calibrations

ODDS = {"intercept": -1.0, "weights": {"max_sim": 4.0}}


def document(**models: Any) -> dict[str, Any]:
    return {"version": 1, "models": models}


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
    found = read_calibrations(document(m={"hybrid": {"anything": ODDS, "candidate": ODDS}}))
    assert found["m"]["hybrid"].of_anything({"max_sim": 0.25}) == pytest.approx(0.5)
    own = {"max_sim": np.array([0.25, 1.0], np.float32)}
    chances = found["m"]["hybrid"].of_candidates({"max_sim": 0.25}, own)
    assert chances.dtype == np.float32
    assert chances == pytest.approx([0.25, 0.4763], abs=1e-4)


def test_probability_of_hits_is_fitted_to_evidence_of_query_and_hit_together() -> None:
    hit = {"intercept": -3.0, "weights": {"max_sim": 2.0, "own_max_sim": 4.0}}
    found = read_calibrations(document(m={"hybrid": {"anything": ODDS, "hit": hit}}))
    chances = found["m"]["hybrid"].of_candidates({"max_sim": 0.5}, {"max_sim": np.array([0.5, 0.0], np.float32)})
    assert chances == pytest.approx([0.5, 0.1192], abs=1e-4)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"version": 9, "models": {}}, "version 9"),
        (document(m={"telepathy": {"anything": ODDS, "candidate": ODDS}}), "telepathy"),
        (
            document(m={"hybrid": {"anything": ODDS | {"intercept": float("nan")}, "candidate": ODDS}}),
            "m holds",
        ),
        (document(m={"hybrid": {"anything": ODDS | {"intercept": "1"}, "candidate": ODDS}}), "no number"),
    ],
)
def test_invalid_calibrations_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(CalibrationError, match=said):
        read_calibrations(wrong)
