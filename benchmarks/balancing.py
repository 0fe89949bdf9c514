"""Measures the inputs of the included model's products, by which its 8-bit form is balanced.

`python -m benchmarks.balancing` writes `convmemory/embeddings/largest_inputs.npz`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings import onnx_graph
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.graph_session import open_session
from convmemory.embeddings.model_folder import BERT_WEIGHTS, read_bert_config
from convmemory.embeddings.sentence_model import BERT_MAX_SEQUENCE
from convmemory.embeddings.token_model import background_texts
from convmemory.embeddings.token_reader import TokenReader, open_tokenizer


def measure_largest_inputs(folder: Path, texts: Sequence[str]) -> dict[str, NDArray[np.float16]]:
    """Return the largest sizes (in,) in each column of the inputs of a BERT's products of weights, by their names."""
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    config = read_bert_config(folder)
    model = onnx_graph.build_graph(load_file(folder / BERT_WEIGHTS), config)
    inputs = dict(_inputs(config.layers))
    for name in inputs.values():
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = open_session(model.SerializeToString(), threads=1)
    largest: dict[str, NDArray[Any]] = {name: np.zeros(1, np.float32) for name in inputs}
    for sequence in TokenReader(open_tokenizer(folder), max_sequence=BERT_MAX_SEQUENCE).sequences(texts, ""):
        ids = np.array([sequence.ids], np.int32)
        outputs = session.run([*inputs.values()], {"input_ids": ids, "mask": np.ones_like(ids)})
        for name, values in zip(inputs, outputs, strict=True):
            largest[name] = np.maximum(largest[name], np.abs(values[0]).max(axis=0))
    return {name: sizes.astype(np.float16) for name, sizes in largest.items()}


def _inputs(layers: int) -> Iterator[tuple[str, str]]:
    """Yield the names of the products and of their inputs."""
    hidden = "embedded"
    for layer in range(layers):
        block = f"encoder.layer.{layer}."
        yield f"{block}qkv", hidden
        yield f"{block}attention.output.dense.weight", f"{block}context"
        yield f"{block}intermediate.dense.weight", f"{block}attended"
        yield f"{block}output.dense.weight", f"{block}active"
        hidden = f"layer{layer}"


if __name__ == "__main__":
    sizes = measure_largest_inputs(default_folder(), background_texts())
    np.savez_compressed(onnx_graph.LARGEST_INPUTS, **sizes)  # type: ignore[arg-type]
