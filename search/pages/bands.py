"""How likely a hit answers, in three words instead of a number. Pure.

One function decides, so that a calibrated measure can take its place.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

Band = Literal["strong", "related", "less likely"]
BANDS: tuple[Band, ...] = get_args(Band)

STRONG_SHARE, RELATED_SHARE = 0.72, 0.45  # of the best hit's score
STRONG_COSINE, RELATED_COSINE = 0.45, 0.30


class Scored(Protocol):
    """What of a hit is looked at."""

    @property
    def similarity(self) -> float: ...
    @property
    def score(self) -> float: ...
    @property
    def matched(self) -> Sequence[str]: ...


def band_of(hit: Scored, best_score: float) -> Band:
    """Strong where score and meaning, or score and words, are near the best; related where one of them is."""
    share = hit.score / best_score if best_score > 0 else 0.0
    has_words = "words" in hit.matched
    if share >= STRONG_SHARE and (has_words or hit.similarity >= STRONG_COSINE):
        return "strong"
    if has_words or (share >= RELATED_SHARE and hit.similarity >= RELATED_COSINE):
        return "related"
    return "less likely"
