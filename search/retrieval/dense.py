"""The dense retrievers: cosine similarity of passages, by their codes, and of whole items.

They need the query's vectors, which `embed_query` adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core import acting
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.embedder import TokenEmbedding, Vector
from convmemory.embeddings.model_folder import DEFAULT_MODEL
from search.languages import is_foreign
from search.retrieval.candidates import NO_ITEMS, Feature, ItemKeys, Scores, best_of_source, item_keys
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.filters import Mask, filter_sql
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import ReadCandidates, SearchState
from search.vectors.blocks import (
    Blocks,
    ScannedPassages,
    Words,
    code_similarities,
    current_blocks,
    hamming_distances,
    send_digest_query,
    send_digest_query_if_cached,
)
from search.vectors.item_codes import current_item_codes
from search.vectors.small_owners import ComparedPassages, PendingSmallOwner, SmallOwner

# --- hamming scan ---------------------------------------------------------------------------------
# Finds the nearest passages and items of a large owner by codes, compared in this process.
#
# A Hamming scan over all of them keeps few; these are compared asymmetrically, the query uncoded, which tells far
# better how near they are. Why not in SQL, and how well: docs/adr/0010-exact-scan-or-binary-codes.md.


@dataclass(frozen=True, slots=True)
class ScannedVectors:
    """Vectors with approximate cosines to the query, (n,): ids, the keys of their items, and these cosines."""

    ids: NDArray[np.int64]
    items: ItemKeys
    similarities: Scores

    def parted(self, count: int) -> tuple["ScannedVectors", "ScannedVectors"]:
        """Return the most similar `count` vectors, and the rest; of equals, the newest come first."""
        order = np.lexsort((-self.ids, -self.similarities))
        return self.those(order[:count]), self.those(order[count:])

    def of_ids(self, ids: Sequence[int]) -> "ScannedVectors":
        """Return the vectors with these ids, all of which are present, in the order of the ids."""
        order = np.argsort(self.ids)
        return self.those(order[np.searchsorted(self.ids, ids, sorter=order)])

    def those(self, wanted: NDArray[np.int64]) -> "ScannedVectors":
        return ScannedVectors(self.ids[wanted], self.items[wanted], self.similarities[wanted])


NO_VECTORS = ScannedVectors(np.empty(0, np.int64), NO_ITEMS, np.empty(0, np.float32))


def blocks_of(query: PreparedQuery) -> Blocks | None:
    """Return the blocks of the owner's passages, None if there are none.

    Waits for their digest, and reads the blocks that this process lacks, if any.
    """
    pending_digest = query.pending_digest or send_digest_query(query.archive_id, query.active_space)
    return current_blocks(query.archive_id, query.active_space, pending_digest)


def scan_passages(blocks: Blocks | None, query: PreparedQuery, limit: int) -> ScannedVectors:
    """Return the passages whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest.
    """
    if blocks is None:
        return NO_VECTORS
    codes, question = blocks.codes, query.rotated_vector
    in_scope = None if blocks.kinds <= set(query.passage_kinds) else codes.are_of(query.passage_kinds)
    places = _nearest(codes.ids, blocks.items, codes.words, question, query, limit, in_scope)
    return ScannedVectors(codes.ids[places], blocks.items[places], codes.cosines(places, question))


def scan_items(query: PreparedQuery, corpus: Corpus, limit: int) -> ScannedVectors:
    """Return the owner's item vectors whose binary codes differ least from the query's, in no particular order.

    At most `limit`: among equally distant ones, the newest. Reads the codes that this process lacks, if any.
    """
    codes = current_item_codes(
        query.archive_id, query.active_space, corpus.sources, corpus.newest_vectors, are_all=not query.filters.kinds
    )
    places = _nearest(codes.ids, codes.items, codes.words, query.vector, query, limit)
    return ScannedVectors(
        codes.ids[places], codes.items[places], code_similarities(codes.words[:, places], query.vector)
    )


def _nearest(
    ids: NDArray[np.int64],
    items: ItemKeys,
    words: Words,
    question: Vector,
    query: PreparedQuery,
    limit: int,
    wanted: Mask | None = None,
) -> NDArray[np.int64]:
    """Return the places of the nearest of the `wanted` vectors whose items pass the query's filters.

    With None, all are wanted.
    """
    if not query.eligibility.admits_all:
        admitted = query.eligibility.admitted(items)
        wanted = admitted if wanted is None else wanted & admitted
    distances = hamming_distances(words, question)
    return _least(distances, ids, limit) if wanted is None else _least_of(wanted, distances, ids, limit)


def estimated_cosines(known: ScannedVectors, cosines: Scores, others: ScannedVectors) -> Scores:
    """Estimate the cosines of vectors that were compared by code alone, by the line through the exact ones of
    `known`.
    """
    mean, mean_cosine = known.similarities.mean(), cosines.mean()
    deviations = known.similarities - mean
    variance = (deviations**2).mean()
    slope = (deviations * (cosines - mean_cosine)).mean() / variance if variance else 0.0
    estimated: Scores = (mean_cosine + slope * (others.similarities - mean)).astype(np.float32)
    return estimated


def _least_of(wanted: Mask, distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the same as `_least`, of the `wanted` alone.

    Marks the others in `distances`, which is faster than a copy.
    """
    beyond = distances.max(initial=0) + 1
    distances[~wanted] = beyond
    places = _least(distances, ids, limit)
    found: NDArray[np.int64] = places[distances[places] < beyond]
    return found


