"""Writes a BERT encoder as a graph of fused ONNX Runtime operators, also with 8-bit weights.

The graph reads `input_ids` and `mask` (b, t) int32 and returns `hidden` (b, t, dim) float32, the last hidden states. It
is built once for given weights and stored as `<cache>/<sha256>/model-v2.onnx` with its weights in a second file, which
the processes of a machine share by memory mapping.

Source: com.microsoft operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convmemory.core.errors import EmbedderUnavailable, InvalidInput
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
from convmemory.embeddings.sentence_recipe import POOLING_FOLDER

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto


GRAPH_FILE = "model-v2.onnx"
WEIGHTS_FILE = "model-v2.weights"
SIZES_FILE = "model-v2.sizes.json"
"""The sizes in bytes of the other two, written last: a graph of other sizes is built again."""

_MICROSOFT = "com.microsoft"
_ONNX_OPSET = 17
_ONNX_IR = 10
_STALE_BUILD_S = 3600.0  # another process may still be building in a younger folder

KEPT_FILES = (
    "config.json",
    "tokenizer.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    f"{POOLING_FOLDER}/config.json",
)


def cached_graph(files: ModelFiles, cache_folder: Path, *, expected_sha256: str | None = None) -> Path:
    """Return the graph of a BERT's weights, built now if these weights were never built before.

    Several processes may build at once: each builds in a folder of its own and moves the result into place.

    Raises:
        EmbedderUnavailable: files are missing, are not the expected ones, or cannot be written.
    """
    model_file(files.folder, BERT_WEIGHTS)
    digest = weights_digest(files, cache_folder)
    if expected_sha256 and digest != expected_sha256:
        raise EmbedderUnavailable(
            f"{files.weights} is damaged or not the expected model (SHA-256 {digest}, expected "
            f"{expected_sha256}): run `{TO_INSTALL_MODEL}` to install it again."
        )
    target = cache_folder / digest
    try:
        sizes = json.loads((target / SIZES_FILE).read_bytes())
        is_whole = all((target / name).stat().st_size == sizes[name] for name in (WEIGHTS_FILE, GRAPH_FILE))
    except (OSError, ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        try:
            _build_into(target, files.folder)
        except OSError as error:
            raise EmbedderUnavailable(f"The model cannot be prepared in {target}: {error}.") from error
    return target / GRAPH_FILE


def build_graph(weights: dict[str, "NDArray[Any]"], config: BertConfig) -> "ModelProto":
    """Return the encoder as an ONNX model.

    Raises:
        KeyError: a tensor that BERT has is not among `weights`.
    """
    graph = _Graph(weights, config)
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
        inputs = [hidden, self._weight(f"{block}qkv", weights), self._weight(f"{block}qkv.bias", biases), "lengths"]
        self._node("Attention", inputs, f"{block}context", num_heads=self._config.heads)
        attended = self._project_and_add(f"{block}attention.output.", f"{block}context", hidden, f"{block}attended")

        dense = f"{block}intermediate.dense"
        self._node("MatMul", [attended, self._transposed(f"{dense}.weight")], f"{block}wide", domain="")
        self._node("BiasGelu", [f"{block}wide", self._tensor(f"{dense}.bias")], f"{block}active")
        return self._project_and_add(f"{block}output.", f"{block}active", attended, output)

    def model(self) -> "ModelProto":
        from onnx import TensorProto, helper

        inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["b", "t"]) for name in ("input_ids", "mask")]
        shape: list[str | int | None] = ["b", "t", self._config.dimensions]
        outputs = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self._nodes, "bert", inputs, outputs, self._initializers)
        opsets = [helper.make_opsetid("", _ONNX_OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_ONNX_IR)

    def _project_and_add(self, prefix: str, value: str, skip: str, output: str) -> str:
        self._node("MatMul", [value, self._transposed(f"{prefix}dense.weight")], f"{prefix}dense", domain="")
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

    def _transposed(self, name: str) -> str:
        return self._weight(name, self._tensors[name].T)

    def _weight(self, name: str, array: "NDArray[Any]") -> str:
        from onnx import numpy_helper

        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name))
        return name


def _build_into(target: Path, folder: Path) -> None:
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
        _write_model(build, folder)
        sizes = {name: (build / name).stat().st_size for name in (WEIGHTS_FILE, GRAPH_FILE)}
        for name in sizes:
            (build / name).chmod(0o644)
            with (build / name).open("rb") as file:
                UnfinishedFile(build / name, file).move_to(target / name)
        with written_whole(target / SIZES_FILE, mode=0o644) as file:
            file.write(json.dumps(sizes).encode())
        for former in target.glob("model-v1.*"):  # of earlier versions
            former.unlink(missing_ok=True)
    finally:
        shutil.rmtree(build, ignore_errors=True)


def _write_model(build: Path, folder: Path) -> None:
    from onnx import save_model
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    weights_file = model_file(folder, BERT_WEIGHTS)
    config = read_bert_config(folder)
    try:
        model = build_graph(load_file(weights_file), config)
    except SafetensorError as error:
        raise EmbedderUnavailable(f"{weights_file} is not a safetensors file: {error}.") from error
    except KeyError as error:
        raise EmbedderUnavailable(f"{weights_file} has no tensor {error}: it is not a BERT encoder.") from error
    save_model(
        model,
        str(build / GRAPH_FILE),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=WEIGHTS_FILE,
        size_threshold=1024,
    )


def write_int8(files: ModelFiles, target: Path, *, cache_folder: Path) -> None:
    """Write the int8 variant of a BERT's weights, a quarter of their size, into the new folder `target`.

    Weights are quantized by column, activations at run time (dynamic quantization). It is another model: vectors of the
    two must not be compared, and the folder's name distinguishes them.

    Raises:
        InvalidInput: the folder already exists, or the model is a graph.
        EmbedderUnavailable: a file of the model is missing, or the folder cannot be written.
    """
    if files.is_graph:
        raise InvalidInput(f"{files.weights} is a graph: many models come with a quantised one (model_quantized.onnx).")
    if target.exists():
        raise InvalidInput(f"{target} exists already: name a folder that does not.")
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = cached_graph(files, cache_folder)
    try:
        for name in KEPT_FILES:
            if (files.folder / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(files.folder / name, target / name)
        quantize_dynamic(
            str(graph),
            str(target / "model.onnx"),
            weight_type=QuantType.QInt8,
            per_channel=True,
            # With 7 bits no sum of two products overflows the 16 bits that plain AVX2 has for it: all processors agree.
            reduce_range=True,
            # Our graph does not declare the types of inner tensors.
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
    except OSError as error:
        raise EmbedderUnavailable(f"{error.filename or target}: {error.strerror}.") from error
