"""A sentence model in a folder, loaded at first use: tokenizer, graph and post-processing, run over many texts.

Facts about a graph that only a run reveals (dimensions, whether there are token vectors) are determined with one text
and cached, so that the model's card needs no loading afterwards.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import MAX_DIMENSIONS, TokenIds, Vector, unit_rows
from convmemory.embeddings.graph_session import Encoded, GraphSession, open_session
from convmemory.embeddings.model_folder import ModelFiles, model_file, noted, read_bert_config, read_json
from convmemory.embeddings.onnx_graph import graph_to_run
from convmemory.embeddings.sentence_recipe import DenseFile, SentenceRecipe
from convmemory.embeddings.token_reader import PROBE, TokenReader, TokenSequence, open_tokenizer

BERT_MAX_SEQUENCE = 256
GRAPH_MAX_SEQUENCE = 512
"""The default. A graph's memory grows with its square; longer texts are embedded in windows."""

# Of a run, including the padding: attention takes memory by the square of the length.
BATCH_SIZE = 32
BATCH_TOKENS = 8_192
RUN_TOKENS = 24
"""The fixed cost of a run of the model, in tokens: less padding than this does not justify another run."""

BERT_SPECIAL_TOKENS = 2  # [CLS] and [SEP]
_LEARNERS_SEQUENCE = 64  # tokens, enough for the probe
# These models number positions from after the padding's id, so that fewer are usable.
_POSITIONS_AFTER_PADDING = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """`activation(vectors @ weight.T + bias)`, "Identity" or "Tanh"; `weight` (out, in), `bias` (out,)."""

    weight: Vector
    bias: Vector
    activation: str

    def apply(self, vectors: Vector) -> Vector:
        """Return the layer's output (..., out) for vectors (..., in)."""
        sums: Vector = np.matmul(vectors, self.weight.T) + self.bias
        return np.tanh(sums) if self.activation == "Tanh" else sums


@dataclass(frozen=True, slots=True)
class Finish:
    """The steps applied to both pooled vectors and token vectors. `dimensions` 0 keeps all.

    They work on the last axis, so that token vectors can be compared with the pooled vector.
    """

    dense: tuple[DenseLayer, ...]
    dimensions: int

    def apply(self, vectors: Vector) -> Vector:
        """Return the finished vectors (..., dim) of unit length for vectors (..., in).

        Cutting is possible for models with Matryoshka training: arXiv:2205.13147.
        """
        for layer in self.dense:
            vectors = layer.apply(vectors)
        return unit_rows(self.cut(vectors))

    def cut(self, vectors: Vector) -> Vector:
        """Return the first `dimensions` of vectors."""
        cut: Vector = vectors[..., : self.dimensions] if self.dimensions else vectors
        return cut


def pooled(states: Vector, mask: NDArray[np.integer], pooling: str) -> Vector:
    """Return vectors (b, dim) from states (b, t, dim), over the tokens where `mask` (b, t) is 1.

    `pooling` is "mean", "cls" (the first token) or "last" (the last token in the mask).
    """
    if pooling == "cls":
        first: Vector = states[:, 0]
        return first
    if pooling == "last":
        last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
        return np.asarray(states[np.arange(len(states)), last])
    weights = mask.astype(np.float32)
    sums = np.matmul(weights[:, None, :], states)[:, 0]
    means: Vector = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return means


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts that a run of the model reveals.

    `dimensions` are those before cutting; `overhead_tokens` are special tokens and the longer prompt.
    """

    dimensions: int
    has_token_vectors: bool
    overhead_tokens: int


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options for running a model. 0 means the value in its files, and for `threads` one per core.

    `is_int8` multiplies a BERT's weights as 8-bit integers.
    """

    cache_folder: Path
    threads: int = 0
    dimensions: int = 0
    max_tokens: int = 0
    expected_sha256: str | None = None
    is_int8: bool = False


class Forwarded(NamedTuple):
    """One pass: `rows` (b,) of its texts, their `vectors` (b, dim), `states` (b, t, dim) of the tokens."""

    rows: NDArray[np.intp]
    vectors: Vector
    states: Vector | None


class _Runtime(NamedTuple):
    reader: TokenReader
    session: GraphSession
    finish: Finish
    pad_id: int


