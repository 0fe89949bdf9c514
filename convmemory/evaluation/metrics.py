"""Measures of a ranking, per query and as means, and the comparison of two rankings. Pure.

`Gold` gives each query's relevant documents and their grades, `Run` the documents found and their scores; ties are
ordered by the documents' names.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

Gold = Mapping[str, Mapping[str, float]]
Run = Mapping[str, Mapping[str, float]]
Values = dict[str, dict[str, float]]
"""Measures by query."""


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Return the documents, best first."""
    return sorted(scores, key=lambda document: (-scores[document], document))


def recall(relevant: Iterable[str], found: Sequence[str], k: int) -> float:
    """Return the share of the relevant documents among the first k."""
    wanted = set(relevant)
    return len(wanted & set(found[:k])) / len(wanted) if wanted else 0.0


def hit(relevant: Iterable[str], found: Sequence[str], k: int) -> float:
    """Return 1 if any relevant document is among the first k, otherwise 0."""
    return float(not set(relevant).isdisjoint(found[:k]))


def reciprocal_rank(relevant: Iterable[str], found: Sequence[str]) -> float:
    """Return 1 over the rank of the first relevant document, 0 if none was found."""
    wanted = set(relevant)
    return next((1 / rank for rank, document in enumerate(found, 1) if document in wanted), 0.0)


def ndcg(relevance: Mapping[str, float], found: Sequence[str], k: int) -> float:
    """Return the discounted gain of the first k over that of the best possible order.

    Source: Järvelin and Kekäläinen, 2002.
    """
    ideal = _discounted(sorted(relevance.values(), reverse=True)[:k])
    return _discounted(relevance.get(document, 0.0) for document in found[:k]) / ideal if ideal else 0.0


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def measure(gold: Gold, run: Run, *, depth: int = 20, cutoffs: Sequence[int] = (1, 5, 10, 20)) -> Values:
    """Return recall, hit rate, reciprocal rank and nDCG@10 of each query of `gold`, over the first `depth`
    documents.
    """
    values: Values = {}
    for query, relevance in gold.items():
        relevant = [document for document, grade in relevance.items() if grade > 0]
        found = ranked(run.get(query, {}))[:depth]
        values[query] = {f"recall@{k}": recall(relevant, found, k) for k in cutoffs}
        values[query] |= {f"hit@{k}": hit(relevant, found, k) for k in cutoffs}
        values[query] |= {"mrr": reciprocal_rank(relevant, found), "ndcg@10": ndcg(relevance, found, 10)}
    return values


def means(values: Values) -> dict[str, float]:
    """Return the mean of each measure over the queries."""
    rows = list(values.values())
    return {name: fmean(row[name] for row in rows) for name in rows[0]} if rows else {}


# --- comparing ------------------------------------------------------------------------------------
# Compares two rankings of the same questions by the difference of their means with an interval. Pure.
#
# Questions of one conversation are not independent evidence, so whole conversations are resampled (a cluster
# bootstrap). Source: Field and Welsh, 2007, Bootstrapping clustered data.


SAMPLES = 2_000
LEVEL = 95
"""The percentage of resampled differences within the interval."""

MIN_CLUSTERS = 10
"""With fewer conversations an interval is too narrow to be trusted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of `other - this` over the questions, and the interval from `low` to `high`."""

    mean: float
    low: float
    high: float
    clusters: int

    @property
    def verdict(self) -> str:
        if self.clusters < MIN_CLUSTERS:
            return "too few conversations to tell"
        if self.low > 0:
            return "better here"
        if self.high < 0:
            return "worse here"
        return "not told apart"


def paired_difference(
    this: Sequence[float], other: Sequence[float], clusters: Sequence[int], *, seed: int = 0
) -> Difference:
    """Compare values of the same questions in the same order; `clusters` names the conversation of each."""
    differences = np.asarray(other, float) - np.asarray(this, float)
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    sums, counts = np.bincount(places, differences), np.bincount(places)
    drawn = np.random.default_rng(seed).integers(0, len(names), (SAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return Difference(float(differences.mean()), float(low), float(high), len(names))
