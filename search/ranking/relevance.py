"""Computes the calibrated probability that any result answers the query, and the probability for each candidate.

It reads the features of the ranked candidates unscaled: scaling within the query removes the level of the best value,
which distinguishes an answer from the nearest of unrelated items. Source: docs/adr/0058-calibrated-relevance.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.model_folder import EXACT_MODEL, INT8_MODEL
from convmemory.embeddings.spaces import embedder_for
from search.ranking.imputing import scores_by_words
from search.ranking.rankers import Order, best_first, long_share
from search.retrieval.candidates import LEXICAL, Feature, FeatureTable, Scores, known, median
from search.retrieval.corpus import inverse_document_frequency
from search.retrieval.prepared import PreparedQuery

# From these probabilities on, a hit is a strong one, or a related one (ADR 59, ADR 93).
STRONG_RELEVANCE, RELATED_RELEVANCE = 0.8, 0.1
WORDS = "words"
"""The name in place of a model for searches that compare no vectors."""


# Each embedding model has its own calibrations, one per search mode; search by words has one for all models. Results
# without a calibration have no relevance and are never silenced. Source: docs/adr/0058-calibrated-relevance.md.
@dataclass(frozen=True, slots=True)
class Odds:
    """The logarithm of odds: `intercept` and a weighted sum of evidence."""

    intercept: float
    weights: Mapping[str, float]

    def probability(self, evidence: Mapping[str, Any]) -> Any:
        """Return the probability for numbers, or for arrays of equal length."""
        logarithm = self.intercept + sum(weight * evidence[name] for name, weight in self.weights.items())
        return 1 / (1 + np.exp(-np.clip(logarithm, -30.0, 30.0)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The probability that anything answers, and that a candidate does.

    The latter is fitted to the evidence of the query and of the candidate together (`hit`), or else is the product of
    the former and the probability that a candidate answers if anything does (`candidate`).
    """

    anything: Odds
    candidate: Odds | None = None
    hit: Odds | None = None

    def of_anything(self, evidence: Mapping[str, float]) -> float:
        return float(self.anything.probability(evidence))

    def of_candidates(self, query: Mapping[str, float], columns: Mapping[str, Scores]) -> Scores:
        """Return the probability of each candidate, from the evidence of the query and its own columns."""
        if self.hit is not None:
            chances = self.hit.probability(joint_evidence(query, columns))
        else:
            assert self.candidate is not None
            chances = self.of_anything(query) * self.candidate.probability(columns)
        return np.asarray(chances, np.float32)


def joint_evidence(query: Mapping[str, float], columns: Mapping[str, Scores]) -> dict[str, Any]:
    """Return the evidence of a query and that of candidates, whose names begin with `own_`, as values for `Odds`."""
    return {**query, **{f"own_{name}": column for name, column in columns.items()}}


def calibration_of(model: str, mode: str) -> Calibration | None:
    """Return the calibration for a model and a mode, None if there is none."""
    return _calibrations().get(WORDS if mode == "full_text" else model, {}).get(mode)


@cache
def _calibrations() -> Mapping[str, Mapping[str, Calibration]]:
    text = resources.files("search.ranking").joinpath("relevance.json").read_text(encoding="utf-8")
    calibrations = read_calibrations(json.loads(text)["models"])
    return {INT8_MODEL: calibrations[EXACT_MODEL], **calibrations}  # fitted with the same weights, unrounded


def read_calibrations(models: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Calibration]]:
    """Return the calibrations by model and mode."""
    return {
        model: {
            mode: Calibration(**{name: Odds(odds["intercept"], odds["weights"]) for name, odds in entry.items()})
            for mode, entry in modes.items()
        }
        for model, modes in models.items()
    }


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
"""Features of which the best value counts, its margin over the median, and the value of the first hit."""
OF_CANDIDATES = (Feature.MAX_SIM, Feature.PASSAGE_MAX_SIM, Feature.COVERAGE, Feature.NEIGHBOUR_COVERAGE)
LIKELY = 0.5
# From this share of the query's idf on, an item counts as containing all of its words.
WHOLE = 0.999


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for an answer: numbers of the query, and the features of the candidates in their `order`."""

    query: Mapping[str, float]
    table: FeatureTable
    scores: Scores
    order: Order

    def of_candidates(self, indices: Order) -> dict[str, Scores]:
        """Return columns (n,) over some candidates: the comparison of each with the best one, and its features."""
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


@dataclass(frozen=True, slots=True)
class Relevance:
    """The probability that any result answers, None without a calibration, and the inputs for that of a candidate.

    `by_words` is the relevance by words alone, if candidates lack vectors: of these, the higher probability counts.
    `is_calibrated` is false if the scale of the sentence model's cosines is unknown.
    """

    answerable: float | None = None
    evidence: Evidence | None = None
    calibration: Calibration | None = None
    by_words: "Relevance | None" = None
    is_calibrated: bool = True

    def of(self, indices: Order) -> list[float | None]:
        """Return the probability that each of these few candidates answers.

        None without a calibration, and without one of hits: of hits given .8 by a product about half are right.
        """
        is_fitted = self.calibration is not None and self.calibration.hit is not None
        chances = self._chances(indices) if is_fitted else None
        return [None] * len(indices) if chances is None else [round(float(chance), 4) for chance in chances]

    def at_least(self, bar: float, indices: Order, of_best: float = 1.0) -> Order:
        """Return those of the candidates that answer with at least this probability; all if that is unknown.

        If none is likely to answer, those with this share of the best one's probability may answer as well.
        """
        chances = self._chances(indices)
        if chances is None or not len(chances):
            return indices
        best = float(chances.max())
        return indices[chances >= (min(bar, of_best * best) if of_best < 1 and best < LIKELY else bar)]

    def _chances(self, indices: Order) -> Scores | None:
        if self.answerable is None or self.evidence is None or self.calibration is None:
            return None
        chances = self.calibration.of_candidates(self.evidence.query, self.evidence.of_candidates(indices))
        imputed = self.evidence.table.imputed
        of_words = None if self.by_words is None else self.by_words._chances(indices)
        if of_words is None or imputed is None:
            return chances
        # A product is never as sure as a strong hit.
        of_words = np.minimum(of_words, STRONG_RELEVANCE - 0.01)
        return np.where(imputed[indices] > 0, np.fmax(chances, of_words), chances)


def relevance_of(
    query: PreparedQuery, table: FeatureTable, scores: Scores, order: Order, word_weights: Mapping[str, float]
) -> Relevance:
    """Return the relevance of a table's candidates, ranked by `order`, computed from data already read."""
    evidence = gather_evidence(query, table, scores, order, word_weights)
    mode = _mode(query, table)
    calibration = calibration_of(_calibrated_model(query, mode), mode) if mode else None
    if calibration is None:
        return Relevance(evidence=evidence, is_calibrated=query.space is None or query.space.model in _calibrations())
    answerable = calibration.of_anything(evidence.query)
    if table.imputed is None:
        return Relevance(answerable, evidence, calibration)
    by_words = _by_words(query, table, word_weights)
    assert by_words.answerable is not None
    assert by_words.evidence is not None
    if table.imputed[by_words.evidence.order[0]] > 0:
        answerable = max(answerable, by_words.answerable)
    return Relevance(answerable, evidence, calibration, by_words)


