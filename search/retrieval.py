"""Finding the turns that answer a query: the one use case behind page, API, command, tool and MCP.

Takes the caller, never an owner from input; without a caller the answer is empty. Reads the legs'
candidates, fuses them (`ranking.py`), and fills in what a page of hits shows.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection

from convmemory.conversations.reading import EVERYTHING, Filters
from convmemory.core.cursors import decode_cursor, encode_cursor
from convmemory.core.errors import EmbedderUnavailable, InvalidInput
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space
from search.candidates import TurnKeys, split_keys, spread
from search.dense import DenseMatches, dense_matches
from search.lexical import LexicalMatches, lexical_matches
from search.models import TurnDocument
from search.passages import best_passages
from search.ranking import HYBRID_WEIGHTS, Scores, best_first, fuse

logger = logging.getLogger(__name__)

Mode = Literal["hybrid", "semantic", "full_text"]
MODES: tuple[str, ...] = get_args(Mode)
SCOPES = ("user", "assistant", "thinking", "tool")
DEFAULT_SCOPE = frozenset({"user", "assistant"})
MIN_QUERY_CHARS, MAX_QUERY_CHARS, MAX_LIMIT = 2, 500, 50


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked turn. `similarity` is a cosine from 0 to 1, `score` the fused score within this query."""

    conversation_id: int
    conversation_title: str
    turn_number: int
    message_id: int
    similarity: float
    score: float
    user_question: str
    passage: str
    matched: tuple[str, ...]
    created_at: datetime
    agent: str
    project: str

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of hits, the cursor of the next one, and what the caller should know about the search."""

    hits: list[Hit]
    next_cursor: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked query. Raises: InvalidInput on anything that cannot be searched for."""

    text: str
    limit: int = 20
    mode: str = "hybrid"
    scope: frozenset[str] = DEFAULT_SCOPE
    filters: Filters = EVERYTHING

    def __post_init__(self) -> None:
        if not len(self.text.strip()) >= MIN_QUERY_CHARS or len(self.text) > MAX_QUERY_CHARS:
            raise InvalidInput(
                f"A query has {MIN_QUERY_CHARS} to {MAX_QUERY_CHARS} characters; this one has {len(self.text)}."
            )
        if not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidInput(f"limit={self.limit} is out of range: use 1 to {MAX_LIMIT}.")
        if self.mode not in MODES:
            raise InvalidInput(f"There is no mode {self.mode!r}: use one of {', '.join(MODES)}.")
        if unknown := self.scope - set(SCOPES):
            raise InvalidInput(f"There is no scope {', '.join(sorted(unknown))!r}: use any of {', '.join(SCOPES)}.")

    @property
    def identity(self) -> dict[str, Any]:
        """What a cursor belongs to."""
        return {"text": self.text, "mode": self.mode, "scope": sorted(self.scope), "filters": repr(self.filters)}


def parse_scope(text: str) -> frozenset[str]:
    """Scopes from a comma-separated list; empty means what was said (user and assistant)."""
    return frozenset(name.strip() for name in text.split(",") if name.strip()) or DEFAULT_SCOPE


def search(*, caller: AbstractBaseUser | AnonymousUser | None, query: SearchQuery, cursor: str = "") -> SearchResults:
    """The caller's turns that answer the query, best first. Raises: InvalidInput on a foreign cursor."""
    if caller is None or not caller.is_authenticated or caller.pk is None:
        return SearchResults([], notes=("Nobody is signed in: there is nothing to search.",))
    start = int(decode_cursor(query.identity, cursor)[0]) if cursor else 0
    keys, signals, notes = _candidates(caller.pk, query)
    scores = fuse(signals, HYBRID_WEIGHTS) if len(keys) else np.empty(0, np.float32)
    order = best_first(scores, keys)
    page = order[start : start + query.limit]
    hits = _hits(caller.pk, query, keys[page], {name: values[page] for name, values in signals.items()}, scores[page])
    more = len(order) > start + query.limit
    next_cursor = encode_cursor(query.identity, [start + query.limit]) if more else None
    return SearchResults(hits, next_cursor, notes)


def _candidates(owner_id: int, query: SearchQuery) -> tuple[TurnKeys, dict[str, Scores], tuple[str, ...]]:
    """Every turn that any leg saw, its scores by signal, and notes about legs that could not run."""
    notes: tuple[str, ...] = ()
    dense = lexical = None
    if query.mode != "full_text":
        try:
            dense = _dense(owner_id, query)
        except EmbedderUnavailable as error:
            logger.warning("Searching by words only: %s", error)
            notes = (f"Searched by words only: {error}",)
    if query.mode != "semantic" or dense is None:
        lexical = _lexical(owner_id, query)
    legs: dict[str, DenseMatches | LexicalMatches | None] = {"turn": dense, "lexical": lexical}
    found = {name: leg for name, leg in legs.items() if leg is not None}
    keys = np.unique(np.concatenate([leg.keys for leg in found.values()]))
    return keys, {name: spread(keys, leg.keys, leg.scores) for name, leg in found.items()}, notes


def _dense(owner_id: int, query: SearchQuery) -> DenseMatches:
    return dense_matches(owner_id=owner_id, space=active_space(), text=query.text, filters=query.filters)


def _lexical(owner_id: int, query: SearchQuery) -> LexicalMatches:
    documents = TurnDocument.objects.filter(owner_id=owner_id).count()
    return lexical_matches(
        owner_id=owner_id, text=query.text, scope=query.scope, filters=query.filters, documents=documents
    )


def _hits(owner_id: int, query: SearchQuery, keys: TurnKeys, signals: dict[str, Scores], scores: Scores) -> list[Hit]:
    conversations, turns = split_keys(keys)
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "hits"), {"owner": owner_id, "conversations": conversations, "turns": turns})
        rows = {(row[0], row[1]): row[2:] for row in cursor.fetchall()}
    passages = best_passages(owner_id=owner_id, turns=list(rows), text=query.text)
    hits = []
    for index, turn in enumerate(zip(conversations, turns, strict=True)):
        if turn not in rows:
            continue  # deleted since the legs ran
        message_id, question, created_at, title, agent, project = rows[turn]
        similarity = float(signals["turn"][index]) if "turn" in signals else float("nan")
        hits.append(
            Hit(
                conversation_id=turn[0],
                conversation_title=title,
                turn_number=turn[1],
                message_id=message_id,
                similarity=0.0 if np.isnan(similarity) else round(min(1.0, max(0.0, similarity)), 4),
                score=round(float(scores[index]), 4),
                user_question=question,
                passage=passages.get(turn, ""),
                matched=tuple(name for name, values in signals.items() if values[index] > 0),
                created_at=created_at,
                agent=agent,
                project=project,
            )
        )
    return hits
