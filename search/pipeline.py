"""The pipeline of a search: prepare the query, let retrievers find candidates, and let rankers order them.

`Pipeline` lists the retrievers and `Rankers` the rankers; a new pipeline checks that they fit together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.utils.translation import gettext, ngettext, pgettext

from convmemory.conversations.names import with_known_names
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError
from convmemory.core.folding import normal
from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.embeddings.embedder import TokenEmbedder, Vector, unit_rows
from convmemory.embeddings.spaces import embedder_for
from search.languages import is_sign
from search.query import SEARCHED_CHARS, SearchQuery
from search.query_text import QueryText
from search.ranking.exchanges import add_late_features, passages_of_best
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
from search.ranking.relevance import relevance_of
from search.ranking.repeated import answers_first
from search.ranking.time_names import name_of_time
from search.ranking.times.reading import Anchor
from search.ranking.times.relative import DayRange
from search.ranking.topics import one_of_each_source, topic_of
from search.retrieval.candidates import (
    EXCHANGES,
    LATE_INTERACTION,
    Feature,
    FeatureTable,
    Ints,
    ItemKeys,
    Scores,
    split_keys,
)
from search.retrieval.corpus import PendingCorpus, send_moments_query
from search.retrieval.dense import DenseRetriever, embed_query
from search.retrieval.filters import phrase_sql
from search.retrieval.lexical import LexicalRetriever
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.retrieval.rare_words import rarest_words
from search.retrieval.retriever import Retriever, SearchState
from search.retrieval.signs import items_with_sign
from search.retrieval.typing_errors import correct_typing_errors
from search.word_forms import phrase_query

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


def rank_candidates(state: SearchState, *, rankers: Rankers) -> None:
    """Order the candidates by the query's mode, and compute their relevance. At most three queries."""
    if not len(state.table.keys):
        return
    _rank(state, rankers)
    state.relevance = relevance_of(state.query, state.table, state.scores, state.order, state.word_weights)


def _rank(state: SearchState, rankers: Rankers) -> None:
    keys = state.table.keys
    moments = None
    if state.query.time:
        moments = read_moments(state.query, keys, item_count=state.table.item_count, of_all=state.moments)
    state.table = state.table.with_columns(date_features(state.query, keys, moments), of={Feature.DATE})
    if state.query.space is not None and state.query.mode == "hybrid":
        if state.compared is not None and has_any_vector(state.table):
            state.table = with_imputed(state.query, state.table, state.compared.blocks, state.behind)
        else:
            state.query = replace(state.query, space=None)
    query = state.query
    if query.space is None:
        state.scores = in_order_of_time(query, rankers.full_text.score(state.table), keys, moments)
        state.order = best_first(state.scores, keys)
        return
    if query.by_distance:
        state.scores, imputed = state.table.similarities, state.table.imputed
        if imputed is not None:
            state.scores = np.maximum(state.scores, imputed * state.scores.max())
        state.order = best_first(state.scores, keys)
        return
    scores = rankers.first_stage.score(state.table)
    best = np.sort(best_few(scores, keys, RESCORED))
    if config.late_interaction:
        add_late_features(state, keys[best], passages_of_best(state, keys[best]))
        if Feature.MAX_SIM in state.table.columns:
            scores = second_ranker(query, rankers).score(state.table)
    state.scores = in_order_of_time(query, scores, keys, moments)
    state.order = best_first(state.scores, keys)
    if config.mmr_lambda < 1 and state.compared is not None:
        vectors = unit_rows(state.compared.item_vectors(keys[best]))
        state.order = with_diverse_top(state.order, state.scores, best, vectors, relevance=config.mmr_lambda)


def second_ranker(query: PreparedQuery, rankers: Rankers) -> Ranker:
    """Return the ranker for the best candidates, after late interaction."""
    if query.mode != "hybrid":
        return rankers.semantic
    return rankers.sections if query.is_of_documents_alone else rankers.hybrid


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

    retrievers: tuple[Retriever, ...] = (LexicalRetriever(), DenseRetriever())
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
NOTHING_SHOWN = slice(0)