class SentenceModel:
    """Runs a model over texts. Thread-safe."""

    def __init__(self, files: ModelFiles, recipe: SentenceRecipe, options: ModelOptions) -> None:
        """Read small files, and run one text through a graph that is new to this installation.

        Raises:
            EmbedderUnavailable: a file is missing, or the model is of a kind that cannot be run.
        """
        self.files = files
        self.recipe = recipe
        self._options = options
        self._loading = threading.Lock()
        self._loaded: _Runtime | None = None
        recipe_max, at_most = self.recipe.max_sequence, self._options.max_tokens
        if not self.files.is_graph:
            longest = min(recipe_max or BERT_MAX_SEQUENCE, read_bert_config(self.files.folder).positions)
            self.max_sequence = min(longest, at_most or longest)
        else:
            self.max_sequence = min(
                filter(None, (recipe_max, _positions(self.files.folder), at_most or GRAPH_MAX_SEQUENCE))
            )
        if not self.files.is_graph and self.recipe.is_plain:
            dimensions = read_bert_config(self.files.folder).dimensions
            self.facts = ModelFacts(dimensions, has_token_vectors=True, overhead_tokens=BERT_SPECIAL_TOKENS)
        else:
            read_files = [*self.files.all_weights(), model_file(self.files.folder, "tokenizer.json")]
            kind = f"facts of {self.recipe.digest()}"
            self.facts = ModelFacts(
                **noted(self._options.cache_folder, kind, read_files, lambda: asdict(self._learn()))
            )
        full_dimensions, requested = self.facts.dimensions, self._options.dimensions
        if requested > full_dimensions:
            raise EmbedderUnavailable(
                f"The model in {self.files.folder} has {full_dimensions} dimensions, not {requested}: leave "
                "EMBEDDING_DIMENSIONS (or --dimensions) out, or set fewer where the model is trained to be cut "
                "(Matryoshka)."
            )
        if (requested or full_dimensions) > MAX_DIMENSIONS:
            raise EmbedderUnavailable(
                f"The model in {self.files.folder} has {full_dimensions} dimensions, of which {MAX_DIMENSIONS} can be "
                "indexed at most: set EMBEDDING_DIMENSIONS to fewer if the model is trained to be cut (Matryoshka)."
            )
        self.dimensions = requested or full_dimensions
        if self.max_sequence <= self.facts.overhead_tokens:
            raise EmbedderUnavailable(
                f"The model in {files.folder} reads {self.max_sequence} tokens, of which its prompt and special tokens "
                f"take {self.facts.overhead_tokens}: raise EMBEDDING_MAX_TOKENS."
            )

    @property
    def reader(self) -> TokenReader:
        return self._runtime().reader

    def forward(self, sequences: Sequence[TokenSequence]) -> Iterator[Forwarded]:
        """Run the model over all sequences, grouped by similar length so that little is padded."""
        session = self._runtime().session
        lengths = np.array([len(sequence.ids) for sequence in sequences])
        order = np.argsort(lengths, kind="stable")
        at_most = BATCH_SIZE if session.takes_batches else 1
        for run in runs_of_like_length(lengths[order].tolist(), at_most=at_most):
            rows, runtime = order[run], self._runtime()
            of_run = [sequences[row] for row in rows]
            ids, mask = _padded(of_run, runtime.pad_id)
            encoded = runtime.session.run(ids, mask)
            yield Forwarded(rows, runtime.finish.apply(self._texts(encoded, of_run, mask)), encoded.states)

    def token_vectors(self, states: Vector) -> Vector:
        """Return the states (b, t, ·) as token vectors (b, t, dim) of unit length."""
        return self._runtime().finish.apply(states)

    def _texts(self, encoded: Encoded, sequences: list[TokenSequence], mask: TokenIds) -> Vector:
        """Return one vector per text, before the Dense layers."""
        if encoded.sentences is not None:
            return encoded.sentences
        assert encoded.states is not None
        if not self.recipe.pools_prompt:
            for row, sequence in enumerate(sequences):
                mask[row, : sequence.start] = 0
        return pooled(encoded.states, mask, self.recipe.pooling or "mean")

    def _runtime(self) -> _Runtime:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    reader = TokenReader(open_tokenizer(self.files.folder), max_sequence=self.max_sequence)
                    session = self._graph_session() if self.files.is_graph else self._bert_session()
                    if not self.files.is_graph and reader.special_tokens != BERT_SPECIAL_TOKENS:
                        raise EmbedderUnavailable(
                            f"{self.files.folder / 'tokenizer.json'} is not the tokenizer of a BERT model."
                        )
                    dense = () if session.gives_sentences else tuple(map(_read_dense, self.recipe.dense))
                    pad_token = read_json(self.files.folder / "config.json").get("pad_token_id")
                    pad_id = pad_token if isinstance(pad_token, int) else 0
                    self._loaded = _Runtime(reader, session, Finish(dense, self._options.dimensions), pad_id)
        return self._loaded

    def _bert_session(self) -> GraphSession:
        files, options = self.files, self._options
        graph = graph_to_run(
            files, options.cache_folder, expected_sha256=options.expected_sha256, is_int8=options.is_int8
        )
        try:
            return GraphSession(open_session(graph, threads=self._threads), where=str(files.weights))
        except Exception as error:  # the runtime's errors have no common root
            if isinstance(graph, bytes):
                raise EmbedderUnavailable(f"{files.weights} cannot be run: {error}.") from error
            raise EmbedderUnavailable(
                f"The prepared model {graph} cannot be loaded ({error}): delete the folder {graph.parent}, "
                "and the next start builds it again."
            ) from error

    def _graph_session(self) -> GraphSession:
        graph = self.files.weights
        try:
            opened = open_session(graph, threads=self._threads)
        except Exception as error:
            raise EmbedderUnavailable(
                f"{graph} cannot be loaded by ONNX Runtime ({error}): see whether all its files are there (a large "
                "graph has a model.onnx_data next to it), or take another variant of the model."
            ) from error
        session = GraphSession(opened, where=str(graph))
        if not session.gives_sentences and self.recipe.pooling is None:
            raise EmbedderUnavailable(
                f"The files in {self.files.folder} do not say how the tokens' states become one vector: copy "
                "1_Pooling/config.json and modules.json from where the model comes from, or write "
                '1_Pooling/config.json with {"pooling_mode": "mean"} ("cls", "lasttoken"), as its description says.'
            )
        return session

    @property
    def _threads(self) -> int:
        if self._options.threads:
            return self._options.threads
        if hasattr(os, "sched_getaffinity"):  # the cores that this process may run on
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def _learn(self) -> ModelFacts:
        reader, session, finish, pad_id = self._runtime()
        prompts = (self.recipe.query_prompt, self.recipe.passage_prompt)
        whole = TokenReader(open_tokenizer(self.files.folder), max_sequence=_LEARNERS_SEQUENCE)
        [sequence] = whole.sequences([PROBE], "")
        ids, mask = _padded([sequence], pad_id)
        encoded = session.run(ids, mask)
        uncut = Finish(finish.dense, 0)
        width = uncut.apply(self._texts(encoded, [sequence], mask)).shape[1]
        has_tokens = encoded.states is not None and uncut.apply(encoded.states).shape[2] == width
        overhead = reader.special_tokens + max(reader.prompt_tokens(prompt) for prompt in prompts)
        return ModelFacts(dimensions=width, has_token_vectors=has_tokens, overhead_tokens=overhead)


