"""How likely anything that was found answers, and each candidate, as calibrated probabilities.

Reads the features of the ranked candidates as they are, not scaled within the query: what a ranker scales away, the
height of the best, is what tells an answer from what merely comes nearest.
Source: docs/adr/0058-calibrated-relevance.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from search.ranking.calibration import calibration_of
from search.ranking.fusion import Order
from search.ranking.rankers import long_share
from search.retrieval.candidates import Scores
from search.retrieval.corpus import inverse_document_frequency
from search.retrieval.features import Feature, FeatureTable
from search.retrieval.prepared import PreparedQuery

LEAST_SPREAD = 0.02
HIGHEST = (
    Feature.MAX_SIM,
    Feature.NEIGHBOUR_MAX_SIM,
    Feature.PASSAGE_MAX_SIM,
    Feature.PASSAGE_COSINE,
    Feature.ITEM_COSINE,
    Feature.COVERAGE,
    Feature.NEIGHBOUR_COVERAGE,
)
"""Features whose best value counts, how far it stands out from the median, and that of the first hit."""
OF_CANDIDATES = (Feature.MAX_SIM, Feature.PASSAGE_MAX_SIM, Feature.COVERAGE, Feature.NEIGHBOUR_COVERAGE)
WHOLE = 0.999  # of the query's words, as a share of their idf


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for an answer: numbers of the query, and columns (n,) over the candidates."""

    query: Mapping[str, float]
    candidates: Mapping[str, Scores]

    @property
    def is_held_whole(self) -> bool:
        """Whether one candidate holds every word of the query."""
        return self.query[Feature.COVERAGE] >= WHOLE


@dataclass(frozen=True, slots=True)
class Relevance:
    """The probability that anything found answers, and (n,) that each candidate does; None without a calibration."""

    answerable: float | None = None
    candidates: Scores | None = None
    evidence: Evidence | None = None

    def of(self, index: int) -> float | None:
        """Of one candidate."""
        return None if self.candidates is None else round(float(self.candidates[index]), 4)


def relevance_of(
    query: PreparedQuery, table: FeatureTable, scores: Scores, order: Order, word_weights: Mapping[str, float]
) -> Relevance:
    """Of the candidates of a table, ranked by `order`. Arithmetic on what is there already."""
    evidence = gather_evidence(query, table, scores, order, word_weights)
    mode = _mode(query, table)
    calibration = calibration_of(query.space.model if query.space else "", mode) if mode else None
    if calibration is None:
        return Relevance(evidence=evidence)
    anything = calibration.of_anything(evidence.query)
    return Relevance(anything, anything * calibration.of_candidates(evidence.candidates), evidence)


def _mode(query: PreparedQuery, table: FeatureTable) -> str:
    """What the calibration is of; "" for documents alone, and without the late interaction that it was fitted with."""
    if query.is_of_documents_alone:
        return ""
    if query.space is None:
        return "full_text"
    if query.by_distance:
        return "by_distance"
    return query.mode if Feature.MAX_SIM in table.columns else ""


def gather_evidence(
    query: PreparedQuery, table: FeatureTable, scores: Scores, order: Order, word_weights: Mapping[str, float]
) -> Evidence:
    """The same names whatever the mode; what a mode does not make counts 0."""
    found = _of_words(query, table, word_weights)
    first = int(order[0])
    for name in HIGHEST:
        column = _column(table, name)
        seen = table.columns.get(name, column)
        found[str(name)] = highest = float(column.max())
        found[f"{name}_margin"] = highest - float(np.nanmedian(seen)) if not np.isnan(seen).all() else 0.0
        found[f"{name}_first"] = float(column[first])
    best = float(scores[first])
    found["lead"] = (best - float(scores[order[1]])) / max(best, 1e-6) if len(order) > 1 else 1.0
    found["said_by_another"] = _said_by_another(table)
    return Evidence(found, _of_candidates(table, scores, order))


def _of_words(query: PreparedQuery, table: FeatureTable, word_weights: Mapping[str, float]) -> dict[str, float]:
    """How many words the query has beside stop words, how rare they are, and what share of them nothing holds."""
    words = {word.written for word in query.words if not word.is_stop_word}
    weights = np.array([word_weights.get(word, 0.0) for word in sorted(words)], np.float32)
    unseen = float(inverse_document_frequency(np.zeros(1, np.int64), table.item_count)[0])
    total = max(float(weights.sum()), 1e-6)
    return {
        "words": float(np.log1p(len(weights))),
        "rarity": float(weights.mean()) / max(unseen, 1e-6) if len(weights) else 0.0,
        "unseen": float(weights[weights >= unseen * WHOLE].sum()) / total,
        "items": float(np.log1p(table.item_count)),
        "named_share": table.named_share,
        "long_share": long_share(table.mean_item_length),
    }


def _said_by_another(table: FeatureTable) -> float:
    """By how much the best stands above the best that the speaker says whom the query names; 0 where it names none."""
    named = float(_column(table, Feature.NAMED_SPEAKER).max())
    seen = table.columns.get(Feature.MAX_SIM)
    if named <= 0 or seen is None:
        return 0.0
    highest, lowest = float(np.nanmax(seen)), float(np.nanmin(seen))
    return max(0.0, (highest - float(np.nanmedian(seen))) / max(highest - lowest, LEAST_SPREAD) - named)


def _of_candidates(table: FeatureTable, scores: Scores, order: Order) -> dict[str, Scores]:
    """Where each candidate stands beside the best one, and how well it matches by itself."""
    best = float(scores[order[0]])
    places = np.empty(len(order), np.float32)
    places[order] = np.arange(len(order), dtype=np.float32)
    columns: dict[str, Scores] = {
        "similarity": table.similarities,
        "share": np.asarray(scores / max(best, 1e-6), np.float32),
        "behind": np.asarray(best - scores, np.float32),
        "place": np.log1p(places),
    }
    return columns | {str(name): _column(table, name) for name in OF_CANDIDATES}


def _column(table: FeatureTable, name: str) -> Scores:
    """A feature, 0 where nothing is known."""
    column = table.columns.get(name)
    return np.zeros(len(table.keys), np.float32) if column is None else np.nan_to_num(column).astype(np.float32)
