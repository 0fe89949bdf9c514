"""The three bands that say how likely a hit answers the query."""

from dataclasses import dataclass

import pytest

from search.pages.groups import BANDS, band_of
from search.ranking.relevance import RELATED_RELEVANCE, STRONG_RELEVANCE


@dataclass(frozen=True)
class Found:
    similarity: float
    score: float
    matched: tuple[str, ...] = ()
    relevance: float | None = None


@pytest.mark.parametrize(
    ("hit", "band"),
    [
        (Found(0.8, 1.0, ("words", "passage")), "related"),
        (Found(0.6, 1.0), "related"),
        (Found(0.2, 1.0), "less likely"),
        (Found(0.2, 1.0, ("words",)), "related"),
        (Found(0.4, 0.6), "related"),
        (Found(0.1, 0.1, ("words",)), "related"),
        (Found(0.4, 0.2), "less likely"),
        (Found(0.1, 0.6), "less likely"),
    ],
)
def test_without_relevance_no_hit_is_strong(hit: Found, band: str) -> None:
    assert band_of(hit, best_score=1.0) == band


def test_band_never_rises_while_score_falls() -> None:
    for matched in ((), ("words",)):
        for cosine in (0.0, 0.31, 0.5, 0.9):
            bands = [band_of(Found(cosine, step / 20, matched), 1.0) for step in range(20, -1, -1)]
            places = [BANDS.index(band) for band in bands if band]
            assert len(places) == len(bands)
            assert places == sorted(places)


@pytest.mark.parametrize(
    ("relevance", "band"),
    [
        (1.0, "strong"),
        (STRONG_RELEVANCE, "strong"),
        (STRONG_RELEVANCE - 0.01, "related"),
        (RELATED_RELEVANCE, "related"),
        (RELATED_RELEVANCE - 0.01, "less likely"),
        (0.0, "less likely"),
    ],
)
def test_relevance_decides_alone(relevance: float, band: str) -> None:
    for found in (Found(0.9, 1.0, ("words",), relevance), Found(0.0, 0.1, (), relevance)):
        assert band_of(found, best_score=1.0) == band


def test_hit_of_uncalibrated_model_has_no_band_without_relevance() -> None:
    assert band_of(Found(0.9, 1.0, ("words",)), 1.0, is_calibrated=False) is None
    assert band_of(Found(0.9, 1.0, (), relevance=0.9), 1.0, is_calibrated=False) == "strong"


def test_band_without_any_score_is_less_likely() -> None:
    assert band_of(Found(0.9, 0.0), best_score=0.0) == "less likely"
