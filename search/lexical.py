"""The full text leg: which turns hold which words of the query, weighed by how rare the words are.

PostgreSQL's `ts_rank` knows no inverse document frequency; each term is ranked alone and weighed
here. One query per search. Source: docs/adr/0005-lexical-score.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from convmemory.conversations.reading import Filters
from convmemory.core.sql import load_sql
from convmemory.core.text import storable
from search.candidates import TurnKeys, spread, turn_keys
from search.filters import filter_sql
from search.ranking import Scores, inverse_document_frequency
from search.texts import searchable

SCOPE_WEIGHTS = {"user": "A", "assistant": "B", "thinking": "C", "tool": "D"}


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """Turns that hold any term of the query: keys sorted, one score each (idf-weighted sum of ts_rank)."""

    keys: TurnKeys
    scores: Scores


def lexical_matches(
    *, owner_id: int, text: str, scope: frozenset[str], filters: Filters, documents: int
) -> LexicalMatches:
    """One SQL query. `documents` is how many turns the owner has, for the idf."""
    condition, parameters = filter_sql(filters, turn_date="d.created_at")
    letters = "".join(SCOPE_WEIGHTS[name] for name in sorted(scope))
    parameters |= {
        "owner": owner_id,
        "text": searchable(storable(text)),
        "scope": letters,
        "weights": [float(letter in letters) for letter in "DCBA"],
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "lexical_matches").replace("{filters}", condition), parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    if not rows:
        return LexicalMatches(np.empty(0, np.int64), np.empty(0, np.float32))
    found = [turn_keys(conversations, turns) for _, conversations, turns, _, _ in rows]
    keys = np.unique(np.concatenate(found))
    frequency = np.array([len(term_keys) for term_keys in found])
    weights = inverse_document_frequency(frequency, max(documents, len(keys)))
    scores = np.zeros(len(keys), np.float32)
    for term_keys, weight, row in zip(found, weights, rows, strict=True):
        scores += weight * np.nan_to_num(spread(keys, term_keys, np.asarray(row[3], np.float32)))
    return LexicalMatches(keys, scores)
