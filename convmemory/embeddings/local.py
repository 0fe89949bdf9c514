"""Embedders for models that run here, on ONNX Runtime, without PyTorch.

A model is a folder as written by sentence-transformers, with a BERT's weights or an ONNX graph of any architecture; the
default is all-MiniLM-L6-v2 inside its installed package. ONNX Runtime, onnx and tokenizers are imported at the first
text, or when a folder with a graph is opened for the first time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.text import Span
from convmemory.embeddings import model_folder
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.embedder import ModelCard, TokenEmbedding, TokenIds, Tokens, Vector, unit_rows
from convmemory.embeddings.model_folder import ModelFiles, find_model, fresh_digest, model_file, weights_digest
from convmemory.embeddings.options import LOCAL, EmbeddingOptions
from convmemory.embeddings.sentence_model import ModelOptions, SentenceModel
from convmemory.embeddings.sentence_recipe import SentenceRecipe, read_recipe
from convmemory.embeddings.token_reader import TokenSequence

# Texts are sorted by length within a window, so that runs pad little; a window also limits the memory.
_WINDOW = 2048
_WINDOW_TOKENS = 65_536  # 100 MB of token vectors of 384 dimensions


class LocalSentenceEmbedder:
    """A local model that provides only vectors of whole texts. Loaded at the first text; thread-safe."""

    def __init__(self, model: SentenceModel, *, name: str, licence: str = "") -> None:
        self.model = model
        self.card = ModelCard(
            provider=LOCAL,
            model=name,
            dimensions=model.dimensions,
            max_tokens=model.max_sequence - model.facts.overhead_tokens,
            licence=licence,
            token_dimensions=0,
        )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.model.reader.counts(texts, self.model.recipe.passage_prompt)

    def token_spans(self, text: str) -> list[Span]:
        return self.model.reader.tokens(text, self.model.recipe.passage_prompt).spans

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return self._embed(texts, self.model.recipe.passage_prompt)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._embed([text], self.model.recipe.query_prompt)[0]
        return vector

    def _embed(self, texts: Sequence[str], prompt: str) -> Vector:
        vectors = np.empty((len(texts), self.card.dimensions), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            for batch in self.model.forward(self.model.reader.sequences(texts[start : start + _WINDOW], prompt)):
                vectors[start + batch.rows] = batch.vectors
        return vectors


class LocalEmbedder(LocalSentenceEmbedder):
    """A local model that also provides token vectors, from which `token_mean` (dim,) is subtracted if given."""

    def __init__(self, model: SentenceModel, *, name: str, licence: str = "", token_mean: Vector | None = None) -> None:
        super().__init__(model, name=name, licence=licence)
        self.card = replace(self.card, token_dimensions=model.dimensions)
        self._token_mean = token_mean

    def without_tokens(self) -> LocalSentenceEmbedder:
        """Return the same loaded model without its token vectors."""
        return LocalSentenceEmbedder(self.model, name=self.card.model, licence=self.card.licence)

    def centred(self, token_mean: Vector) -> "LocalEmbedder":
        """Return the same loaded model with `token_mean` (dim,) subtracted from its token vectors."""
        return LocalEmbedder(self.model, name=self.card.model, licence=self.card.licence, token_mean=token_mean)

    def tokenize(self, text: str) -> Tokens:
        return self.model.reader.tokens(text, self.model.recipe.passage_prompt)

    def tokenize_query(self, text: str) -> Tokens:
        return self.model.reader.tokens(text, self.model.recipe.query_prompt)

    def are_words(self, token_ids: TokenIds) -> NDArray[np.bool_]:
        return self.model.reader.are_words(token_ids)

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        return self._embed_with_tokens(texts, self.model.recipe.passage_prompt)

    def embed_query_tokens(self, text: str) -> TokenEmbedding:
        return next(self._embed_with_tokens([text], self.model.recipe.query_prompt))

    def _embed_with_tokens(self, texts: Sequence[str], prompt: str) -> Iterator[TokenEmbedding]:
        for sequences in self._token_windows(texts, prompt):
            embeddings: dict[int, TokenEmbedding] = {}
            for rows, vectors, states in self.model.forward(sequences):
                assert states is not None
                token_vectors = self.model.token_vectors(states)
                if self._token_mean is not None:
                    token_vectors = unit_rows(token_vectors - self._token_mean)
                parts = zip(rows, vectors, token_vectors, strict=True)
                for row, vector, own_tokens in parts:
                    # An embedding without the special tokens, copied so that the batch's arrays are freed.
                    sequence = sequences[row]
                    span = slice(sequence.start, sequence.stop)
                    embeddings[int(row)] = TokenEmbedding(
                        vector.copy(), np.array(sequence.ids[span], dtype=np.int32), own_tokens[span].copy()
                    )
            yield from (embeddings.pop(row) for row in range(len(sequences)))

    def _token_windows(self, texts: Sequence[str], prompt: str) -> Iterator[list[TokenSequence]]:
        """Yield the texts' sequences in windows of at most `_WINDOW` texts and about `_WINDOW_TOKENS` tokens."""
        for start in range(0, len(texts), _WINDOW):
            window: list[TokenSequence] = []
            window_tokens = 0
            for sequence in self.model.reader.sequences(texts[start : start + _WINDOW], prompt):
                window.append(sequence)
                window_tokens += len(sequence.ids)
                if window_tokens >= _WINDOW_TOKENS:
                    yield window
                    window, window_tokens = [], 0
            if window:
                yield window


