"""The calibration of relevance: turns evidence into a probability; read from `relevance.json` and checked.

Each embedding model has its own calibrations, one per search mode; search by words has one for all models. Results
without a calibration have no relevance and are never silenced. Source: docs/adr/0058-calibrated-relevance.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from convmemory.core.errors import ConvMemoryError
from search.retrieval.candidates import Scores

VERSION = 1
MODES = frozenset({"hybrid", "semantic", "full_text", "by_distance"})
WORDS = "words"
"""The name in place of a model for searches that compare no vectors."""


class CalibrationError(ConvMemoryError):
    """The file of calibrations is not valid for this version."""


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
    """The probability that anything answers and, given that, the probability for each candidate."""

    anything: Odds
    candidate: Odds

    def of_anything(self, evidence: Mapping[str, float]) -> float:
        return float(self.anything.probability(evidence))

    def of_candidates(self, evidence: Mapping[str, Scores]) -> Scores:
        found: Scores = np.asarray(self.candidate.probability(evidence), np.float32)
        return found


def calibration_of(model: str, mode: str) -> Calibration | None:
    """Return the calibration for a model and a mode, None if there is none. Raises: CalibrationError."""
    return _calibrations().get(WORDS if mode == "full_text" else model, {}).get(mode)


@cache
def _calibrations() -> Mapping[str, Mapping[str, Calibration]]:
    text = resources.files("search.ranking").joinpath("relevance.json").read_text(encoding="utf-8")
    return read_calibrations(json.loads(text))


def read_calibrations(document: Mapping[str, Any]) -> Mapping[str, Mapping[str, Calibration]]:
    """Return the calibrations by model and mode. Raises: CalibrationError, which names the error."""
    if document.get("version") != VERSION:
        raise CalibrationError(f"relevance.json has version {document.get('version')!r}, not {VERSION}.")
    found: dict[str, dict[str, Calibration]] = {}
    for model, modes in document["models"].items():
        if unknown := set(modes) - MODES:
            raise CalibrationError(f"{model} is calibrated for what is no mode: {', '.join(sorted(unknown))}.")
        found[model] = {
            mode: Calibration(_odds(model, entry["anything"]), _odds(model, entry["candidate"]))
            for mode, entry in modes.items()
        }
    return found


def _odds(model: str, entry: Mapping[str, Any]) -> Odds:
    values = [entry["intercept"], *entry["weights"].values()]
    if not all(isinstance(value, (int, float)) and np.isfinite(value) for value in values):
        raise CalibrationError(f"The calibration of {model} holds what is no number.")
    return Odds(float(entry["intercept"]), {name: float(weight) for name, weight in entry["weights"].items()})