def _by_words(query: PreparedQuery, table: FeatureTable, word_weights: Mapping[str, float]) -> Relevance:
    """Return the relevance by words alone, for candidates that lack vectors."""
    table = replace(table, columns={name: table.columns[name] for name in LEXICAL})
    scores = scores_by_words(table)
    evidence = gather_evidence(query, table, scores, best_first(scores, table.keys), word_weights)
    calibration = _calibrations()[WORDS]["full_text"]
    return Relevance(calibration.of_anything(evidence.query), evidence, calibration)


def _calibrated_model(query: PreparedQuery, mode: str) -> str:
    """Return the model whose calibration applies, "" if the token vectors are not those that it was fitted with."""
    space = query.space
    if space is None:
        return ""
    return space.model if mode == "by_distance" or space.token_model == space.model else ""


def _mode(query: PreparedQuery, table: FeatureTable) -> str:
    """Return the mode of the calibration.

    It is "" for documents alone, and for a search without the late interaction that the calibration was fitted with.
    """
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
    """Return the evidence with the same names for all modes; features that a mode lacks are 0."""
    features = _of_words(query, table, word_weights)
    first = int(order[0])
    for name in HIGHEST:
        highest, median, of_first = _height(table.columns.get(name), first)
        features[str(name)] = highest
        features[f"{name}_margin"] = highest - median
        features[f"{name}_first"] = of_first
    best = float(scores[first])
    features["lead"] = (best - float(scores[order[1]])) / max(best, 1e-6) if len(order) > 1 else 1.0
    features["said_by_another"] = _margin_over_named_speaker(table)
    return Evidence(features, table, scores, order)


def _height(column: Scores | None, first: int) -> tuple[float, float, float]:
    """Return the best value, the median, and the value of the first hit; 0 if no value is known."""
    if column is None:
        return 0.0, 0.0, 0.0
    seen = column[~np.isnan(column)]
    if not len(seen):
        return 0.0, 0.0, 0.0
    highest = float(seen.max()) if len(seen) == len(column) else max(float(seen.max()), 0.0)
    of_first = float(column[first])
    return highest, median(seen), 0.0 if np.isnan(of_first) else of_first


def _of_words(query: PreparedQuery, table: FeatureTable, word_weights: Mapping[str, float]) -> dict[str, float]:
    """Return evidence from the words of the query, without stop words.

    It is their number, their rarity, the share that no item contains, whether that is all of several words, and whether
    it is all and the model does not know the words either.
    """
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
    """Return whether the model reads each of the words in pieces: its neighbours then resemble only its spelling."""
    embedder = embedder_for(query.active_space) if query.space else None
    return isinstance(embedder, TokenEmbedder) and all(len(embedder.tokenize_query(word).ids) > 1 for word in words)


def _margin_over_named_speaker(table: FeatureTable) -> float:
    """Return the margin of the best value over the best value of the speaker named in the query; 0 without a name."""
    named = _height(table.columns.get(Feature.NAMED_SPEAKER), 0)[0]
    seen = table.columns.get(Feature.MAX_SIM)
    if named <= 0 or seen is None:
        return 0.0
    highest, lowest = float(np.nanmax(seen)), float(np.nanmin(seen))
    return max(0.0, (highest - median(seen[~np.isnan(seen)])) / max(highest - lowest, LEAST_SPREAD) - named)


def _column(table: FeatureTable, name: str, indices: Order) -> Scores:
    """Return a feature of some candidates, 0 if it is unknown."""
    column = table.columns.get(name)
    if column is None:
        return np.zeros(len(indices), np.float32)
    return known(column[indices])
