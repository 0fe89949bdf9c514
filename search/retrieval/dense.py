"""The dense retriever: cosine similarity of passages and of whole items, by the codes of their vectors.

It needs the query's vectors, which `embed_query` adds.
"""

import numpy as np

from convmemory.core import acting
from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.embedder import TokenEmbedding
from convmemory.embeddings.model_folder import INCLUDED_MODELS
from search.languages import is_foreign
from search.retrieval.candidates import DENSE, Feature, ItemKeys, Scores, best_of_source
from search.retrieval.corpus import Corpus
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.vectors.blocks import ComparedVectors, current_blocks
from search.vectors.packing import OF_ITEM

# The number of passages and of item vectors that are candidates: with 3,000 passages, recall@10 of coding runs is .711,
# with 1,500 .710, with 800 .708 (ADR 10).
MOST_PASSAGES, MOST_ITEMS = 1_500, 1_000
SPOKEN = frozenset({"user", "assistant"})


def embed_query(prepared: PreparedQuery) -> PreparedQuery:
    """Return the query with its vectors; if the model is unavailable, without a space and with a note.

    A query in another language has no token vectors if the sentence model may know the language and the token model
    does not: late interaction then compares pieces of words (docs/adr/0089-token-model-of-its-own.md).
    """
    space = prepared.space
    if space is None:
        return prepared
    # Cached for who asks, not for the space that is searched: the time tells its other members nothing, and a search of
    # several archives embeds the query once.
    asker = acting.current().person_id or prepared.archive_id
    try:
        embedding = query_embedding(space, prepared.text.text, archive_id=asker)
    except EmbedderUnavailable as error:
        return prepared.by_words_only(error)
    if space.token_model in INCLUDED_MODELS and space.model not in INCLUDED_MODELS and is_foreign(prepared.text.text):
        embedding = TokenEmbedding.of_vector(embedding.vector)
    return prepared.with_embedding(embedding)


class DenseRetriever:
    """Finds the items of the passages in scope, and those whose own vectors, of all spoken text, are nearest to the
    query.
    """

    features = DENSE
    needs_vector = True

    def add_candidates(self, state: SearchState, corpus: Corpus) -> None:
        query = state.query
        blocks = current_blocks(query.archive_id, query.active_space, corpus.codes)
        if blocks is None:
            return
        state.compared = compared = ComparedVectors(blocks, query.rotated_vector)
        admitted = None if query.eligibility.admits_all else query.eligibility.admitted(blocks.items)
        keys, best = best_by_item(*compared.nearest(query.passage_kinds, MOST_PASSAGES, admitted))
        state.add(keys, {Feature.PASSAGE_COSINE: best, Feature.SOURCE_PASSAGE_COSINE: best_of_source(keys, best)})
        if query.scope >= SPOKEN:
            keys, best = best_by_item(*compared.nearest([OF_ITEM], MOST_ITEMS, admitted))
            state.add(keys, {Feature.ITEM_COSINE: best})


def best_by_item(items: ItemKeys, cosines: Scores) -> tuple[ItemKeys, Scores]:
    """Return the distinct items (keys sorted), and the best cosine of each."""
    keys, inverse = np.unique(items, return_inverse=True)
    best = np.full(len(keys), -np.inf, np.float32)
    np.maximum.at(best, inverse, cosines)
    return keys, best
