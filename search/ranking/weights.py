"""Reads and checks the weights of the linear rankers, `weights.json`: a table names exactly its stage's features.

A weight of 0 is written into the file, so that a forgotten feature cannot be mistaken for one that does not count.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from convmemory.core.errors import ConvMemoryError
from search.retrieval.features import DENSE, EXCHANGES, LATE_INTERACTION, LEXICAL, Feature, MessageFeature

VERSION = 1
DATE = frozenset({Feature.DATE})
MESSAGE_WORDS = frozenset(
    {
        MessageFeature.WORD_COVERAGE,
        MessageFeature.BM25,
        MessageFeature.SPEAKER,
        MessageFeature.ITEM_SCORE,
        MessageFeature.NEIGHBOUR_ITEM_SCORE,
    }
)
TABLES: Mapping[str, frozenset[str]] = {
    "first_stage": DENSE | LEXICAL | DATE,
    "hybrid": EXCHANGES | LATE_INTERACTION | DENSE | LEXICAL | DATE,
    "hybrid_long_items": LATE_INTERACTION | DENSE | LEXICAL | DATE,
    "hybrid_people": EXCHANGES | LATE_INTERACTION | DENSE | LEXICAL | DATE,
    "full_text": LEXICAL | DATE,
    "semantic": LATE_INTERACTION | DENSE | DATE,
    "messages": frozenset(MessageFeature),
    "messages_full_text": MESSAGE_WORDS,
    "sections": LATE_INTERACTION | DENSE | LEXICAL | DATE,
}
"""The features that each table weighs."""

Weights = Mapping[str, float]


class WeightsError(ConvMemoryError):
    """The file of weights does not fit the features of this version."""


@cache
def weights_of(table: str) -> Weights:
    """Return one table of the product's own file. Raises: WeightsError."""
    text = resources.files("search.ranking").joinpath("weights.json").read_text(encoding="utf-8")
    return check_weights(json.loads(text))[table]


def check_weights(document: Mapping[str, Any]) -> Mapping[str, Weights]:
    """Return the tables of a file of weights.

    Raises: WeightsError, which names missing, unknown and invalid entries.
    """
    if document.get("version") != VERSION:
        raise WeightsError(f"weights.json has version {document.get('version')!r}; this code reads version {VERSION}.")
    tables: Mapping[str, Weights] = document["tables"]
    _require_same("tables", frozenset(TABLES), frozenset(tables))
    for name, features in TABLES.items():
        _require_same(f"features of the table {name!r}", features, frozenset(tables[name]))
        for feature, weight in tables[name].items():
            if not isinstance(weight, (int, float)) or isinstance(weight, bool) or not 0 <= weight < float("inf"):
                raise WeightsError(f"The weight of {feature!r} in {name!r} is {weight!r}: use a number from 0 on.")
    return tables


def _require_same(what: str, expected: frozenset[str], found: frozenset[str]) -> None:
    if missing := expected - found:
        raise WeightsError(f"The {what} lack {', '.join(sorted(missing))}.")
    if unknown := found - expected:
        raise WeightsError(f"The {what} hold what nothing makes: {', '.join(sorted(unknown))}.")
