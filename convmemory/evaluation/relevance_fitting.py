"""Fits a calibration of relevance to questions with and without an answer; each fold is judged by a fit on the others.

Each set counts the same; within a set, questions with an answer have the weight `ANSWERED_SHARE`, and the kinds of
questions count the same among themselves.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from convmemory.evaluation.calibrating import Floats, Logistic, fit_logistic, left_out
from convmemory.evaluation.silence import ANSWERED_SHARE, Asked, silence_figures
from search.ranking.relevance import WHOLE
from search.retrieval.features import Feature

Sets = Mapping[str, Sequence[Asked]]


def fit_calibration(sets: Sets, mode: str, bar: float) -> dict[str, Any]:
    """Return the calibration in the format of `relevance.json`, and the figures of each set with its folds left out."""
    rows = [(name, one) for name, asked in sets.items() for one in asked if one.evidence]
    if not rows:
        return {}
    names = list(rows[0][1].evidence)
    columns = np.array([[one.evidence[name] for name in names] for _, one in rows], np.float64)
    truth = np.array([one.is_answered for _, one in rows], np.bool_)
    shares = _shares(rows)
    folds = [f"{name}:{one.question.fold}" for name, one in rows]
    chance = left_out(columns, truth, shares, folds)
    judged = [(name, _judged(one, float(p), bar)) for (name, one), p in zip(rows, chance, strict=True)]
    return {
        mode: {
            "anything": _odds(fit_logistic(columns, truth, shares), names),
            "candidate": _fit_candidates(rows),
        },
        "left out": {name: silence_figures([one for at, one in judged if at == name], bar) for name in sets},
        "left out, all sets": silence_figures([one for _, one in judged], bar),
    }


def _judged(asked: Asked, likelihood: float, bar: float) -> Asked:
    """Return the outcome for the question with this calibration."""
    whole = asked.evidence[Feature.COVERAGE] >= WHOLE
    return replace(asked, likelihood=likelihood, is_silent=likelihood < bar and not whole)


def _shares(rows: Sequence[tuple[str, Asked]]) -> Floats:
    """Return the weight of each question."""
    counts = Counter((name, one.kind) for name, one in rows)
    different = {(name, one.is_answered, one.kind) for name, one in rows}
    kinds = Counter((name, is_answered) for name, is_answered, _ in different)
    return np.array(
        [
            (ANSWERED_SHARE if one.is_answered else 1 - ANSWERED_SHARE)
            / (kinds[name, one.is_answered] * counts[name, one.kind])
            for name, one in rows
        ]
    )


def _fit_candidates(rows: Sequence[tuple[str, Asked]]) -> dict[str, Any]:
    """Fit which of the best candidates of answered questions answer; each question counts the same."""
    answered = [one for _, one in rows if one.is_answered]
    names = list(answered[0].hits)
    columns = np.concatenate([np.column_stack([one.hits[name] for name in names]) for one in answered])
    truth = np.concatenate([one.right for one in answered])
    shares = np.concatenate([np.full(len(one.right), 1 / len(one.right)) for one in answered])
    return _odds(fit_logistic(columns.astype(np.float64), truth, shares), names)


def _odds(fitted: Logistic, names: Sequence[str]) -> dict[str, Any]:
    """Return the fit in the format of `relevance.json`, without evidence of weight 0."""
    found = {name: round(float(weight), 4) for name, weight in zip(names, fitted.weights, strict=True)}
    weights = {name: weight for name, weight in found.items() if weight}
    return {"intercept": round(fitted.intercept, 4), "weights": weights}
