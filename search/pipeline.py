"""Gathering the legs' signals for one query and ranking the turns by them.

First the cheap legs over everything the owner has (words, passages, turns), fused; then late
interaction over the best of those, fused again; then the head of the list is made diverse.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.sql import Asked, load_sql, pipelined
from convmemory.embeddings.cache import query_vector
from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.query import SearchQuery
from search.ranking.dates import closeness, named_period
from search.ranking.fusion import (
    FIRST_STAGE,
    LEXICAL_ONLY,
    SEMANTIC_ONLY,
    Scores,
    best_first,
    diversify,
    fuse,
    second_stage,
)
from search.ranking.late_interaction import TURNS, late_scores
from search.retrieval.candidates import NO_TURNS, TurnKeys, best_of_conversation, split_keys, spread, turn_keys
from search.retrieval.corpus import Corpus, ask_corpus, corpus_of
from search.retrieval.dense import (
    SPOKEN,
    DenseMatches,
    ask_passages,
    ask_turn_vectors,
    ask_turns,
    dense_matches,
    turn_vectors,
)
from search.retrieval.lexical import LexicalMatches, ask_words, lexical_matches

logger = logging.getLogger(__name__)

HEAD = 30  # how many of the best turns are made diverse


@dataclass(slots=True)
class RankedTurns:
    """Candidate turns with their signals: keys sorted, NaN where a signal did not see a turn.

    `space` is None where no vector was used; `matched` are the turns that hold a word of the query;
    `mean_turn_length` is that of everything the owner has, in words.
    """

    keys: TurnKeys = field(default_factory=lambda: NO_TURNS)
    signals: dict[str, Scores] = field(default_factory=dict)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    matched: TurnKeys = field(default_factory=lambda: NO_TURNS)
    word_weights: Mapping[str, float] = field(default_factory=dict)
    mean_turn_length: float = 0.0
    space: EmbeddingSpace | None = None
    notes: tuple[str, ...] = ()
    head: NDArray[np.int64] | None = None

    def order(self) -> NDArray[np.int64]:
        """Indices into `keys`, best first."""
        order = best_first(self.scores, self.keys)
        return order if self.head is None else np.concatenate([self.head, order[len(self.head) :]])


def rank_turns(owner_id: int, query: SearchQuery) -> RankedTurns:
    """Every turn that any leg found, ranked; where no turn holds a quoted phrase, by its words, with a note.

    A fixed number of queries, whatever the owner has.
    """
    ranked = _ranked(owner_id, query)
    if len(ranked.keys) or not (phrases := query.parsed.phrases):
        return ranked
    ranked = _ranked(owner_id, replace(query, word_for_word=False))
    if len(ranked.keys):
        quoted = " and ".join(f'"{phrase}"' for phrase in phrases)
        ranked.notes += (f"No turn holds {quoted} word for word: the words were searched for.",)
    return ranked


def _ranked(owner_id: int, query: SearchQuery) -> RankedTurns:
    ranked = RankedTurns()
    if query.mode != "full_text":
        ranked.space, ranked.notes = _if_available(active_space)
    with pipelined():
        asked_words = ask_words(owner_id=owner_id, text=query.parsed, scope=query.scope, filters=query.filters)
        asked_corpus = ask_corpus(owner_id)
        if ranked.space is not None:  # the query is embedded while PostgreSQL looks for its words
            ranked.space, ranked.notes = _if_available(partial(_embed, query, ranked.space))
        rows, corpus = asked_words.rows(), corpus_of(asked_corpus)
        asked_dense = _ask_dense(owner_id, query, ranked.space, corpus) if ranked.space else {}
        lexical = lexical_matches(asked_words, rows, corpus)  # while PostgreSQL looks for vectors
        dense = _dense_signals({name: dense_matches(asked) for name, asked in asked_dense.items()})
    ranked.word_weights, ranked.mean_turn_length = lexical.word_weights, corpus.mean_turn_length
    _lay_out(ranked, lexical if query.mode != "semantic" or ranked.space is None else None, dense)
    if len(ranked.keys):
        _add_date(ranked, owner_id, query)
        _rank(ranked, owner_id, query)
    return ranked


def _if_available(find_space: Callable[[], EmbeddingSpace]) -> tuple[EmbeddingSpace | None, tuple[str, ...]]:
    """The space; None, and a note for the caller, where its model cannot be used."""
    try:
        return find_space(), ()
    except EmbedderUnavailable as error:
        logger.warning("Searching by words only: %s", error)
        return None, (f"Searched by words only: {error}",)


def _embed(query: SearchQuery, space: EmbeddingSpace) -> EmbeddingSpace:
    query_vector(space, query.parsed.text)
    return space


def _ask_dense(owner_id: int, query: SearchQuery, space: EmbeddingSpace, corpus: Corpus) -> dict[str, Asked]:
    text, filters = query.parsed, query.filters
    passages = corpus.passages_of(filters.conversation_id)
    asked = {
        "passage": ask_passages(
            owner_id=owner_id, space=space, text=text, scope=query.scope, filters=filters, passages=passages
        )
    }
    if query.scope >= SPOKEN:
        asked["turn"] = ask_turns(owner_id=owner_id, space=space, text=text, filters=filters, turns=corpus.turns)
    return asked


def _dense_signals(matches: Mapping[str, DenseMatches]) -> dict[str, tuple[TurnKeys, Scores]]:
    signals = {name: (found.keys, found.scores) for name, found in matches.items()}
    if "passage" in signals:
        keys, scores = signals["passage"]
        signals["passage_conversation"] = keys, best_of_conversation(keys, scores)
    return signals


def _lay_out(ranked: RankedTurns, lexical: LexicalMatches | None, dense: Mapping[str, tuple[TurnKeys, Scores]]) -> None:
    """All legs over one array of keys. A turn that no word touches has lexical signals of zero."""
    sources = [keys for keys, _ in dense.values()]
    if lexical is not None:
        sources.append(lexical.matched)
        ranked.matched = lexical.matched
    ranked.keys = np.unique(np.concatenate(sources)) if sources else NO_TURNS
    ranked.signals = {name: spread(ranked.keys, *found) for name, found in dense.items()}
    if lexical is not None:
        for name, scores in lexical.signals.items():
            ranked.signals[name] = np.nan_to_num(spread(ranked.keys, lexical.keys, scores))


def _add_date(ranked: RankedTurns, owner_id: int, query: SearchQuery) -> None:
    """Where the query names a date: how near to it each turn was written. One query."""
    period = named_period(query.parsed.text)
    if period is None:
        return
    conversations, turns = split_keys(ranked.keys)
    parameters: dict[str, Any] = {"owner": owner_id, "conversations": conversations, "turns": turns}
    ((found, numbers, days),) = Asked(load_sql("search", "turn_days"), parameters).rows()
    near = closeness(period, np.asarray(days or [], np.int64))
    ranked.signals["date"] = np.nan_to_num(spread(ranked.keys, turn_keys(found or [], numbers or []), near))


def _rank(ranked: RankedTurns, owner_id: int, query: SearchQuery) -> None:
    if ranked.space is None:
        ranked.scores = fuse(ranked.signals, LEXICAL_ONLY)
        return
    ranked.scores = fuse(ranked.signals, FIRST_STAGE)
    best = np.sort(best_first(ranked.scores, ranked.keys)[:TURNS])
    makes_diverse = settings.MMR_LAMBDA < 1
    with pipelined():
        asked = (
            ask_turn_vectors(owner_id=owner_id, space=ranked.space, keys=ranked.keys[best]) if makes_diverse else None
        )
        if settings.LATE_INTERACTION and _add_late(ranked, ranked.space, owner_id, query, best):
            hybrid = query.mode == "hybrid"
            ranked.scores = fuse(ranked.signals, second_stage(ranked.mean_turn_length) if hybrid else SEMANTIC_ONLY)
        if asked:
            _make_head_diverse(ranked, best, turn_vectors(asked, best, ranked.space.dimensions))


def _add_late(
    ranked: RankedTurns, space: EmbeddingSpace, owner_id: int, query: SearchQuery, best: NDArray[np.int64]
) -> bool:
    """Whether there are token vectors. One query."""
    late = late_scores(
        owner_id=owner_id,
        space=space,
        text=query.parsed.text,
        scope=query.scope,
        keys=ranked.keys[best],
        word_weights=ranked.word_weights,
    )
    if late is None:
        return False
    by_signal = {
        "late": late.turn,
        "late_neighbours": late.neighbours,
        "late_passage": late.passage,
    }
    ranked.signals |= {name: spread(ranked.keys, late.keys, scores) for name, scores in by_signal.items()}
    return True


def _make_head_diverse(ranked: RankedTurns, best: NDArray[np.int64], vectors: Vector) -> None:
    """`vectors` (n, dim) are those of the turns at `best` (sorted); another turn of the head is like none."""
    head = best_first(ranked.scores, ranked.keys)[:HEAD]
    places = np.searchsorted(best, head).clip(max=len(best) - 1)
    own = np.where((best[places] == head)[:, None], vectors[places], 0)
    similarity = own @ own.T
    np.fill_diagonal(similarity, 0)
    ranked.head = head[diversify(ranked.scores[head], similarity, relevance=settings.MMR_LAMBDA)]
