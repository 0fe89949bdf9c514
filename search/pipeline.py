"""The pipeline of a search: prepare the query, let retrievers find candidates, and let rankers order them.

This module lists the retrievers, `search/ranking/stages.py` the rankers; a new pipeline checks that they fit together.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.utils.translation import gettext

from convmemory.core.errors import ConvMemoryError
from convmemory.core.sql import pipelined
from search.operators import listed, notes_on_operators
from search.options import SearchOptions
from search.query import SearchQuery
from search.query_text import QueryText
from search.ranking.in_time import place_of_best
from search.ranking.stages import MADE_BY_RANKING, RankedItems, Rankers, rank_candidates
from search.ranking.times.begun import has_begun
from search.ranking.times.reading import Anchor, TimeReading
from search.ranking.times.spans import Span
from search.retrieval.candidates import NO_ITEMS, Scores, distinct, spread_all
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.dense import ItemRetriever, PassageRetriever, embed_query
from search.retrieval.features import FeatureTable
from search.retrieval.held_words import HeldWords
from search.retrieval.lexical import LexicalRetriever
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.retrieval.retriever import Candidates, Retrieved, Retriever

# A query of this length matches so many items that the times of all items will be read; the query for them is sent
# ahead, while the text is embedded.
LONG_CHARS = 150


class PipelineError(ConvMemoryError):
    """Retrievers and rankers do not fit together."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Retrievers and rankers.

    Raises: PipelineError if a ranker weighs a feature that neither retrievers nor ranking make.
    """

    retrievers: tuple[Retriever, ...] = (LexicalRetriever(), ItemRetriever(), PassageRetriever())
    rankers: Rankers = field(default_factory=Rankers.fitted)

    def __post_init__(self) -> None:
        if missing := self.rankers.features - self.features - MADE_BY_RANKING:
            raise PipelineError(f"No retriever makes {', '.join(sorted(missing))}, which a ranker weighs.")

    @property
    def features(self) -> frozenset[str]:
        """Return all features that retrievers make."""
        return frozenset(name for retriever in self.retrievers for name in retriever.features)


PIPELINE = Pipeline()
"""The pipeline that the product uses."""


def rank_items(*, owner_id: int, query: SearchQuery, pipeline: Pipeline = PIPELINE) -> RankedItems:
    """Rank all items that any retriever found.

    If no item contains a quoted phrase, the words of the phrase are searched for instead, with a note. A further note
    names the operators that exclude all items or the best one. The number of queries is fixed, whatever the owner has:
    it doubles if the query has operators.
    """
    query = _in_time(owner_id, query, pipeline)
    ranked = _rank(owner_id, query, pipeline)
    text = query.parsed
    if text.phrases and not len(ranked.order):
        text = replace(text, phrases=())
        ranked = _rank(owner_id, replace(query, reading=text), pipeline)
        if len(ranked.order):
            said = gettext("No turn holds %(quoted)s word for word: the words were searched for.")
            ranked = _with_notes(ranked, said % {"quoted": listed([f'"{phrase}"' for phrase in query.parsed.phrases])})
    if not text.operators:
        return ranked
    free = _rank(owner_id, replace(query, reading=QueryText(text.text)), pipeline)
    return _with_notes(ranked, *notes_on_operators(text, ranked, free))


def _rank(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> RankedItems:
    found = _retrieve(owner_id, query, pipeline)
    return rank_candidates(found, rankers=pipeline.rankers, options=SearchOptions.from_settings())


def _in_time(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> SearchQuery:
    """Return the query with the time that it names, if any, read once for all later stages.

    If a conversation or document began in these days, the words that only name them are left out of the search. The
    event of "before the launch" is searched for first, so that its date is known.
    """
    reading = query.time
    if reading is not None and isinstance(reading.meaning, Anchor):
        reading = _with_event(owner_id, query, reading, reading.meaning.event, pipeline)
    if reading is None:
        return replace(query, is_timeless=True)
    query = replace(query, found_time=reading)
    if not reading.rest or not isinstance(reading.meaning, Span) or not has_begun(owner_id, reading.meaning):
        return query
    return replace(query, reading=replace(query.parsed, text=reading.rest))


def _with_event(
    owner_id: int, query: SearchQuery, reading: TimeReading, event: str, pipeline: Pipeline
) -> TimeReading | None:
    found = _rank(owner_id, replace(query, text=event, reading=QueryText(event), is_timeless=True), pipeline)
    place = place_of_best(found.table.keys[found.order], found.query)
    return reading.at(place) if place else None


def _with_notes(ranked: RankedItems, *notes: str) -> RankedItems:
    return replace(ranked, query=replace(ranked.query, notes=(*ranked.query.notes, *notes)))


def _retrieve(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> Retrieved:
    """Return all candidates. The query is embedded while PostgreSQL looks up its words."""
    # The first search ever creates the space, in a transaction, and none can begin inside the pipeline.
    prepared = prepare_query(owner_id=owner_id, query=query)
    applying = [retriever for retriever in pipeline.retrievers if retriever.applies(prepared)]
    with pipelined():
        prepared = prepared.looked_up()
        with_moments = prepared.time is not None and len(prepared.text.text) >= LONG_CHARS
        pending_corpus = PendingCorpus(owner_id, prepared.space, query.filters.kinds, with_moments=with_moments)
        pending = [r.send(prepared, pending_corpus) for r in applying if not r.needs_vector]
        prepared = embed_query(prepared)
        if prepared.space is not None:
            pending += [r.send(prepared, pending_corpus) for r in applying if r.needs_vector]
        corpus = pending_corpus.corpus
        read = [candidates.read(prepared, corpus) for candidates in pending]
        moments = pending_corpus.moments
    return replace(_merge(prepared, corpus, read, pipeline.features), moments=moments)


def _merge(query: PreparedQuery, corpus: Corpus, read: Sequence[Candidates], features: Collection[str]) -> Retrieved:
    """Merge all found items into one table; `features` that no retriever made are unavailable."""
    found = [candidates.found for candidates in read]
    keys = distinct(np.concatenate(found)) if found else NO_ITEMS
    columns: dict[str, Scores] = {}
    word_weights: dict[str, float] = {}
    held, scanned = HeldWords(), None
    for candidates in read:
        scanned = candidates.scanned or scanned
        held = candidates.held or held
        word_weights |= candidates.word_weights
        columns |= spread_all(keys, candidates.keys, candidates.features, unseen=candidates.unseen)
    table = FeatureTable(keys, mean_item_length=corpus.mean_item_length, item_count=corpus.items)
    table = table.with_columns(columns, of=features)
    return Retrieved(query, table, word_weights, held, scanned=scanned)