def rank_items(
    *, archive_id: int, query: SearchQuery, pipeline: Pipeline = PIPELINE, shown: slice = NOTHING_SHOWN
) -> SearchState:
    """Rank all items that any retriever found; `shown` are the places of those that the caller will show.

    A long text is searched for by its rarest words. A question of a time alone lists what was written then, and a
    single CJK character or emoji lists what contains it. A query for conversations about a topic finds one item of
    each. If no item contains a quoted phrase, the words of the phrase are searched for instead, with a note. A further
    note names the operators that exclude all items or the best one. The number of queries is fixed, whatever the owner
    has: it doubles if the query has operators.
    """
    query = replace(query, filters=with_known_names(archive_id, query.filters))
    # The topic if the query asks for conversations about one, and may find other conversations than one.
    kinds, is_within_one = query.filters.kinds, query.filters.conversation_id is not None
    may_ask_for_topic = not (query.by_distance or is_within_one or (kinds and CONVERSATION not in kinds))
    topic = topic_of(query.parsed) if may_ask_for_topic else ""
    if topic:
        filters = replace(query.filters, kinds=frozenset({CONVERSATION}))
        query = replace(query, text=topic, min_chars=1, has_operators=False, filters=filters)
    state = _rank_text(PreparedQuery.of(archive_id, query), pipeline)
    if topic:
        compared = state.compared if state.query.space else None
        state.order = one_of_each_source(state.table.keys, state.scores, state.order, compared)
        state.note(gettext("Conversations about “%(topic)s”, one turn of each.") % {"topic": topic})
    else:
        answers_first(state, shown)
    return state


def _rank_text(query: PreparedQuery, pipeline: Pipeline) -> SearchState:
    # Of a long text, the rarest words are searched for.
    whole, is_long, is_incomplete = query.text.text, len(query.text.text) > SEARCHED_CHARS, False
    if is_long:
        rarest, is_incomplete = rarest_words(query.archive_id, whole, query.filters)
        query = replace(query, text=replace(query.text, text=rarest), time=None)
    if (listed := _listed_without(query) or _listed_by_time(query) or _listed_by_sign(query)) is not None:
        return listed
    query, corpus = _look_up(_in_time(query, pipeline))
    state = _rank_with_operators(query, corpus, pipeline)
    if not is_long:
        return _with_corrected_words(state, query, corpus, pipeline)
    if is_incomplete:  # the words that were left out would have spoken against an answer
        state.relevance = replace(state.relevance, answerable=None)
    sentence = gettext("The text is long: its rarest words were searched for, %(count)s of %(all)s.")
    state.note(sentence % {"count": len(query.text.text.split()), "all": len(whole.split())})
    return state


def _with_corrected_words(
    state: SearchState, query: PreparedQuery, corpus: PendingCorpus, pipeline: Pipeline
) -> SearchState:
    """Return what the query finds with its typing errors corrected; the same if it has none, or then finds less.

    Words of quoted phrases stay, and words that the model knows: the archive need not hold them.
    """
    if query.mode == "semantic" or query.by_distance:
        return state
    kept = state.matched.any_of_items.union(*(normal(phrase).lower().split() for phrase in query.text.phrases))

    def is_word(word: str) -> bool:
        embedder = embedder_for(state.query.active_space)
        return isinstance(embedder, TokenEmbedder) and len(embedder.tokenize_query(word).ids) == 1

    correction = correct_typing_errors(
        query.archive_id,
        query.text.text,
        corpus=corpus.corpus,
        unmatched=lambda word: normal(word).lower() not in kept,
        is_word=is_word if state.query.space else None,
    )
    if correction is None:
        return state
    corrected_query = replace(query, text=replace(query.text, text=correction.text))
    corrected = _rank_with_operators(*_look_up(corrected_query), pipeline)
    if len(state.order) and not len(corrected.order):
        return state
    corrected.correction = correction
    corrected.note(correction.note)
    return corrected


