"""Writes a BERT encoder as a graph of fused ONNX Runtime operators, in 32-bit floating point or with 8-bit products.

The graph reads `input_ids` and `mask` (b, t) int32 and returns `hidden` (b, t, dim) float32, the last hidden states. It
is built once for given weights and stored as `<cache>/<sha256>/model-v2.onnx` (`int8-v2.onnx`) with its weights in a
second file, which the processes of a machine share by memory mapping.

Source: com.microsoft operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

import json
import logging
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.files.private_files import UnfinishedFile, written_whole
from convmemory.core.program import TO_INSTALL_MODEL
from convmemory.embeddings.model_folder import (
    BERT_WEIGHTS,
    BertConfig,
    ModelFiles,
    model_file,
    read_bert_config,
    weights_digest,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto


EXACT, INT8 = "model-v2", "int8-v2"
"""The names of the two kinds of graph, raised when what is built changes."""

LARGEST_WEIGHT = 90
LARGEST_INPUT = 182
"""Of 8-bit weights, from -90, and of 8-bit inputs, from 0: a processor with plain AVX2 adds two products in 16 bits,
which so never overflow, and gives the same sums as every other.
"""
_GELU, _GELU_SHIFT = "active", 0.17  # the end of the names of GELU's outputs, which are above -0.17
_BALANCE = 0.6  # the exponent of SmoothQuant; .5 and .7 had lower cosines with floating point
_LEAST_SIZE = 1e-3
LARGEST_INPUTS = Path(__file__).parent / "largest_inputs.npz"

_MICROSOFT = "com.microsoft"
_ONNX_OPSET = 17
_ONNX_IR = 10
_STALE_BUILD_S = 3600.0  # another process may still be building in a younger folder

logger = logging.getLogger(__name__)


class GraphNotWritten(EmbedderUnavailable):
    """The folder of built graphs cannot be written."""


def cached_graph(
    files: ModelFiles, cache_folder: Path, *, expected_sha256: str | None = None, is_int8: bool = False
) -> Path:
    """Return the graph of a BERT's weights, built now if these weights were never built before.

    Several processes may build at once: each builds in a folder of its own and moves the result into place.

    Raises:
        EmbedderUnavailable: files are missing or are not the expected ones.
        GraphNotWritten: the folder cannot be written.
    """
    model_file(files.folder, BERT_WEIGHTS)
    digest = weights_digest(files, cache_folder)
    if expected_sha256 and digest != expected_sha256:
        raise EmbedderUnavailable(
            f"{files.weights} is damaged or not the expected model (SHA-256 {digest}, expected "
            f"{expected_sha256}): run `{TO_INSTALL_MODEL}` to install it again."
        )
    target = cache_folder / digest
    kind = INT8 if is_int8 else EXACT
    names = _FileNames(f"{kind}.onnx", f"{kind}.weights", f"{kind}.sizes.json")
    try:
        sizes = json.loads((target / names.sizes).read_bytes())
        is_whole = all((target / name).stat().st_size == sizes[name] for name in (names.weights, names.graph))
    except (OSError, ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        model = _read_and_build(files.folder, is_int8=is_int8)
        try:
            _write_into(target, model, names)
        except OSError as error:
            raise GraphNotWritten(f"The model cannot be prepared in {target}: {error}.") from error
    return target / names.graph


def graph_to_run(
    files: ModelFiles, cache_folder: Path, *, expected_sha256: str | None = None, is_int8: bool = False
) -> Path | bytes:
    """Return the cached graph, or where nothing can be written one that is built in memory.

    Raises:
        EmbedderUnavailable: files are missing or are not the expected ones.
    """
    try:
        return cached_graph(files, cache_folder, expected_sha256=expected_sha256, is_int8=is_int8)
    except GraphNotWritten as error:
        logger.warning("%s Each process builds it in its memory.", error)
        return bytes(_read_and_build(files.folder, is_int8=is_int8).SerializeToString())


def build_graph(weights: dict[str, "NDArray[Any]"], config: BertConfig, *, is_int8: bool = False) -> "ModelProto":
    """Return the encoder as an ONNX model, with 8-bit products of weights if `is_int8`.

    Raises:
        KeyError: a tensor that BERT has is not among `weights`.
    """
    graph = (_Int8Graph if is_int8 else _Graph)(weights, config)
    hidden = graph.embed()
    for layer in range(config.layers):
        hidden = graph.encode(layer, hidden, output="hidden" if layer == config.layers - 1 else f"layer{layer}")
    return graph.model()


class _Graph:
    """Collects the nodes and weights of a graph."""

    def __init__(self, weights: dict[str, "NDArray[Any]"], config: BertConfig) -> None:
        self._tensors = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
        self._config = config
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []

    def embed(self) -> str:
        """Add word, position and token type embeddings, summed and normalised; return the output's name.

        Only token type 0 occurs, so its embedding is added to the words' and one look-up is saved.
        """
        words = self._tensors["embeddings.word_embeddings.weight"]
        types = self._tensors["embeddings.token_type_embeddings.weight"]
        inputs = [
            "input_ids",
            "",
            self._weight("words", words.astype(np.float32) + types[0].astype(np.float32)),
            self._tensor("embeddings.position_embeddings.weight"),
            "",
            self._tensor("embeddings.LayerNorm.weight"),
            self._tensor("embeddings.LayerNorm.bias"),
            "mask",
        ]
        self._node("EmbedLayerNormalization", inputs, "embedded", "lengths", epsilon=self._config.layer_norm_epsilon)
        return "embedded"

    def encode(self, layer: int, hidden: str, *, output: str) -> str:
        """Add one transformer layer: attention and feed-forward, each added to its input and normalised."""
        block = f"encoder.layer.{layer}."
        parts = [f"{block}attention.self.{name}" for name in ("query", "key", "value")]
        # The fused operator takes query, key and value as one matrix.
        weights = np.concatenate([self._tensors[f"{part}.weight"].T for part in parts], axis=1)
        biases = np.concatenate([self._tensors[f"{part}.bias"] for part in parts])
        self._attend(hidden, f"{block}qkv", weights, biases, f"{block}context")
        attended = self._project_and_add(f"{block}attention.output.", f"{block}context", hidden, f"{block}attended")

        dense = f"{block}intermediate.dense"
        self._multiply(attended, f"{dense}.weight", self._tensors[f"{dense}.weight"].T, f"{block}wide")
        self._node("BiasGelu", [f"{block}wide", self._tensor(f"{dense}.bias")], f"{block}{_GELU}")
        return self._project_and_add(f"{block}output.", f"{block}{_GELU}", attended, output)

    def model(self) -> "ModelProto":
        from onnx import TensorProto, helper

        inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["b", "t"]) for name in ("input_ids", "mask")]
        shape: list[str | int | None] = ["b", "t", self._config.dimensions]
        outputs = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self._nodes, "bert", inputs, outputs, self._initializers)
        opsets = [helper.make_opsetid("", _ONNX_OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_ONNX_IR)

    def _attend(self, hidden: str, name: str, weights: "NDArray[Any]", biases: "NDArray[Any]", output: str) -> None:
        inputs = [hidden, self._weight(name, weights), self._weight(f"{name}.bias", biases), "lengths"]
        self._node("Attention", inputs, output, num_heads=self._config.heads)

    def _multiply(self, value: str, name: str, weights: "NDArray[Any]", output: str) -> None:
        """Multiply rows (..., in) by the matrix `weights` (in, out)."""
        self._node("MatMul", [value, self._weight(name, weights)], output, domain="")

    def _project_and_add(self, prefix: str, value: str, skip: str, output: str) -> str:
        self._multiply(value, f"{prefix}dense.weight", self._tensors[f"{prefix}dense.weight"].T, f"{prefix}dense")
        self._node("Add", [f"{prefix}dense", skip], f"{prefix}skipped", domain="")
        self._node("Add", [f"{prefix}skipped", self._tensor(f"{prefix}dense.bias")], f"{prefix}sum", domain="")
        inputs = [f"{prefix}sum", self._tensor(f"{prefix}LayerNorm.weight"), self._tensor(f"{prefix}LayerNorm.bias")]
        self._node("LayerNormalization", inputs, output, domain="", epsilon=self._config.layer_norm_epsilon)
        return output

    def _node(self, kind: str, inputs: list[str], *outputs: str, domain: str = _MICROSOFT, **attributes: Any) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node(kind, inputs, list(outputs), domain=domain, **attributes))

    def _tensor(self, name: str) -> str:
        return self._weight(name, self._tensors[name])

    def _weight(self, name: str, array: "NDArray[Any]", dtype: type = np.float32) -> str:
        from onnx import numpy_helper

        self._initializers.append(numpy_helper.from_array(np.asarray(array, dtype=dtype, order="C"), name))
        return name


class _Int8Graph(_Graph):
    """Rounds the weights by column and the inputs by token, so that a text's vector does not depend on its batch.

    Both are balanced before: a few columns of the inputs are many times larger than the others, and would leave those
    few steps. `largest_inputs.npz` has the largest sizes in each column, which `benchmarks/balancing.py` measured.

    Source: Xiao et al., SmoothQuant, 2023, arXiv:2211.10438.
    """

    def __init__(self, weights: dict[str, "NDArray[Any]"], config: BertConfig) -> None:
        super().__init__(weights, config)
        with np.load(LARGEST_INPUTS) as largest:
            self._largest_inputs = dict(largest)
        self._weight("thirds", np.full(3, config.dimensions), np.int64)
        self._weight("shift", np.array(_GELU_SHIFT))
        for sign, zero in (("signed", LARGEST_INPUT // 2), ("positive", 0)):
            self._weight(f"{sign}.zero", np.array(zero), np.uint8)
            self._weight(f"{sign}.step", np.array(1 / (LARGEST_INPUT - zero)))

    def _attend(self, hidden: str, name: str, weights: "NDArray[Any]", biases: "NDArray[Any]", output: str) -> None:
        # The 8-bit attention operator has one scale for all tokens.
        self._multiply(hidden, name, weights, f"{name}.product")
        parts = [f"{name}.{number}" for number in range(3)]
        self._node("Split", [f"{name}.product", "thirds"], *parts, domain="", axis=2)
        inputs = [*parts, self._weight(f"{name}.bias", biases), "lengths"]
        self._node("MultiHeadAttention", inputs, output, num_heads=self._config.heads)

    def _multiply(self, value: str, name: str, weights: "NDArray[Any]", output: str) -> None:
        weights = weights.astype(np.float32)  # a copy
        is_gelu = value.endswith(_GELU)
        sign = "positive" if is_gelu else "signed"
        if is_gelu:
            self._node("Add", [value, "shift"], f"{name}.shifted", domain="")
            value = f"{name}.shifted"
        factors = _balance(self._largest_inputs[name], weights)
        weights *= factors[:, None]
        self._node("Mul", [value, self._weight(f"{name}.divisors", 1 / factors)], f"{name}.balanced", domain="")
        scales = np.maximum(np.abs(weights).max(axis=0), np.finfo(np.float32).tiny) / LARGEST_WEIGHT
        rounded = np.rint(weights / scales)
        self._weight(name, rounded, np.int8)
        self._weight(f"{name}.scales", scales)
        self._node("Abs", [f"{name}.balanced"], f"{name}.sizes", domain="")
        self._node("ReduceMax", [f"{name}.sizes"], f"{name}.largest", domain="", axes=[-1])
        self._node("Div", [f"{name}.balanced", f"{name}.largest"], f"{name}.input", domain="")
        self._node("QuantizeLinear", [f"{name}.input", f"{sign}.step", f"{sign}.zero"], f"{name}.rounded", domain="")
        inputs = [f"{name}.rounded", name, f"{sign}.step", f"{name}.scales", f"{sign}.zero"]
        self._node("MatMulIntegerToFloat", inputs, f"{name}.scaled")
        self._node("Mul", [f"{name}.scaled", f"{name}.largest"], f"{name}.product" if is_gelu else output, domain="")
        if is_gelu:
            shares = (_GELU_SHIFT / factors) @ (rounded * scales)
            self._node("Sub", [f"{name}.product", self._weight(f"{name}.shares", shares)], output, domain="")


def _balance(largest_inputs: "NDArray[Any]", weights: "NDArray[Any]") -> "NDArray[Any]":
    """Return the factors (in,) by which inputs are divided and the rows of `weights` (in, out) multiplied."""
    sizes = np.maximum(largest_inputs.astype(np.float32), _LEAST_SIZE) ** _BALANCE
    factors: NDArray[Any] = sizes / np.abs(weights).max(axis=1) ** (1 - _BALANCE)
    factors /= np.exp(np.log(factors).mean())
    return factors


class _FileNames(NamedTuple):
    """Names of a stored graph's files; `sizes` has those of the other two in bytes, and is written last."""

    graph: str
    weights: str
    sizes: str