def _least(distances: NDArray[np.uint16], ids: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the places of the `limit` smallest distances; among ties for the last, the highest ids."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])


# --- dense ----------------------------------------------------------------------------------------


LIMITS = {  # the number of vectors that each statement keeps; ADR 10 measures 400 to 1,000 named
    "items_exact": 1_000,
    "items_named": 500,
}
# The number of vectors that a Hamming scan keeps: with 1,000, recall@10 of coding runs is .696, not .707 (ADR 10).
SCANNED = 3_000
# Up to so many passages, the vectors of an owner's items are compared exactly; there are far fewer of them (ADR 10).
EXACT_ITEMS_UP_TO = 20_000
SPOKEN = frozenset({"user", "assistant"})


def item_statement(passages: int) -> str:
    """Return the name of the statement that finds the nearest items of an owner with this many passages."""
    return "items_exact" if passages <= EXACT_ITEMS_UP_TO else "items_named"


def embed_query(prepared: PreparedQuery) -> PreparedQuery:
    """Return the query with its vectors; if the model is unavailable, without a space and with a note.

    A query in another language has no token vectors if the sentence model may know the language and the token model
    does not: late interaction then compares pieces of words (docs/adr/0089-token-model-of-its-own.md).

    Before embedding, it sends the query for the digest of cached codes, so that PostgreSQL works meanwhile.
    """
    space = prepared.space
    if space is None:
        return prepared
    prepared = replace(
        prepared,
        pending_digest=send_digest_query_if_cached(prepared.archive_id, space),
        small_owner=PendingSmallOwner(prepared.archive_id, space),
    )
    # Cached for who asks, not for the space that is searched: the time tells its other members nothing, and a search of
    # several archives embeds the query once.
    asker = acting.current().person_id or prepared.archive_id
    try:
        embedding = query_embedding(space, prepared.text.text, archive_id=asker)
    except EmbedderUnavailable as error:
        return prepared.by_words_only(error)
    if space.token_model == DEFAULT_MODEL != space.model and is_foreign(prepared.text.text):
        embedding = TokenEmbedding.of_vector(embedding.vector)
    return prepared.with_embedding(embedding)


class PassageRetriever:
    """Finds the items of the passages in scope that are nearest to the query."""

    features = (Feature.PASSAGE_COSINE, Feature.SOURCE_PASSAGE_COSINE)
    needs_vector = True

    def applies(self, query: PreparedQuery) -> bool:
        return True

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> ReadCandidates:
        if query.small_owner and (owner := query.small_owner.of(corpus.corpus.all_passages)):
            compared = ComparedPassages(owner, owner.vectors @ query.rotated_vector)
            return lambda state, corpus: _add_passages_of_small_owner(state, compared)
        blocks = blocks_of(query)
        near = scan_passages(blocks, query, SCANNED)

        def read(state: SearchState, corpus: Corpus) -> None:
            state.scanned = ScannedPassages(blocks, query.rotated_vector) if blocks else None
            _add_passages(state, near.items, near.similarities)

        return read


def _add_passages_of_small_owner(state: SearchState, compared: ComparedPassages) -> None:
    owner, query = compared.owner, state.query
    state.compared = compared
    wanted = np.isin(owner.kinds, query.passage_kinds)
    if not query.eligibility.admits_all:
        wanted &= query.eligibility.admitted(owner.items)
    _add_passages(state, owner.items[wanted], compared.cosines[wanted])


def _add_passages(state: SearchState, found: ItemKeys, cosines: Scores) -> None:
    """Add the items of these passages, with the features that the cosine of the best passage of each gives."""
    keys, best = best_by_item(found, cosines)
    state.add(keys, {Feature.PASSAGE_COSINE: best, Feature.SOURCE_PASSAGE_COSINE: best_of_source(keys, best)})


class ItemRetriever:
    """Finds the items whose own vector is nearest to the query; such a vector covers all spoken text."""

    features = (Feature.ITEM_COSINE,)
    needs_vector = True

    def applies(self, query: PreparedQuery) -> bool:
        return query.scope >= SPOKEN

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> ReadCandidates:
        if query.small_owner and (owner := query.small_owner.of(corpus.corpus.all_passages)):
            return lambda state, corpus: _add_items_of_small_owner(state, owner)
        passages = corpus.corpus.passages_of(query.filters.conversation_id)
        name = item_statement(passages)
        if name != "items_named":
            pending = PendingQuery(*dense_statement(name, query))
            return lambda state, corpus: _add_items(state, *_rows(pending))
        near, rest = scan_items(query, corpus.corpus, SCANNED).parted(LIMITS[name])
        pending = PendingQuery(*named_statement(name, query, near))
        return lambda state, corpus: _add_items(state, *_rows(pending, near, rest))


def _add_items_of_small_owner(state: SearchState, owner: SmallOwner) -> None:
    query = state.query
    found, cosines = owner.items_of_vectors, owner.item_vectors @ query.half_vector
    if not query.eligibility.admits_all:
        wanted = query.eligibility.admitted(found)
        found, cosines = found[wanted], cosines[wanted]
    limit = LIMITS["items_exact"]
    if len(found) > limit:
        nearest = np.argpartition(-cosines, limit)[:limit]
        found, cosines = found[nearest], cosines[nearest]
    _add_items(state, found, cosines)


def _add_items(state: SearchState, found: ItemKeys, cosines: Scores) -> None:
    keys, best = best_by_item(found, cosines)
    state.add(keys, {Feature.ITEM_COSINE: best})


def _rows(
    pending: PendingQuery, near: ScannedVectors = NO_VECTORS, rest: ScannedVectors = NO_VECTORS
) -> tuple[ItemKeys, Scores]:
    """Return the items of the vectors found, in any order, and the vectors' cosines. Waits for the row.

    After a scan, the query names the vectors that are `near`; the cosines of the `rest` are estimated.
    """
    sources, items, found, *ids = pending.rows()[0]
    keys, cosines = item_keys(sources or [], items or []), np.asarray(found or [], np.float32)
    if not len(keys) or not len(rest.ids):
        return keys, cosines
    estimated = estimated_cosines(near.of_ids(ids[0]), cosines, rest)
    return np.concatenate([keys, rest.items]), np.concatenate([cosines, estimated])


def best_by_item(found: ItemKeys, cosines: Scores) -> tuple[ItemKeys, Scores]:
    """Return the distinct items (keys sorted), and the best cosine of each."""
    keys, inverse = np.unique(found, return_inverse=True)
    best = np.full(len(keys), -np.inf, np.float32)
    np.maximum.at(best, inverse, cosines)
    return keys, best


def items_statement(name: str, query: PreparedQuery, corpus: Corpus) -> tuple[str, dict[str, Any]]:
    """Return the SQL over item vectors and its parameters; the ids that it names, if any, are looked up here."""
    if name == "items_named":
        near, _ = scan_items(query, corpus, SCANNED).parted(LIMITS[name])
        return named_statement(name, query, near)
    return dense_statement(name, query)


def named_statement(name: str, query: PreparedQuery, vectors: ScannedVectors) -> tuple[str, dict[str, Any]]:
    """Return the SQL for the cosines of these vectors and its parameters."""
    statement, parameters = dense_statement(name, query)
    return statement, parameters | {"ids": vectors.ids.tolist()}


def dense_statement(name: str, query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """Return a dense retriever's SQL and its parameters."""
    space = query.active_space
    condition, parameters = filter_sql(query.filters, query.text, languages=query.languages, document=None)
    statement = load_sql("search", name).replace("{filters}", condition)
    statement = statement.replace("{space}", str(space.pk)).replace("{dimensions}", str(space.dimensions))
    return statement, parameters | {
        "owner": query.archive_id,
        "space": space.pk,
        "vector": query.vector_text,
        "limit": LIMITS[name],
    }
