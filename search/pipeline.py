"""The pipeline of a search: prepare the query, let retrievers find candidates, and let rankers order them.

`Pipeline` lists the retrievers and `Rankers` the rankers; a new pipeline checks that they fit together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.utils.translation import gettext, ngettext, pgettext

from convmemory.conversations.names import with_known_names
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError
from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.languages import is_sign
from search.query import SEARCHED_CHARS, SearchQuery
from search.query_text import QueryText
from search.ranking.exchanges import passages_of_best, with_late_features
from search.ranking.imputing import has_any_vector, with_imputed
from search.ranking.in_time import (
    date_features,
    has_begun,
    in_order_of_time,
    items_written_in,
    place_of_best,
    read_moments,
)
from search.ranking.rankers import (
    BlendedRanker,
    LinearRanker,
    Order,
    Ranker,
    best_few,
    best_first,
    diversify,
    weights_of,
)
from search.ranking.relevance import RELATED_RELEVANCE, Relevance, relevance_of
from search.ranking.times.reading import Anchor
from search.ranking.times.relative import DayRange
from search.ranking.topics import one_of_each_source, topic_of
from search.retrieval.candidates import (
    EXCHANGES,
    ITEM_BITS,
    LATE_INTERACTION,
    NO_ITEMS,
    Feature,
    FeatureTable,
    ItemKeys,
    Scores,
    are_among,
    distinct,
    split_keys,
    spread_all,
)
from search.retrieval.corpus import PendingCorpus, send_moments_query
from search.retrieval.dense import ItemRetriever, PassageRetriever, embed_query
from search.retrieval.filters import phrase_sql
from search.retrieval.lexical import LexicalRetriever
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.retrieval.rare_words import rarest_words
from search.retrieval.retriever import Retrieved, Retriever
from search.retrieval.signs import items_with_sign
from search.retrieval.word_scores import MatchedTerms
from search.vectors.small_owners import ComparedPassages

# --- stages ---------------------------------------------------------------------------------------
# Orders candidates: a first score for all, late interaction and a second score for the best, then diversity.
#
# Reads dates, vectors and token vectors of candidates; the rankers compute the scores.


# The number of best items by the first score that get late interaction and a second score; ADR 8 and ADR 10 measure
# with it.
RESCORED = 80


@dataclass(frozen=True, slots=True)
class Rankers:
    """The ranker of each stage. Late interaction's features exist for `hybrid` and `semantic` only."""

    first_stage: Ranker
    hybrid: Ranker
    semantic: Ranker
    full_text: Ranker
    sections: Ranker  # for `hybrid` if only documents are searched

    @property
    def features(self) -> frozenset[str]:
        """Return all features that any of the rankers weighs."""
        rankers = (self.first_stage, self.hybrid, self.semantic, self.full_text, self.sections)
        return frozenset(name for ranker in rankers for name in ranker.features)

    @classmethod
    def fitted(cls) -> "Rankers":
        """Return the rankers with the product's weights."""
        return cls(
            first_stage=LinearRanker(weights_of("first_stage")),
            hybrid=BlendedRanker(weights_of("hybrid"), weights_of("hybrid_long_items"), weights_of("hybrid_people")),
            semantic=LinearRanker(weights_of("semantic")),
            full_text=LinearRanker(weights_of("full_text")),
            sections=LinearRanker(weights_of("sections")),
        )


MADE_BY_RANKING: frozenset[str] = frozenset({Feature.DATE}) | LATE_INTERACTION | EXCHANGES
"""The features that ranking makes and no retriever."""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """Candidates with their features and scores, and `order`: indices into the table's keys, best first."""

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    word_weights: Mapping[str, float] = field(default_factory=dict)
    held: MatchedTerms = field(default_factory=MatchedTerms)
    compared: ComparedPassages | None = None
    relevance: Relevance = field(default_factory=Relevance)
    is_listing: bool = False
    is_incomplete: bool = False  # as in `Corpus`
    space: EmbeddingSpace | None = None  # the space whose vectors were compared, None if none were

    def is_answered(self, bar: float) -> bool | None:
        """Return whether any result answers with at least the probability `bar`; None if that is unknown.

        An item that contains a quoted phrase, or all words of the query, counts as an answer, as do those of a listing.
        """
        if not len(self.order):
            return False
        if self.is_listing:
            return True
        if self.relevance.answerable is None:
            return None
        if self.query.text.phrases or (self.relevance.evidence and self.relevance.evidence.has_every_word):
            return True
        return self.relevance.answerable >= bar

    def likely(self, bar: float) -> ItemKeys:
        """Return the items that may answer, best first: all where that is unknown, or where `bar` is 0."""
        return self.table.keys[self.relevance.at_least(min(bar, RELATED_RELEVANCE), self.order)]