def _write_into(target: Path, model: "ModelProto", names: _FileNames) -> None:
    from onnx import save_model

    target.mkdir(parents=True, exist_ok=True)
    # Delete the folders of killed builds.
    for build in target.parent.glob("build-*"):
        try:
            stale = time.time() - build.stat().st_mtime > _STALE_BUILD_S
        except FileNotFoundError:
            continue
        if stale:
            shutil.rmtree(build, ignore_errors=True)
    build = Path(tempfile.mkdtemp(prefix="build-", dir=target.parent))
    try:
        save_model(
            model,
            str(build / names.graph),
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=names.weights,
            size_threshold=1024,
        )
        sizes = {name: (build / name).stat().st_size for name in (names.weights, names.graph)}
        for name in sizes:
            (build / name).chmod(0o644)
            with (build / name).open("rb") as file:
                UnfinishedFile(build / name, file).move_to(target / name)
        with written_whole(target / names.sizes, mode=0o644) as file:
            file.write(json.dumps(sizes).encode())
        for former in target.glob("model-v1.*"):  # of earlier versions
            former.unlink(missing_ok=True)
    finally:
        shutil.rmtree(build, ignore_errors=True)


def _read_and_build(folder: Path, *, is_int8: bool) -> "ModelProto":
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    weights_file = model_file(folder, BERT_WEIGHTS)
    config = read_bert_config(folder)
    try:
        return build_graph(load_file(weights_file), config, is_int8=is_int8)
    except SafetensorError as error:
        raise EmbedderUnavailable(f"{weights_file} is not a safetensors file: {error}.") from error
    except KeyError as error:
        raise EmbedderUnavailable(f"{weights_file} has no tensor {error}: it is not a BERT encoder.") from error
