"""Fits a calibration of relevance to questions with and without an answer; each fold is judged by a fit on the others.

Each set counts the same; within a set, questions with an answer have the weight `ANSWERED_SHARE`, and the kinds of
questions count the same among themselves.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fitting import Floats, Logistic, Mask, fit_logistic, left_out, weighted_share
from benchmarks.silence import ANSWERED_SHARE, Asked, silence_figures
from convmemory.core.config import config
from search.ranking.relevance import STRONG_RELEVANCE, WHOLE, joint_evidence
from search.retrieval.candidates import Feature

Sets = Mapping[str, Sequence[Asked]]
LEADING = 5  # hits of a question that count in the fit: later ones are hardly ever shown as likely
SIZES = (5, 10, 20, 50)  # turns of archives that are reported apart


def build_silence_report(asked: Mapping[str, Sequence[Asked]], options: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of each set and, if requested, a calibration fitted to all of them."""
    bar = config.search_min_relevance
    report: dict[str, Any] = {name: silence_figures(rows, bar) for name, rows in asked.items()}
    if options["fit_relevance"]:
        report["fit"] = fit_calibration(asked, options["mode"], bar)
    return report


def fit_calibration(sets: Sets, mode: str, bar: float) -> dict[str, Any]:
    """Return the calibration in the format of `relevance.json`, and the figures of each set with its folds left out."""
    rows = [(name, one) for name, asked in sets.items() for one in asked if one.evidence]
    if not rows:
        return {}
    names = list(rows[0][1].evidence)
    columns = np.array([[one.evidence[name] for name in names] for _, one in rows], np.float64)
    truth = np.array([one.is_answered for _, one in rows], np.bool_)
    # The weight of each question.
    counts = Counter((name, one.kind) for name, one in rows)
    different = {(name, one.is_answered, one.kind) for name, one in rows}
    kinds = Counter((name, is_answered) for name, is_answered, _ in different)
    shares = np.array(
        [
            (ANSWERED_SHARE if one.is_answered else 1 - ANSWERED_SHARE)
            / (kinds[name, one.is_answered] * counts[name, one.kind])
            for name, one in rows
        ]
    )
    folds = [f"{name}:{one.question.fold}" for name, one in rows]
    chance = left_out(columns, truth, shares, folds)
    hits = _hits(rows, shares)
    judged = [(name, _judged(one, float(p), bar)) for (name, one), p in zip(rows, chance, strict=True)]
    # For each size of archive the share of strong hits that answer, in the mix of questions, with intervals.
    of_hits = left_out(hits.columns, hits.right, hits.shares, [folds[number] for number in hits.questions])
    turns = np.round(np.expm1(hits.columns[:, hits.names.index("items")]))
    size = np.digitize(turns, SIZES, right=True)
    by_size = {}
    for number in np.unique(size).tolist():
        strong = (size == number) & (of_hits >= STRONG_RELEVANCE)
        share, low, high = weighted_share(hits.right[strong], hits.shares[strong])
        name = f"up to {SIZES[number]} turns" if number < len(SIZES) else "more"
        by_size[name] = {
            "hits": int(strong.sum()),
            "right": round(share, 4),
            "from": round(low, 4),
            "to": round(high, 4),
        }
    return {
        mode: {
            "anything": _odds(fit_logistic(columns, truth, shares), names),
            "hit": _odds(fit_logistic(hits.columns, hits.right, hits.shares), hits.names),
        },
        "strong hits left out": by_size,
        "left out": {name: silence_figures([one for at, one in judged if at == name], bar) for name in sets},
        "left out, all sets": silence_figures([one for _, one in judged], bar),
    }


def _judged(asked: Asked, likelihood: float, bar: float) -> Asked:
    """Return the outcome for the question with this calibration."""
    whole = asked.evidence[Feature.COVERAGE] >= WHOLE
    return replace(asked, likelihood=likelihood, is_silent=likelihood < bar and not whole)


@dataclass(frozen=True, slots=True)
class _Hits:
    """The first hits of all questions, in rows: their evidence, whether they answer, their weight, their question."""

    names: list[str]
    columns: Floats
    right: Mask
    shares: Floats
    questions: NDArray[np.int64]


def _hits(rows: Sequence[tuple[str, Asked]], shares: Floats) -> _Hits:
    leading = [{name: column[:LEADING] for name, column in one.hits.items()} for _, one in rows]
    evidence = [joint_evidence(one.evidence, of_one) for (_, one), of_one in zip(rows, leading, strict=True)]
    names = list(evidence[0])
    counts = [len(one.right[:LEADING]) for _, one in rows]
    columns = [
        np.column_stack([np.broadcast_to(of_one[name], count) for name in names])
        for of_one, count in zip(evidence, counts, strict=True)
    ]
    return _Hits(
        names,
        np.concatenate(columns).astype(np.float64),
        np.concatenate([one.right[:LEADING] for _, one in rows]),
        np.repeat(shares / np.maximum(counts, 1), counts),
        np.repeat(np.arange(len(rows)), counts),
    )


def _odds(fitted: Logistic, names: Sequence[str]) -> dict[str, Any]:
    """Return the fit in the format of `relevance.json`, without evidence of weight 0."""
    rounded = {name: round(float(weight), 4) for name, weight in zip(names, fitted.weights, strict=True)}
    weights = {name: weight for name, weight in rounded.items() if weight}
    return {"intercept": round(fitted.intercept, 4), "weights": weights}
