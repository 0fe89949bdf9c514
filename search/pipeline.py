"""The pipeline of a search: a query is prepared, retrievers find candidates, rankers put them in order.

Which retrievers and rankers there are stands here; how they fit together is checked when a pipeline is made.
"""

from dataclasses import dataclass, field, replace

from django.utils.translation import gettext

from convmemory.core.errors import ConvMemoryError
from convmemory.core.sql import pipelined
from search.operators import listed, notes_on_operators
from search.options import SearchOptions
from search.query import SearchQuery
from search.query_text import QueryText
from search.ranking.in_time import ask_moments_ahead, has_begun, place_of_best
from search.ranking.stages import MADE_BY_RANKING, RankedItems, Rankers, rank_candidates
from search.ranking.times.reading import Anchor, TimeReading
from search.ranking.times.spans import Span
from search.retrieval.corpus import PendingCorpus
from search.retrieval.dense import ItemRetriever, PassageRetriever
from search.retrieval.lexical import LexicalRetriever
from search.retrieval.prepared import PendingQueryWords, embed_query, prepare_query
from search.retrieval.retriever import Retrieved, Retriever, merge_candidates


class PipelineError(ConvMemoryError):
    """Retrievers and rankers do not fit together."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Retrievers and rankers. Raises: PipelineError where a ranker weighs a feature that nothing makes."""

    retrievers: tuple[Retriever, ...] = (LexicalRetriever(), PassageRetriever(), ItemRetriever())
    rankers: Rankers = field(default_factory=Rankers.fitted)

    def __post_init__(self) -> None:
        if missing := self.rankers.features - self.features - MADE_BY_RANKING:
            raise PipelineError(f"No retriever makes {', '.join(sorted(missing))}, which a ranker weighs.")

    @property
    def features(self) -> frozenset[str]:
        """Every feature that a retriever makes."""
        return frozenset(name for retriever in self.retrievers for name in retriever.features)


PIPELINE = Pipeline()
"""The product's own."""


def rank_items(*, owner_id: int, query: SearchQuery, pipeline: Pipeline = PIPELINE) -> RankedItems:
    """Every item that any retriever found, ranked; where none holds a quoted phrase, by its words, with a note.

    A further note names the operators that keep every item or the best one out. A fixed number of queries,
    whatever the owner has: twice as many where the query has operators.
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
    """The query with the time that it names; where anything is of these days, without the words that only name them.

    The event of "before the launch" is searched for by itself, so that it is known when it was.
    """
    reading = query.time
    if reading is not None and isinstance(reading.meaning, Anchor):
        reading = _with_event(owner_id, query, reading, reading.meaning.event, pipeline)
        query = replace(query, is_timeless=True) if reading is None else replace(query, found_time=reading)
    days = reading.meaning if reading is not None and reading.rest else None
    if reading is None or not isinstance(days, Span) or not has_begun(owner_id, days):
        return query
    return replace(query, found_time=reading, reading=replace(query.parsed, text=reading.rest))


def _with_event(
    owner_id: int, query: SearchQuery, reading: TimeReading, event: str, pipeline: Pipeline
) -> TimeReading | None:
    found = _rank(owner_id, replace(query, text=event, reading=QueryText(event), is_timeless=True), pipeline)
    place = place_of_best(found.table.keys[found.order], found.query)
    return reading.at(place) if place else None


def _with_notes(ranked: RankedItems, *notes: str) -> RankedItems:
    return replace(ranked, query=replace(ranked.query, notes=(*ranked.query.notes, *notes)))


def _retrieve(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> Retrieved:
    """All candidates. The query is embedded while PostgreSQL takes it apart into words."""
    with pipelined():
        prepared = prepare_query(owner_id=owner_id, query=query)
        pending_words, pending_corpus = PendingQueryWords(prepared), PendingCorpus(owner_id, query.filters.kinds)
        pending_moments = ask_moments_ahead(prepared)
        prepared = pending_words.read(embed_query(prepared))
        applying = [retriever for retriever in pipeline.retrievers if retriever.applies(prepared)]
        pending = [r.send(prepared, pending_corpus) for r in applying if not r.needs_vector]
        if prepared.space is not None:
            pending += [r.send(prepared, pending_corpus) for r in applying if r.needs_vector]
        corpus = pending_corpus.corpus
        read = [candidates.read(prepared, corpus) for candidates in pending]
        moments = pending_moments.rows()[0] if pending_moments is not None else None
    return replace(merge_candidates(prepared, corpus, read, pipeline.features), moments=moments)
