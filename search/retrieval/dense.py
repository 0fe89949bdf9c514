"""The dense retrievers: cosine similarity of passages and of whole items to the query, filtered inside the statement.

They need the query's vectors, which `embed_query` adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.cache import query_embedding
from search import vector_index
from search.retrieval.candidates import ItemKeys, Scores, best_of_source, item_keys
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.features import Feature
from search.retrieval.filters import filter_sql
from search.retrieval.hamming_scan import NO_PASSAGES, ScannedPassages, estimated_cosines, scan
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Candidates
from search.vectors.blocks import send_digest_query_if_cached

LIMITS = {  # how many vectors each statement keeps; of passages, items are fewer
    "passages_exact": 3_000,
    "passages_named": 1_000,
    "passages_indexed": vector_index.EF_SEARCH,
    "items_exact": 1_000,
    "items_by_code": 500,
}
SCANNED = 3_000  # how many passages a Hamming scan keeps; the cosines of all but the nearest are estimated
SPOKEN = frozenset({"user", "assistant"})


def embed_query(prepared: PreparedQuery) -> PreparedQuery:
    """The query with its vectors; without a space, and with a note, if the model is unavailable.

    Meanwhile PostgreSQL is asked for the digest of the codes that are going to be scanned.
    """
    space = prepared.space
    if space is None:
        return prepared
    prepared = replace(prepared, pending_digest=send_digest_query_if_cached(prepared.owner_id, space))
    try:
        return prepared.with_embedding(query_embedding(space, prepared.text.text, owner_id=prepared.owner_id))
    except EmbedderUnavailable as error:
        return prepared.by_words_only(error)


class PassageRetriever:
    """Finds the items of the passages in scope that are nearest to the query."""

    features = (Feature.PASSAGE_COSINE, Feature.SOURCE_PASSAGE_COSINE)
    needs_vector = True

    def applies(self, query: PreparedQuery) -> bool:
        return True

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> "PendingPassages":
        passages = corpus.corpus.passages_of(query.filters.conversation_id)
        name = vector_index.passage_statement(query.active_space, passages)
        if name != "passages_named":
            return PendingPassages(PendingQuery(*passages_statement(name, query)))
        near, rest = scan(query, SCANNED).parted(LIMITS[name])
        return PendingPassages(PendingQuery(*named_statement(query, near)), near, rest)


@dataclass(frozen=True, slots=True)
class PendingPassages:
    """The query for passages and their cosines, already sent.

    After a scan, it names those that are `near`; the cosines of the `rest` are estimated.
    """

    pending: PendingQuery
    near: ScannedPassages = NO_PASSAGES
    rest: ScannedPassages = NO_PASSAGES

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        keys, cosines = _best_by_item(*self._cosines())
        best = best_of_source(keys, cosines)
        return Candidates(keys, keys, {Feature.PASSAGE_COSINE: cosines, Feature.SOURCE_PASSAGE_COSINE: best})

    def _cosines(self) -> tuple[ItemKeys, Scores]:
        """The items of all these passages, in any order, and the passages' cosines."""
        row = self.pending.rows()[0]
        keys, cosines = _cosines(row)
        if not len(keys) or not len(self.rest.ids):
            return keys, cosines
        estimated = estimated_cosines(self.near.of_ids(row[-1]), cosines, self.rest)
        return np.concatenate([keys, self.rest.items]), np.concatenate([cosines, estimated])


class ItemRetriever:
    """Finds the items whose own vector is nearest to the query; such a vector covers everything that was said."""

    features = (Feature.ITEM_COSINE,)
    needs_vector = True

    def applies(self, query: PreparedQuery) -> bool:
        return query.scope >= SPOKEN

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> "PendingItems":
        name = vector_index.item_statement(corpus.corpus.items)
        return PendingItems(PendingQuery(*dense_statement(name, query)))


@dataclass(frozen=True, slots=True)
class PendingItems:
    """The query for items by their own vectors, already sent."""

    pending: PendingQuery

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        keys, cosines = _best_by_item(*_cosines(self.pending.rows()[0]))
        return Candidates(keys, keys, {Feature.ITEM_COSINE: cosines})


def passages_statement(name: str, query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """The SQL over passages and its parameters; the ids that it names, if any, are looked up here."""
    if name == "passages_named":
        return named_statement(query, scan(query, LIMITS[name]))
    if name == "passages_indexed":
        vector_index.scan_widely()
    statement, parameters = dense_statement(name, query)
    return statement, parameters | {"kinds": query.passage_kinds}


def named_statement(query: PreparedQuery, passages: ScannedPassages) -> tuple[str, dict[str, Any]]:
    """The SQL for the cosines of these passages and its parameters."""
    statement, parameters = dense_statement("passages_named", query)
    return statement, parameters | {"kinds": query.passage_kinds, "ids": passages.ids.tolist()}


def dense_statement(name: str, query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """A dense retriever's SQL and its parameters."""
    space = query.active_space
    condition, parameters = filter_sql(query.filters, query.text, languages=query.languages, document=None)
    statement = load_sql("search", name).replace("{filters}", condition)
    statement = statement.replace("{space}", str(space.pk)).replace("{dimensions}", str(space.dimensions))
    return statement, parameters | {
        "owner": query.owner_id,
        "space": space.pk,
        "vector": query.vector_text,
        "limit": LIMITS[name],
    }


def _cosines(row: Sequence[Any]) -> tuple[ItemKeys, Scores]:
    """The items of the vectors that a statement found, in any order, and the vectors' cosines."""
    sources, items, cosines, *_ = row
    return item_keys(sources or [], items or []), np.asarray(cosines or [], np.float32)


def _best_by_item(found: ItemKeys, cosines: Scores) -> tuple[ItemKeys, Scores]:
    """The distinct items (keys sorted), and the best cosine of each."""
    keys, inverse = np.unique(found, return_inverse=True)
    best = np.full(len(keys), -np.inf, np.float32)
    np.maximum.at(best, inverse, cosines)
    return keys, best