def rank_candidates(retrieved: Retrieved, *, rankers: Rankers) -> RankedItems:
    """Return the candidates in the order of the query's mode, with their relevance. At most three queries."""
    ranked = replace(_rank(retrieved, rankers), is_incomplete=retrieved.is_incomplete, space=retrieved.query.space)
    if not len(ranked.order):
        return ranked
    return replace(
        ranked,
        held=retrieved.held,
        compared=retrieved.compared,
        relevance=relevance_of(ranked.query, ranked.table, ranked.scores, ranked.order, ranked.word_weights),
    )


def _rank(retrieved: Retrieved, rankers: Rankers) -> RankedItems:
    query, table = retrieved.query, retrieved.table
    if not len(table.keys):
        return RankedItems(query, table, word_weights=retrieved.word_weights)
    moments = None
    if query.time:
        moments = read_moments(query, table.keys, item_count=table.item_count, of_all=retrieved.moments)
    table = table.with_columns(date_features(query, table.keys, moments), of={Feature.DATE})
    if query.space is not None and query.mode == "hybrid":
        if has_any_vector(table):
            table = with_imputed(retrieved, table)
        else:
            query = replace(query, space=None)
    if query.space is None:
        scores = in_order_of_time(query, rankers.full_text.score(table), table.keys, moments)
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    if query.by_distance:
        scores = table.similarities
        if table.imputed is not None:
            scores = np.maximum(scores, table.imputed * scores.max())
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    scores = rankers.first_stage.score(table)
    best = np.sort(best_few(scores, table.keys, RESCORED))
    with pipelined():
        passages = passages_of_best(retrieved, table.keys[best]) if config.late_interaction else None
        read_vectors = None
        if config.mmr_lambda < 1:
            read_vectors = send_vectors_query(query, table.keys[best], retrieved.compared)
        if config.late_interaction:  # while PostgreSQL looks up the vectors
            table = with_late_features(retrieved, table, table.keys[best], passages)
            if Feature.MAX_SIM in table.columns:
                scores = second_ranker(query, rankers).score(table)
        scores = in_order_of_time(query, scores, table.keys, moments)
        order = best_first(scores, table.keys)
        if read_vectors is not None:
            order = with_diverse_top(order, scores, best, read_vectors(), relevance=config.mmr_lambda)
    return RankedItems(query, table, scores, order, retrieved.word_weights)


def second_ranker(query: PreparedQuery, rankers: Rankers) -> Ranker:
    """Return the ranker for the best candidates, after late interaction."""
    if query.mode != "hybrid":
        return rankers.semantic
    return rankers.sections if query.is_of_documents_alone else rankers.hybrid


# --- pipeline -------------------------------------------------------------------------------------


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


CONVERSATION = "conversation"
"""The kind of source that a question of a time alone, or for conversations about a topic, finds."""
PIPELINE = Pipeline()
"""The pipeline that the product uses."""


