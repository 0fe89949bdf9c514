"""Sentence models that run here, on ONNX Runtime, without PyTorch.

Reads a folder as sentence-transformers writes it; by default the one of all-MiniLM-L6-v2 inside
its installed package. ONNX Runtime, onnx and tokenizers are imported at the first text, not before.
"""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings import model_folder
from convmemory.embeddings.embedder import ModelCard, Span, TokenEmbedding, TokenIds, Tokens, Vector, unit_rows
from convmemory.embeddings.onnx_graph import cached_graph
from convmemory.embeddings.options import LOCAL, EmbeddingOptions

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BATCH_SIZE = 32
RUN_TOKENS = 24
"""What a run of the model costs beside its tokens, in tokens: padding less than this is no reason for another run."""
SPECIAL_TOKENS = 2
"""[CLS] before a text and [SEP] after it."""

_WINDOW = 2048
_WINDOW_TOKENS = 65_536  # 100 MB of token vectors of 384 dimensions
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Hidden(NamedTuple):
    """What one forward pass gives: `rows` (b,) places of its texts, `states` (b, t, dim), `mask` (b, t)."""

    rows: NDArray[np.intp]
    states: Vector
    mask: TokenIds


class _Runtime(NamedTuple):
    tokenizer: "Tokenizer"
    session: Any


