"""The default model with a memory: a text that several tests of a process store or ask for is embedded once.

Nothing outlives the process. Tests of embedding itself call `open_local` directly and get the model without a memory.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from convmemory.embeddings.embedder import TokenEmbedding, Vector
from convmemory.embeddings.local import LocalEmbedder, LocalSentenceEmbedder, open_local
from convmemory.embeddings.model_folder import DEFAULT_MODEL
from convmemory.embeddings.options import EmbeddingOptions

MOST_TOKENS = 200_000  # 300 MB of token vectors
WINDOW = 512  # texts that are in memory at a time, whether they were known or not


class RememberingEmbedder(LocalEmbedder):
    """Embeds like the opened model, which has no prompts: a text is the same as a question and as a passage."""

    def __init__(self, opened: LocalEmbedder) -> None:
        super().__init__(opened.model, name=opened.card.model, licence=opened.card.licence)
        self._known: OrderedDict[str, TokenEmbedding] = OrderedDict()
        self._tokens = 0
        self._lock = Lock()

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        vectors = [embedding.vector for embedding in self._embedded(texts)]
        return np.array(vectors, dtype=np.float32).reshape(len(texts), self.card.dimensions)

    def embed_query(self, text: str) -> Vector:
        return next(self._embedded([text])).vector

    def embed_query_tokens(self, text: str) -> TokenEmbedding:
        return next(self._embedded([text]))

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        return self._embedded(texts)

    def _embedded(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        for start in range(0, len(texts), WINDOW):
            window = texts[start : start + WINDOW]
            found = {text: known for text in window if (known := self._known.get(text))}
            missing = [text for text in dict.fromkeys(window) if text not in found]
            for text, embedding in zip(missing, super().embed_passages_with_tokens(missing), strict=True):
                found[text] = embedding
                self._remember(text, embedding)
            for text in window:
                known = found[text]
                yield TokenEmbedding(known.vector.copy(), known.token_ids.copy(), known.token_vectors.copy())

    def _remember(self, text: str, embedding: TokenEmbedding) -> None:
        with self._lock:
            if text not in self._known:
                self._known[text] = embedding
                self._tokens += len(embedding.token_ids)
            while self._tokens > MOST_TOKENS:
                _, oldest = self._known.popitem(last=False)
                self._tokens -= len(oldest.token_ids)


_remembering: dict[tuple[int, EmbeddingOptions], RememberingEmbedder] = {}
"""By process: a forked child has none of the threads of its parent's model, and would wait for them to free it."""


def open_with_memory(options: EmbeddingOptions) -> LocalSentenceEmbedder:
    """Open the model that the options name; the default one remembers, and is loaded once in a process."""
    key = os.getpid(), replace(options, cache_folder=Path())
    if key in _remembering:
        return _remembering[key]
    opened = open_local(options)
    if isinstance(opened, LocalEmbedder) and opened.card.model == DEFAULT_MODEL:
        opened = _remembering[key] = RememberingEmbedder(opened)
    return opened
