"""An ONNX graph of a sentence model, run on ONNX Runtime: its inputs are filled and its useful output is chosen by
name.

Exporters agree on few names. Every input is filled by its name and type; an unsupported one is refused with the reason
when the model is opened, not at the first text.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import TokenIds, Vector

STATES = ("last_hidden_state", "token_embeddings", "hidden_states", "hidden", "colbert_vecs")
SENTENCES = ("sentence_embedding", "dense_vecs", "text_embeds", "embeddings")
"""Names of outputs: the states of all tokens (b, t, dim), and vectors of whole texts (b, dim), not of unit length."""

_IDS, _MASK, _TYPES, _POSITIONS = "input_ids", ("attention_mask", "mask"), "token_type_ids", "position_ids"
_PAST = "past_key_values"
# The fused operator adds and normalizes in one loop that is not vectorized: a BERT took 8 % more processor time.
FUSED_SLOWER = ["SkipLayerNormFusion"]
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Encoded(NamedTuple):
    """The result of one pass: `states` (b, t, dim) or None, `sentences` (b, dim) or None; at least one of them."""

    states: Vector | None
    sentences: Vector | None


class GraphSession:
    """A loaded graph. Thread-safe."""

    def __init__(self, session: Any, *, where: str) -> None:
        """Check the graph's inputs and choose its outputs; `where` names the file in messages.

        Raises:
            EmbedderUnavailable: an input or the outputs are not those of a sentence model.
        """
        self._session = session
        self._where = where
        self._inputs = {graph_input.name: graph_input for graph_input in session.get_inputs()}
        if _IDS not in self._inputs:
            raise self._refused(f"it has no input {_IDS}")
        outputs = [output for output in self._session.get_outputs() if output.type in _FLOATS]
        names = [output.name for output in outputs]
        states = next((name for name in STATES if name in names), None)
        sentences = next((name for name in SENTENCES if name in names), None)
        if states is None and sentences is None:
            raise self._refused(
                f"it gives {', '.join(names) or 'nothing'}, neither the states of the tokens ({', '.join(STATES[:2])}) "
                f"nor a vector of the text ({SENTENCES[0]}). Export the model as a sentence model: "
                "`optimum-cli export onnx --task feature-extraction`"
            )
        self._states, self._sentences = states, sentences
        self._names = [name for name in (self._states, self._sentences) if name]
        for graph_input in self._inputs.values():
            if graph_input.name.startswith(_PAST):
                if (
                    graph_input.type not in _FLOATS
                    or len(graph_input.shape) != 4
                    or not all(isinstance(size, int) for size in graph_input.shape[1::2])
                ):
                    raise self._refused(
                        f"its input {graph_input.name} is a cache of former tokens whose size the graph does not tell. "
                        "Export it as a sentence model, without a cache: "
                        "`optimum-cli export onnx --task feature-extraction`"
                    )
            else:
                if graph_input.name not in (_IDS, *_MASK, _TYPES, _POSITIONS) or graph_input.type not in _INTEGERS:
                    raise self._refused(
                        f"it wants the input {graph_input.name} ({graph_input.type}), which a text does not have"
                    )
                if (
                    len(graph_input.shape) != 2
                    or isinstance(graph_input.shape[1], int)
                    or _is_fixed_batch(graph_input.shape[0])
                ):
                    raise self._refused(
                        f"its input {graph_input.name} has the fixed shape {graph_input.shape}. "
                        "Export the model with dynamic axes"
                    )

    @property
    def gives_sentences(self) -> bool:
        return self._sentences is not None

    @property
    def takes_batches(self) -> bool:
        """False for a graph that was exported for one text at a time."""
        return not isinstance(self._inputs[_IDS].shape[0], int)

    def run(self, ids: TokenIds, mask: TokenIds) -> Encoded:
        """Run one forward pass over padded sequences, both (b, t)."""
        feed = {}
        for name, graph_input in self._inputs.items():
            if graph_input.name.startswith(_PAST):  # the cache of earlier tokens is empty at the start of a text
                heads, width = graph_input.shape[1], graph_input.shape[3]
                feed[name] = np.zeros((len(ids), heads, 0, width), _FLOATS[graph_input.type])
            else:
                # Exporters differ in the integer type of the inputs.
                kind = _INTEGERS[graph_input.type]
                if graph_input.name == _IDS:
                    feed[name] = ids.astype(kind, copy=False)
                elif graph_input.name in _MASK:
                    feed[name] = mask.astype(kind, copy=False)
                elif graph_input.name == _TYPES:
                    feed[name] = np.zeros_like(ids, dtype=kind)
                else:
                    feed[name] = np.broadcast_to(np.arange(ids.shape[1], dtype=kind), ids.shape)
        outputs = dict(zip(self._names, self._session.run(self._names, feed), strict=True))
        return Encoded(_float32(outputs.get(self._states or "")), _float32(outputs.get(self._sentences or "")))

    def _refused(self, reason: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"{self._where} cannot be run as a sentence model: {reason}.")


def open_session(graph: Path | bytes, *, threads: int) -> Any:
    """Return an ONNX Runtime session on the CPU, for a graph in a file or in memory.

    Raises:
        Exception: any error of the runtime; its errors have no common root.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # the arena would keep the memory of the longest batch
    # Waiting threads sleep: spinning costs a fifth of the rate when two processes embed at once.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model = graph if isinstance(graph, bytes) else str(graph)
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=FUSED_SLOWER
    )


def _float32(values: NDArray[Any] | None) -> Vector | None:
    return None if values is None else values.astype(np.float32, copy=False)


def _is_fixed_batch(size: Any) -> bool:
    return isinstance(size, int) and size != 1