def _listed_without(query: PreparedQuery) -> SearchState | None:
    """Return the turns without the words and phrases that a query excludes if it names nothing else; otherwise None."""
    if query.text.text or not query.text.excluded:
        return None
    query = _of_conversations(query)
    moments = send_moments_query(query.archive_id)
    query = query.looked_up()
    keys, seconds = items_written_in(query, None, moments)
    sentence = gettext("Everything without %(words)s, the newest first. To search for it as text: %(quoted)s.")
    words = listed([f"“{word}”" for word in query.text.excluded])
    quoted = " ".join(f'"-{word}"' for word in query.text.excluded)
    return _listing(query, keys, seconds, sentence % {"words": words, "quoted": quoted})


def _of_conversations(query: PreparedQuery) -> PreparedQuery:
    """Return the query for a listing: of conversations, unless it names kinds."""
    kinds = query.filters.kinds or frozenset({CONVERSATION})
    return replace(query, mode="full_text", filters=replace(query.filters, kinds=kinds))


def _listed_by_time(query: PreparedQuery) -> SearchState | None:
    """Return the turns of the days that a query names if it names nothing else, the newest first; otherwise None."""
    time = query.time
    days = time.days_alone(query.text.text) if time else None
    if time is None or days is None:
        return None
    query = _of_conversations(query)
    moments = send_moments_query(query.archive_id)
    query = query.looked_up()  # after the items, so that the filters have seen each of their sources
    keys, seconds = items_written_in(query, days, moments)
    if not len(keys):
        return None
    sentence = gettext("Everything from %(time)s, the newest first.") % {"time": name_of_time(time)}
    return _listing(query, keys, seconds, sentence)


def _listed_by_sign(query: PreparedQuery) -> SearchState | None:
    """Return the items that contain a query of one CJK character or emoji, the newest first; None if there are none."""
    sign = query.text.text.strip()
    if query.mode == "semantic" or query.by_distance or not is_sign(sign):
        return None
    query = replace(query, mode="full_text").looked_up()
    keys, is_all = items_with_sign(query, sign)
    if not len(keys):
        return None
    seconds = read_moments(query, keys, item_count=len(keys))
    sentence = gettext("Everything with %(sign)s, the newest first.")
    if not is_all:
        sentence = gettext("The newest of all with %(sign)s: more was not looked through.")
    state = _listing(query, keys, seconds, sentence % {"sign": sign})
    state.word_weights = {sign: 1.0}
    return state


def _listing(query: PreparedQuery, keys: ItemKeys, seconds: Ints, note: str) -> SearchState:
    return SearchState(
        replace(query, notes=(note,)), FeatureTable(keys), np.zeros(len(keys), np.float32),
        np.lexsort((-keys, -seconds)), is_listing=True,
    )  # fmt: skip


def _rank_with_operators(query: PreparedQuery, corpus: PendingCorpus, pipeline: Pipeline) -> SearchState:
    state, text = _retrieve_and_rank(query, corpus, pipeline), query.text
    if text.phrases and not len(state.order):
        text = replace(text, phrases=())
        state = _retrieve_and_rank(replace(query, text=text), corpus, pipeline)
        if len(state.order):
            sentence = gettext("No turn contains %(quoted)s word for word: its words were searched for.")
            state.note(sentence % {"quoted": listed([f'"{phrase}"' for phrase in query.text.phrases])})
    if text.operators:
        free = _retrieve_and_rank(replace(query, text=QueryText(text.text)), corpus, pipeline)
        state.note(*notes_on_operators(text, state, free))
    return state


def _look_up(query: PreparedQuery) -> tuple[PreparedQuery, PendingCorpus]:
    """Return the query with its vectors, and the owner's corpus with the words: it is embedded meanwhile. Two queries.

    Both serve also the same text without its operators.
    """
    # The first search ever creates the space, in a transaction, and none can begin inside the pipeline.
    query = prepare_query(query)
    with pipelined():
        with_moments = query.time is not None and len(query.text.text) >= LONG_CHARS
        corpus = PendingCorpus(
            query.archive_id, query.space, query.filters, text=query.text.text, with_moments=with_moments
        )
        return embed_query(query), corpus