def rank_items(*, owner_id: int, query: SearchQuery, pipeline: Pipeline = PIPELINE) -> RankedItems:
    """Rank all items that any retriever found.

    A long text is searched for by its rarest words. A question of a time alone lists what was written then, and a
    single CJK character or emoji lists what contains it. A query for conversations about a topic finds one item of
    each. If no item contains a quoted phrase, the words of the phrase are searched for instead, with a note. A further
    note names the operators that exclude all items or the best one. The number of queries is fixed, whatever the owner
    has: it doubles if the query has operators.
    """
    query = replace(query, filters=with_known_names(owner_id, query.filters))
    # The topic if the query asks for conversations about one, and may find other conversations than one.
    kinds, is_within_one = query.filters.kinds, query.filters.conversation_id is not None
    if query.by_distance or query.reading is not None or is_within_one or (kinds and CONVERSATION not in kinds):
        topic = ""
    else:
        topic = topic_of(query.parsed)
    if topic:
        filters = replace(query.filters, kinds=frozenset({CONVERSATION}))
        about = replace(query, reading=QueryText(topic), filters=filters)
        ranked = rank_items(owner_id=owner_id, query=about, pipeline=pipeline)
        said = gettext("Conversations about “%(topic)s”, one turn of each.") % {"topic": topic}
        order = one_of_each_source(ranked.query, ranked.table.keys, ranked.scores, ranked.order)
        return _with_notes(replace(ranked, order=order), said)
    # Of a long text, the rarest words are searched for.
    whole, is_long, is_incomplete = query.parsed.text, len(query.parsed.text) > SEARCHED_CHARS, False
    if is_long:
        rarest, is_incomplete = rarest_words(owner_id, whole, query.filters)
        query = replace(query, reading=replace(query.parsed, text=rarest), is_timeless=True)
    if (reading := query.time) is not None:
        query = replace(query, found_time=reading)  # read once for all later stages
    if (listed := _listed_by_time(owner_id, query) or _listed_by_sign(owner_id, query)) is not None:
        return listed
    ranked = _rank_items(owner_id, _in_time(owner_id, query, pipeline), pipeline)
    if not is_long:
        return ranked
    if is_incomplete:  # the words that were left out would have spoken against an answer
        ranked = replace(ranked, relevance=replace(ranked.relevance, answerable=None))
    said = gettext("The text is long: its rarest words were searched for, %(count)s of %(all)s.")
    return _with_notes(ranked, said % {"count": len(query.parsed.text.split()), "all": len(whole.split())})


def _listed_by_time(owner_id: int, query: SearchQuery) -> RankedItems | None:
    """Return the turns of the days that a query names if it names nothing else, the newest first; otherwise None."""
    reading = query.time
    days = reading.days_alone(query.parsed.text) if reading else None
    if reading is None or days is None:
        return None
    kinds = query.filters.kinds or frozenset({CONVERSATION})
    of_kinds = replace(query, mode="full_text", filters=replace(query.filters, kinds=kinds))
    prepared, moments = prepare_query(owner_id=owner_id, query=of_kinds), send_moments_query(owner_id)
    prepared = prepared.looked_up()  # after the items, so that the filters have seen each of their sources
    keys, seconds = items_written_in(prepared, days, moments)
    if not len(keys):
        return None
    said = gettext("Everything from %(time)s, the newest first.") % {"time": reading.label}
    return RankedItems(
        replace(prepared, notes=(said,)), FeatureTable(keys), np.zeros(len(keys), np.float32),
        np.lexsort((-keys, -seconds)), is_listing=True,
    )  # fmt: skip


def _listed_by_sign(owner_id: int, query: SearchQuery) -> RankedItems | None:
    """Return the items that contain a query of one CJK character or emoji, the newest first; None if there are none."""
    sign = query.parsed.text.strip()
    if query.mode == "semantic" or query.by_distance or not is_sign(sign):
        return None
    prepared = prepare_query(owner_id=owner_id, query=replace(query, mode="full_text")).looked_up()
    keys, is_all = items_with_sign(prepared, sign)
    if not len(keys):
        return None
    seconds = read_moments(prepared, keys, item_count=len(keys))
    said = gettext("Everything with %(sign)s, the newest first.")
    if not is_all:
        said = gettext("The newest of all with %(sign)s: more was not looked through.")
    return RankedItems(
        replace(prepared, notes=(said % {"sign": sign},)), FeatureTable(keys), np.zeros(len(keys), np.float32),
        np.lexsort((-keys, -seconds)), {sign: 1.0}, is_listing=True,
    )  # fmt: skip