def open_local(options: EmbeddingOptions) -> LocalSentenceEmbedder:
    """Return the model that the options name: the one in `model_path`, or else the default model.

    Raises:
        EmbedderUnavailable: the model does not exist or cannot be run.
    """
    if options.model_path:
        files = find_model(options.model_path)
        recipe = read_recipe(files.folder)
        if options.without_prompts and not files.is_graph:
            recipe = recipe.without_prompts()
        name = model_name(files, recipe, weights_digest(files, options.cache_folder))
        run = ModelOptions(options.cache_folder, options.threads, options.dimensions, options.max_tokens)
        model = SentenceModel(files, recipe, run)
        kind = LocalEmbedder if model.facts.has_token_vectors else LocalSentenceEmbedder
        return kind(model, name=name)
    if options.model not in model_folder.INCLUDED_MODELS:
        raise EmbedderUnavailable(
            f"EMBEDDING_MODEL={options.model} is not a model that comes with convmemory: set EMBEDDING_MODEL_PATH "
            "to its folder, or EMBEDDING_PROVIDER=openai and EMBEDDING_BASE_URL to the server that has it."
        )
    files = ModelFiles.of_bert(default_folder())
    run = ModelOptions(
        options.cache_folder,
        options.threads,
        expected_sha256=model_folder.DEFAULT_SHA256,
        is_int8=options.model == model_folder.INT8_MODEL,
    )
    model = SentenceModel(files, read_recipe(files.folder), run)
    return LocalEmbedder(model, name=options.model, licence=model_folder.DEFAULT_LICENCE)


def model_name(files: ModelFiles, recipe: SentenceRecipe, weights_sha256: str) -> str:
    """Return the name of a folder's model: the folder's, with the digest of everything that affects its vectors.

    Another model under the same name, or the same one with other prompts, is therefore another space. The digest covers
    a BERT's weights alone if no prompt precedes the texts and nothing follows the pooling.
    """
    digest = weights_sha256
    if files.is_graph or not recipe.is_plain:
        tokenizer = fresh_digest([model_file(files.folder, "tokenizer.json")])
        digest = sha256(f"{weights_sha256} {tokenizer} {recipe.digest()}".encode()).hexdigest()
    return f"{files.folder.name}@{digest[:8]}"
