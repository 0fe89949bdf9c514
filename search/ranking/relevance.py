"""The calibrated probability that anything found answers the query, and the probability for each candidate.

Reads the features of the ranked candidates as they are, not scaled within the query: scaling removes the level of the
best value, which distinguishes an answer from what merely comes nearest. Source: docs/adr/0058-calibrated-relevance.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.spaces import embedder_for
from search.ranking.calibration import Calibration, calibration_of
from search.ranking.fusion import Order
from search.ranking.rankers import long_share
from search.retrieval.candidates import Scores, median
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
    """The evidence for an answer: numbers of the query, and for the candidates in their `order` the features to use."""

    query: Mapping[str, float]
    table: FeatureTable
    scores: Scores
    order: Order

    def of_candidates(self, indices: Order) -> dict[str, Scores]:
        """Columns (n,) over some candidates: how each compares with the best one, and how well it matches."""
        best = float(self.scores[self.order[0]])
        places = np.empty(len(self.order), np.float32)
        places[self.order] = np.arange(len(self.order), dtype=np.float32)
        scores = self.scores[indices]
        columns: dict[str, Scores] = {
            "similarity": self.table.similarities[indices],
            "share": np.asarray(scores / max(best, 1e-6), np.float32),
            "behind": np.asarray(best - scores, np.float32),
            "place": np.log1p(places[indices]),
        }
        return columns | {str(name): _column(self.table, name, indices) for name in OF_CANDIDATES}

    @property
    def has_every_word(self) -> bool:
        """Whether one candidate contains every word of the query."""
        return self.query[Feature.COVERAGE] >= WHOLE


@dataclass(frozen=True, slots=True)
class Relevance:
    """The probability that anything found answers, None without a calibration, and the inputs for that of a
    candidate."""

    answerable: float | None = None
    evidence: Evidence | None = None
    calibration: Calibration | None = None

    def of(self, indices: Order) -> list[float | None]:
        """The probability that each of these few candidates answers; None without a calibration."""
        if self.answerable is None or self.evidence is None or self.calibration is None:
            return [None] * len(indices)
        chances = self.calibration.of_candidates(self.evidence.of_candidates(indices))
        return [round(float(self.answerable * chance), 4) for chance in chances]


def relevance_of(
    query: PreparedQuery, table: FeatureTable, scores: Scores, order: Order, word_weights: Mapping[str, float]
) -> Relevance:
    """The relevance of a table's candidates, ranked by `order`. Computed from data already read."""
    evidence = gather_evidence(query, table, scores, order, word_weights)
    mode = _mode(query, table)
    calibration = calibration_of(query.space.model if query.space else "", mode) if mode else None
    if calibration is None:
        return Relevance(evidence=evidence)
    return Relevance(calibration.of_anything(evidence.query), evidence, calibration)


def _mode(query: PreparedQuery, table: FeatureTable) -> str:
    """The calibration to use; "" for documents alone, and without the late interaction that it was fitted with."""
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
    """The same names for every mode; what a mode lacks is 0."""
    found = _of_words(query, table, word_weights)
    first = int(order[0])
    for name in HIGHEST:
        highest, median, of_first = _height(table.columns.get(name), first)
        found[str(name)] = highest
        found[f"{name}_margin"] = highest - median
        found[f"{name}_first"] = of_first
    best = float(scores[first])
    found["lead"] = (best - float(scores[order[1]])) / max(best, 1e-6) if len(order) > 1 else 1.0
    found["said_by_another"] = _margin_over_named_speaker(table)
    return Evidence(found, table, scores, order)


def _height(column: Scores | None, first: int) -> tuple[float, float, float]:
    """The best value, its margin over the middle, and the value of the first hit; 0 if nothing is known."""
    if column is None:
        return 0.0, 0.0, 0.0
    seen = column[~np.isnan(column)]
    if not len(seen):
        return 0.0, 0.0, 0.0
    highest = float(seen.max()) if len(seen) == len(column) else max(float(seen.max()), 0.0)
    of_first = float(column[first])
    return highest, median(seen), 0.0 if np.isnan(of_first) else of_first


def _of_words(query: PreparedQuery, table: FeatureTable, word_weights: Mapping[str, float]) -> dict[str, float]:
    """How many words the query has besides stop words, how rare they are, what share of them no item contains, whether
    that is all of several words, and whether it is all and the model does not know them either."""
    words = sorted({word.written for word in query.words if not word.is_stop_word})
    weights = np.array([word_weights.get(word, 0.0) for word in words], np.float32)
    unseen = float(inverse_document_frequency(np.zeros(1, np.int64), table.item_count)[0])
    unseen_share = float(weights[weights >= unseen * WHOLE].sum()) / max(float(weights.sum()), 1e-6)
    return {
        "words": float(np.log1p(len(weights))),
        "rarity": float(weights.mean()) / max(unseen, 1e-6) if len(weights) else 0.0,
        "unseen": unseen_share,
        "none_held": float(unseen_share >= WHOLE and len(weights) > 1),
        "unknown": float(unseen_share >= WHOLE and _are_unknown(query, words)),
        "items": float(np.log1p(table.item_count)),
        "named_share": table.named_share,
        "long_share": long_share(table.mean_item_length),
    }


def _are_unknown(query: PreparedQuery, words: Sequence[str]) -> bool:
    """Whether the model reads each of the words in pieces: what is near to them then is so by how they are spelled."""
    embedder = embedder_for(query.active_space) if query.space else None
    return isinstance(embedder, TokenEmbedder) and all(len(embedder.tokenize_query(word).ids) > 1 for word in words)


def _margin_over_named_speaker(table: FeatureTable) -> float:
    """The margin of the best value over the best value by the speaker named in the query; 0 if it names none."""
    named = _height(table.columns.get(Feature.NAMED_SPEAKER), 0)[0]
    seen = table.columns.get(Feature.MAX_SIM)
    if named <= 0 or seen is None:
        return 0.0
    highest, lowest = float(np.nanmax(seen)), float(np.nanmin(seen))
    return max(0.0, (highest - median(seen[~np.isnan(seen)])) / max(highest - lowest, LEAST_SPREAD) - named)


def _column(table: FeatureTable, name: str, indices: Order) -> Scores:
    """A feature of some candidates, 0 if nothing is known."""
    column = table.columns.get(name)
    if column is None:
        return np.zeros(len(indices), np.float32)
    return np.nan_to_num(column[indices]).astype(np.float32)