def _rank_items(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> RankedItems:
    ranked = _retrieve_and_rank(owner_id, query, pipeline)
    text = query.parsed
    if text.phrases and not len(ranked.order):
        text = replace(text, phrases=())
        ranked = _retrieve_and_rank(owner_id, replace(query, reading=text), pipeline)
        if len(ranked.order):
            said = gettext("No turn holds %(quoted)s word for word: the words were searched for.")
            ranked = _with_notes(ranked, said % {"quoted": listed([f'"{phrase}"' for phrase in query.parsed.phrases])})
    if not text.operators:
        return ranked
    free = _retrieve_and_rank(owner_id, replace(query, reading=QueryText(text.text)), pipeline)
    return _with_notes(ranked, *notes_on_operators(text, ranked, free))


def _retrieve_and_rank(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> RankedItems:
    # All candidates. The query is embedded while PostgreSQL looks up its words.
    # The first search ever creates the space, in a transaction, and none can begin inside the pipeline.
    prepared = prepare_query(owner_id=owner_id, query=query)
    applying = [retriever for retriever in pipeline.retrievers if retriever.applies(prepared)]
    with pipelined():
        with_moments = prepared.time is not None and len(prepared.text.text) >= LONG_CHARS
        pending_corpus = PendingCorpus(owner_id, prepared.space, query.filters.kinds, with_moments=with_moments)
        prepared = prepared.looked_up()  # after the corpus, so that it has seen each of its sources
        pending = [r.send(prepared, pending_corpus) for r in applying if not r.needs_vector]
        prepared = embed_query(prepared)
        if prepared.space is not None:
            pending += [r.send(prepared, pending_corpus) for r in applying if r.needs_vector]
        corpus = pending_corpus.corpus
        read = [read_candidates(prepared, corpus) for read_candidates in pending]
        moments = pending_corpus.moments
    # Merge all found items into one table; `features` that no retriever made are unavailable.
    found_by_each = [candidates.found for candidates in read]
    keys = distinct(np.concatenate(found_by_each)) if found_by_each else NO_ITEMS
    keys = keys[are_among(keys >> ITEM_BITS, corpus.sources)]  # no filter has seen a source that was stored since
    columns: dict[str, Scores] = {}
    word_weights: dict[str, float] = {}
    held, scanned, compared = MatchedTerms(), None, None
    for candidates in read:
        scanned, compared = candidates.scanned or scanned, candidates.compared or compared
        held = candidates.held or held
        word_weights |= candidates.word_weights
        columns |= spread_all(keys, candidates.keys, candidates.features, unseen=candidates.unseen)
    table = FeatureTable(keys, mean_item_length=corpus.mean_item_length, item_count=corpus.items)
    table = table.with_columns(columns, of=pipeline.features)
    behind = corpus.behind if prepared.space is not None else ()
    found = replace(
        Retrieved(prepared, table, word_weights, held, scanned=scanned, compared=compared, behind=behind),
        moments=moments,
        is_incomplete=corpus.is_incomplete,
    )
    return rank_candidates(found, rankers=pipeline.rankers)


def _in_time(owner_id: int, query: SearchQuery, pipeline: Pipeline) -> SearchQuery:
    """Return the query with the time that it names, if any, read once for all later stages.

    If a conversation or document began in these days, the words that only name them are left out of the search. The
    event of "before the launch" is searched for first, so that its date is known.
    """
    reading = query.time
    if reading is not None and isinstance(reading.meaning, Anchor):
        found = _retrieve_and_rank(
            owner_id,
            replace(query, text=reading.meaning.event, reading=QueryText(reading.meaning.event), is_timeless=True),
            pipeline,
        )
        place = place_of_best(found.table.keys[found.order], found.query)
        reading = reading.at(place) if place else None
    if reading is None:
        return replace(query, is_timeless=True)
    query = replace(query, found_time=reading)
    if not reading.rest or not isinstance(reading.meaning, DayRange) or not has_begun(owner_id, reading.meaning):
        return query
    return replace(query, reading=replace(query.parsed, text=reading.rest))


def _with_notes(ranked: RankedItems, *notes: str) -> RankedItems:
    return replace(ranked, query=replace(ranked.query, notes=(*ranked.query.notes, *notes)))


# --- operators ------------------------------------------------------------------------------------
# Notes on the items that the operators of a query exclude: a hyphen may have been meant as a hyphen.
#
# Compares the results with those of the same query without its operators. Takes at most one database query.


# The number of best items without operators that are checked if no item remains with them.
LOOKED_AT = 50


def notes_on_operators(text: QueryText, ranked: RankedItems, free: RankedItems) -> list[str]:
    """Return a note naming the operators that exclude all items or the best one; none if they exclude neither."""
    best_first = free.table.keys[free.order[:LOOKED_AT]]
    if not len(best_first) or best_first[0] in ranked.table.keys:
        return []
    nothing_left = not len(ranked.order)
    # The operators, as typed, that exclude any of these items.
    items = best_first if nothing_left else best_first[:1]
    sources, numbers = split_keys(items)
    said = [*text.phrases, *text.excluded]
    parameters = {"owner": free.query.owner_id, "phrases": said, "sources": sources, "items": numbers}
    statement = load_sql("search", "phrases_found").replace("{phrase}", phrase_sql("p.phrase", free.query.languages))
    rows = PendingQuery(statement, parameters).rows()
    held = {int(place): int(count) for place, count in rows}
    keeping_out = [
        operator
        for place, operator in enumerate(text.operators)
        if (held[place] < len(items) if place < len(text.phrases) else held[place] > 0)
    ]
    if not keeping_out:
        return []
    return [_note_text(nothing_left, len(keeping_out)) % {"named": listed(keeping_out)}]


def _note_text(nothing_left: bool, count: int) -> str:
    if nothing_left:
        return ngettext(
            "%(named)s keeps out every result: remove it to see some.",
            "%(named)s keep out every result: remove them to see some.",
            count,
        )
    return ngettext(
        "%(named)s keeps out the result that would come first: remove it to see it.",
        "%(named)s keep out the result that would come first: remove them to see it.",
        count,
    )


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: "a, b and c"."""
    return pgettext("before the last of several names", " and ").join(filter(None, [", ".join(names[:-1]), names[-1]]))


# --- diversity ------------------------------------------------------------------------------------
# Makes the best items diverse: an item similar to a better one comes later. Reads the vectors of items.


# The number of best items that are reordered.
TOP_K = 30
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision


def send_vectors_query(query: PreparedQuery, keys: ItemKeys, compared: ComparedPassages | None) -> Callable[[], Vector]:
    """Send the query for the vectors of the items `keys`, unless they are those of a small owner, which are known.

    Returns a function that reads them: (n, dim) of unit length, in the order of the keys; zeros for an item without a
    vector.
    """
    if compared is not None:
        return lambda: compared.owner.vectors_of_items(keys)
    sources, items = split_keys(keys)
    parameters = {"owner": query.owner_id, "space": query.active_space.pk, "sources": sources, "items": items}
    pending = PendingQuery(load_sql("search.ranking", "item_vectors"), parameters, keeps_plan=True)

    def read() -> Vector:
        ((places, data),) = pending.rows()
        vectors = np.zeros((len(keys), query.active_space.dimensions), np.float32)
        if places:
            vectors[np.asarray(places) - 1] = np.frombuffer(data, HALF).reshape(-1, vectors.shape[1])
        return unit_rows(vectors)

    return read


def with_diverse_top(order: Order, scores: Scores, best: Order, vectors: Vector, *, relevance: float) -> Order:
    """Return `order` with its first items made diverse; `relevance` is the weight of their scores, 0 to 1.

    `vectors` (n, dim) belong to the items at `best` (sorted); other items count as similar to none.
    """
    top = order[:TOP_K]
    places = np.searchsorted(best, top).clip(max=len(best) - 1)
    own = np.where((best[places] == top)[:, None], vectors[places], 0)
    similarity = own @ own.T
    np.fill_diagonal(similarity, 0)
    return np.concatenate([top[diversify(scores[top], similarity, relevance=relevance)], order[len(top) :]])