class LocalEmbedder:
    """A BERT sentence model in a folder. Loaded at the first text; safe to use from several threads."""

    def __init__(
        self,
        folder: Path,
        *,
        cache_folder: Path,
        model: str,
        threads: int = 0,
        licence: str = "",
        expected_sha256: str | None = None,
    ) -> None:
        """`threads` 0 means one a core. `expected_sha256` is what the weights must be, where that is known.

        Raises:
            EmbedderUnavailable: a file is missing, or the model is of a kind that cannot be run.
        """
        self._folder = folder
        self._cache_folder = cache_folder
        self._threads = threads or _usable_cores()
        self._expected_sha256 = expected_sha256
        self._config = model_folder.read_config(folder)
        self._loading = threading.Lock()
        self._loaded: _Runtime | None = None
        self.card = ModelCard(
            provider=LOCAL,
            model=model,
            dimensions=self._config.dimensions,
            max_tokens=self._config.max_sequence - SPECIAL_TOKENS,
            licence=licence,
            has_token_vectors=True,
        )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) - SPECIAL_TOKENS for ids in self._token_ids(texts)]

    def tokenize(self, text: str) -> Tokens:
        encoding = self._runtime().tokenizer.encode(_encodable(text), add_special_tokens=False)
        return Tokens(ids=np.array(encoding.ids, dtype=np.int32), spans=encoding.offsets)

    def token_spans(self, text: str) -> list[Span]:
        return self.tokenize(text).spans

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        vectors = np.empty((len(texts), self.card.dimensions), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            for hidden in self._forward(self._token_ids(texts[start : start + _WINDOW])):
                vectors[start + hidden.rows] = self._pool(hidden)
        return vectors

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_passages([text])[0]
        return vector

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        for sequences in self._token_windows(texts):
            found: dict[int, TokenEmbedding] = {}
            for hidden in self._forward(sequences):
                parts = zip(hidden.rows, self._pool(hidden), unit_rows(hidden.states), strict=True)
                for row, vector, token_vectors in parts:
                    found[int(row)] = _token_embedding(vector, token_vectors, self._cut(sequences[row]))
            yield from (found.pop(row) for row in range(len(sequences)))

    def embed_query_tokens(self, text: str) -> TokenEmbedding:
        return next(self.embed_passages_with_tokens([text]))

    def _token_windows(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        """The texts' ids in runs of at most `_WINDOW` texts and some `_WINDOW_TOKENS` tokens."""
        for start in range(0, len(texts), _WINDOW):
            window: list[list[int]] = []
            held = 0
            for ids in self._token_ids(texts[start : start + _WINDOW]):
                window.append(ids)
                held += min(len(ids), self._config.max_sequence)
                if held >= _WINDOW_TOKENS:
                    yield window
                    window, held = [], 0
            if window:
                yield window

    def _token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text with its special tokens, not cut."""
        encodings = self._runtime().tokenizer.encode_batch_fast([_encodable(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def _cut(self, ids: list[int]) -> list[int]:
        limit = self._config.max_sequence
        return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]

    def _forward(self, sequences: list[list[int]]) -> Iterator[_Hidden]:
        """Run the model over all sequences, those of like length together so that little is padded."""
        session = self._runtime().session
        cut = [self._cut(ids) for ids in sequences]
        lengths = np.array([len(ids) for ids in cut])
        order = np.argsort(lengths, kind="stable")
        for run in runs_of_like_length(lengths[order].tolist()):
            rows = order[run]
            ids, mask = _padded([cut[row] for row in rows])
            yield _Hidden(rows, session.run(None, {"input_ids": ids, "mask": mask})[0], mask)

    def _pool(self, hidden: _Hidden) -> Vector:
        """Vectors (b, dim) of unit length: the mean of a text's tokens, special ones included, or the first."""
        if self._config.pooling == "cls":
            return unit_rows(hidden.states[:, 0])
        sums = np.matmul(hidden.mask[:, None, :].astype(np.float32), hidden.states)
        return unit_rows(sums[:, 0])

    def _runtime(self) -> _Runtime:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._load()
        return self._loaded

    def _load(self) -> _Runtime:
        tokenizer = _load_tokenizer(self._folder)
        graph = cached_graph(self._folder, self._cache_folder, expected_sha256=self._expected_sha256)
        return _Runtime(tokenizer, _load_session(graph, self._threads))


def open_local(options: EmbeddingOptions) -> LocalEmbedder:
    """The model that the options name: the folder in `model_path`, or else the default model.

    A folder's model is called by the folder's name and the digest of its weights, so that other
    weights under the same name are another model.

    Raises:
        EmbedderUnavailable: the model is not there or cannot be run.
    """
    if options.model_path:
        digest = model_folder.weights_digest(options.model_path, options.cache_folder)
        name = f"{options.model_path.name}@{digest[:8]}"
        return LocalEmbedder(options.model_path, cache_folder=options.cache_folder, model=name, threads=options.threads)
    if options.model != model_folder.DEFAULT_MODEL:
        raise EmbedderUnavailable(
            f"EMBEDDING_MODEL={options.model} is not a model that comes with convmemory: set EMBEDDING_MODEL_PATH "
            "to its folder, or EMBEDDING_PROVIDER=openai and EMBEDDING_BASE_URL to the server that has it."
        )
    return LocalEmbedder(
        model_folder.default_folder(),
        cache_folder=options.cache_folder,
        model=model_folder.DEFAULT_MODEL,
        threads=options.threads,
        licence=model_folder.DEFAULT_LICENCE,
        expected_sha256=model_folder.DEFAULT_SHA256,
    )


def runs_of_like_length(lengths: Sequence[int]) -> list[slice]:
    """Runs of at most `BATCH_SIZE` over texts of ascending `lengths` that cost least, each padded to its longest."""
    costs, starts = [0], [0]
    for end, longest in enumerate(lengths, 1):
        earliest = max(0, end - BATCH_SIZE)
        cost, start = min((costs[start] + (end - start) * longest, start) for start in range(earliest, end))
        costs.append(cost + RUN_TOKENS)
        starts.append(start)
    runs: list[slice] = []
    end = len(lengths)
    while end:
        runs.append(slice(starts[end], end))
        end = starts[end]
    return runs[::-1]


def _token_embedding(vector: Vector, token_vectors: Vector, ids: list[int]) -> TokenEmbedding:
    """Copies without the special tokens, so that the batch's arrays are not kept."""
    own = slice(1, len(ids) - 1)
    return TokenEmbedding(vector.copy(), np.array(ids[own], dtype=np.int32), token_vectors[own].copy())


def _encodable(text: str) -> str:
    """`text` with lone surrogates replaced, which the tokenizer refuses; as long as before."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _padded(sequences: list[list[int]]) -> tuple[TokenIds, TokenIds]:
    """Ids and mask, (b, longest) each."""
    longest = max(len(ids) for ids in sequences)
    ids = np.zeros((len(sequences), longest), dtype=np.int32)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask


def _load_tokenizer(folder: Path) -> "Tokenizer":
    path = model_folder.model_file(folder, "tokenizer.json")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error
    if tokenizer.num_special_tokens_to_add(is_pair=False) != SPECIAL_TOKENS:
        raise EmbedderUnavailable(f"{path} is not the tokenizer of a BERT model.")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return tokenizer


def _load_session(graph: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # else the memory of the longest batch is kept for good
    # Waiting threads sleep: spinning takes a fifth of the rate when two processes embed at once.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no common root
        raise EmbedderUnavailable(
            f"The prepared model {graph} cannot be loaded ({error}): delete the folder {graph.parent}, "
            "and the next start builds it anew."
        ) from error


def _usable_cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