def _retrieve_and_rank(query: PreparedQuery, pending_corpus: PendingCorpus, pipeline: Pipeline) -> SearchState:
    query = query.looked_up(pending_corpus)  # after the corpus, so that it has seen each of its sources
    corpus, state = pending_corpus.corpus, SearchState(query, moments=pending_corpus.moments)
    for retriever in pipeline.retrievers:
        if query.space is not None or not retriever.needs_vector:
            retriever.add_candidates(state, corpus)
    state.merge(corpus, pipeline.features)
    rank_candidates(state, rankers=pipeline.rankers)
    return state


def _in_time(query: PreparedQuery, pipeline: Pipeline) -> PreparedQuery:
    """Return the query with the time of the event that it names, if any.

    The event of "before the launch" is searched for first, so that its date is known. If a conversation or document
    began in the days that the query names, the words that only name them are left out of the search.
    """
    time = query.time
    if time is not None and isinstance(time.meaning, Anchor):
        of_event = _look_up(replace(query, text=QueryText(time.meaning.event), time=None))
        event = _retrieve_and_rank(*of_event, pipeline)
        dated = place_of_best(event.table.keys[event.order], event.query)
        time = time.at(dated) if dated else None
        query = replace(query, time=time)
    if time is None or not time.rest or not isinstance(time.meaning, DayRange):
        return query
    if not has_begun(query.archive_id, time.meaning):
        return query
    return replace(query, text=replace(query.text, text=time.rest))


# The number of best items without operators that are checked if no item remains with them.
LOOKED_AT = 50


# A hyphen may have been meant as a hyphen: the results are compared with those of the same query without its operators.
def notes_on_operators(text: QueryText, ranked: SearchState, free: SearchState) -> list[str]:
    """Return a note naming the operators that exclude all items or the best one; none if they exclude neither."""
    best_first = free.table.keys[free.order[:LOOKED_AT]]
    if not len(best_first) or best_first[0] in ranked.table.keys:
        return []
    nothing_left = not len(ranked.order)
    # The operators, as typed, that exclude any of these items.
    items = best_first if nothing_left else best_first[:1]
    sources, numbers = split_keys(items)
    phrases = [phrase_query(phrase) for phrase in (*text.phrases, *text.excluded)]
    parameters = {"owner": free.query.archive_id, "phrases": phrases, "sources": sources, "items": numbers}
    statement = load_sql("search", "phrases_found").replace("{phrase}", phrase_sql("p.phrase", free.query.languages))
    rows = PendingQuery(statement, parameters).rows()
    counts = {int(position): int(count) for position, count in rows}
    keeping_out = [
        operator
        for position, operator in enumerate(text.operators)
        if (counts[position] < len(items) if position < len(text.phrases) else counts[position] > 0)
    ]
    if not keeping_out:
        return []
    if nothing_left:
        note = ngettext(
            "%(named)s keeps out every result: remove it to see some.",
            "%(named)s keep out every result: remove them to see some.",
            len(keeping_out),
        )
    else:
        note = ngettext(
            "%(named)s keeps out the result that would come first: remove it to see it.",
            "%(named)s keep out the result that would come first: remove them to see it.",
            len(keeping_out),
        )
    return [note % {"named": listed(keeping_out)}]


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: "a, b and c"."""
    return pgettext("before the last of several names", " and ").join(filter(None, [", ".join(names[:-1]), names[-1]]))


# The number of best items that are reordered.
TOP_K = 30


def with_diverse_top(order: Order, scores: Scores, best: Order, vectors: Vector, *, relevance: float) -> Order:
    """Return `order` with its first items made diverse; `relevance` is the weight of their scores, 0 to 1.

    `vectors` (n, dim) belong to the items at `best` (sorted); other items count as similar to none.
    """
    top = order[:TOP_K]
    places = np.searchsorted(best, top).clip(max=len(best) - 1)
    of_top = np.where((best[places] == top)[:, None], vectors[places], 0)
    similarity = of_top @ of_top.T
    np.fill_diagonal(similarity, 0)
    return np.concatenate([top[diversify(scores[top], similarity, relevance=relevance)], order[len(top) :]])
