"""The dense retrievers: cosine similarity of passages and of whole items to the query, filtered inside the statement.

They need the query's vectors, which `embed_query` adds.
"""

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
from search.retrieval.hamming_scan import (
    NO_VECTORS,
    ScannedVectors,
    blocks_of,
    estimated_cosines,
    scan_items,
    scan_passages,
)
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Candidates
from search.vectors.blocks import Blocks, send_digest_query_if_cached

LIMITS = {  # the number of vectors that each statement keeps; ADR 10 measures 400 to 1,000 named
    "passages_exact": 3_000,
    "passages_named": 700,
    "passages_indexed": vector_index.EF_SEARCH,
    "items_exact": 1_000,
    "items_named": 500,
}
# The number of vectors that a Hamming scan keeps; the cosines of all but the nearest are estimated. With 1,000,
# recall@10 of coding runs is .696 instead of .707 (ADR 10).
SCANNED = 3_000
SPOKEN = frozenset({"user", "assistant"})


def embed_query(prepared: PreparedQuery) -> PreparedQuery:
    """Return the query with its vectors; if the model is unavailable, without a space and with a note.

    Before embedding, it sends the query for the digest of cached codes, so that PostgreSQL works meanwhile.
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
            return PendingPassages(PendingCosines(PendingQuery(*passages_statement(name, query))))
        blocks = blocks_of(query)
        near, rest = scan_passages(blocks, query, SCANNED).parted(LIMITS[name])
        return PendingPassages(PendingCosines(PendingQuery(*named_statement(name, query, near)), near, rest), blocks)


@dataclass(frozen=True, slots=True)
class PendingPassages:
    """The query for passages and their cosines, which has been sent, and the blocks that were scanned before, if
    any.
    """

    pending: "PendingCosines"
    blocks: Blocks | None = None

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        keys, cosines = self.pending.best_by_item()
        best = best_of_source(keys, cosines)
        features: dict[str, Scores] = {Feature.PASSAGE_COSINE: cosines, Feature.SOURCE_PASSAGE_COSINE: best}
        return Candidates(keys, keys, features, scanned=self.blocks)


class ItemRetriever:
    """Finds the items whose own vector is nearest to the query; such a vector covers all spoken text."""

    features = (Feature.ITEM_COSINE,)
    needs_vector = True

    def applies(self, query: PreparedQuery) -> bool:
        return query.scope >= SPOKEN

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> "PendingItems":
        passages = corpus.corpus.passages_of(query.filters.conversation_id)
        name = vector_index.item_statement(passages)
        if name != "items_named":
            return PendingItems(PendingCosines(PendingQuery(*dense_statement(name, query))))
        near, rest = scan_items(query, corpus.corpus, SCANNED).parted(LIMITS[name])
        return PendingItems(PendingCosines(PendingQuery(*named_statement(name, query, near)), near, rest))


@dataclass(frozen=True, slots=True)
class PendingItems:
    """The query for items by their own vectors, which has been sent."""

    pending: "PendingCosines"

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        keys, cosines = self.pending.best_by_item()
        return Candidates(keys, keys, {Feature.ITEM_COSINE: cosines})


@dataclass(frozen=True, slots=True)
class PendingCosines:
    """A query for vectors and their cosines that has been sent.

    After a scan, the query names the vectors that are `near`; the cosines of the `rest` are estimated.
    """

    pending: PendingQuery
    near: ScannedVectors = NO_VECTORS
    rest: ScannedVectors = NO_VECTORS

    def best_by_item(self) -> tuple[ItemKeys, Scores]:
        """Return the distinct items (keys sorted), and the cosine of the best vector of each. Waits for the row."""
        found, cosines = self._all()
        keys, inverse = np.unique(found, return_inverse=True)
        best = np.full(len(keys), -np.inf, np.float32)
        np.maximum.at(best, inverse, cosines)
        return keys, best

    def _all(self) -> tuple[ItemKeys, Scores]:
        """Return the items of all these vectors, in any order, and the vectors' cosines."""
        sources, items, found, *ids = self.pending.rows()[0]
        keys, cosines = item_keys(sources or [], items or []), np.asarray(found or [], np.float32)
        if not len(keys) or not len(self.rest.ids):
            return keys, cosines
        estimated = estimated_cosines(self.near.of_ids(ids[0]), cosines, self.rest)
        return np.concatenate([keys, self.rest.items]), np.concatenate([cosines, estimated])


def passages_statement(name: str, query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL over passages and its parameters; the ids that it names, if any, are looked up here."""
    if name == "passages_named":
        near, _ = scan_passages(blocks_of(query), query, SCANNED).parted(LIMITS[name])
        return named_statement(name, query, near)
    if name == "passages_indexed":
        vector_index.scan_widely()
    statement, parameters = dense_statement(name, query)
    return statement, parameters | {"kinds": query.passage_kinds}


def items_statement(name: str, query: PreparedQuery, corpus: Corpus) -> tuple[str, dict[str, Any]]:
    """Return the SQL over item vectors and its parameters; the ids that it names, if any, are looked up here."""
    if name == "items_named":
        near, _ = scan_items(query, corpus, SCANNED).parted(LIMITS[name])
        return named_statement(name, query, near)
    return dense_statement(name, query)


def named_statement(name: str, query: PreparedQuery, vectors: ScannedVectors) -> tuple[str, dict[str, Any]]:
    """Return the SQL for the cosines of these vectors and its parameters."""
    statement, parameters = dense_statement(name, query)
    return statement, parameters | {"kinds": query.passage_kinds, "ids": vectors.ids.tolist()}


def dense_statement(name: str, query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """Return a dense retriever's SQL and its parameters."""
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