def runs_of_like_length(lengths: Sequence[int], *, at_most: int = BATCH_SIZE) -> list[slice]:
    """Return the cheapest runs over texts of ascending `lengths`, each padded to its longest.

    A run has at most `at_most` texts and `BATCH_TOKENS` tokens with the padding, but always one text.
    """
    # Dynamic programming: `costs[end]` is the least cost of the texts before `end`, `starts[end]` where its last run
    # begins.
    costs, starts = [0], [0]
    for end, longest in enumerate(lengths, 1):
        texts = max(1, min(at_most, BATCH_TOKENS // max(longest, 1)))
        earliest = max(0, end - texts)
        cost, start = min((costs[start] + (end - start) * longest, start) for start in range(earliest, end))
        costs.append(cost + RUN_TOKENS)
        starts.append(start)
    runs: list[slice] = []
    end = len(lengths)
    while end:
        runs.append(slice(starts[end], end))
        end = starts[end]
    return runs[::-1]


def _padded(sequences: list[TokenSequence], pad_id: int) -> tuple[TokenIds, TokenIds]:
    """Return ids and mask, (b, longest) each."""
    longest = max(len(sequence.ids) for sequence in sequences)
    ids = np.full((len(sequences), longest), pad_id, dtype=np.int32)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence.ids)] = sequence.ids
        mask[row, : len(sequence.ids)] = 1
    return ids, mask


def _read_dense(file: DenseFile) -> DenseLayer:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(file.weights)
        weight = tensors["linear.weight"].astype(np.float32)
    except (SafetensorError, KeyError, TypeError) as error:
        raise EmbedderUnavailable(f"{file.weights} is not a Dense layer of sentence-transformers: {error}.") from error
    bias = tensors.get("linear.bias", np.zeros(len(weight), np.float32)).astype(np.float32)
    return DenseLayer(weight, bias, file.activation)


def _positions(folder: Path) -> int:
    """Return the longest sequence for which a model has positions; 0 if `config.json` does not say."""
    config = read_json(folder / "config.json")
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    if not isinstance(positions, int):
        return 0
    if config.get("model_type") in _POSITIONS_AFTER_PADDING:
        return positions - 1 - int(config.get("pad_token_id") or 1)
    return positions
