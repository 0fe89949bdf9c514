"""Describes the relevance of a hit in words instead of a number. Pure.

The calibrated relevance decides if there is one, otherwise the hit's score, similarity and matching words.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

Band = Literal["strong", "related", "less likely"]
BANDS: tuple[Band, ...] = get_args(Band)

# Probabilities; ADR 59 says why the bars lie where they do. The shares and cosines below guess where an embedding model
# has no calibration.
STRONG_RELEVANCE, RELATED_RELEVANCE = 0.5, 0.1
STRONG_SHARE, RELATED_SHARE = 0.72, 0.45  # shares of the best hit's score
STRONG_COSINE, RELATED_COSINE = 0.45, 0.30


class Scored(Protocol):
    """The values of a hit that decide its band."""

    @property
    def relevance(self) -> float | None: ...
    @property
    def similarity(self) -> float: ...
    @property
    def score(self) -> float: ...
    @property
    def matched(self) -> Sequence[str]: ...


def band_of(hit: Scored, best_score: float) -> Band:
    """Return the band of a hit, by its relevance.

    Without a relevance, a hit is strong if its score and its similarity or words are near the best.
    """
    if hit.relevance is None:
        return _guessed_band(hit, best_score)
    if hit.relevance >= STRONG_RELEVANCE:
        return "strong"
    return "related" if hit.relevance >= RELATED_RELEVANCE else "less likely"


def _guessed_band(hit: Scored, best_score: float) -> Band:
    share = hit.score / best_score if best_score > 0 else 0.0
    has_words = "words" in hit.matched
    if share >= STRONG_SHARE and (has_words or hit.similarity >= STRONG_COSINE):
        return "strong"
    if has_words or (share >= RELATED_SHARE and hit.similarity >= RELATED_COSINE):
        return "related"
    return "less likely"
