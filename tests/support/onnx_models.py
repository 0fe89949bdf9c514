"""Sentence models of a few kilobytes as ONNX graphs, of the shapes that people download, and the same in plain NumPy.

Each has one attention layer with random weights. What differs is what differs between real models: the inputs that the
graph wants, the tokenizer, the pooling, and what the files of sentence-transformers add.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save_model
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from tests.support import tiny_bert

Array = NDArray[Any]

WIDTH, POSITIONS, MAX_SEQUENCE = 32, 48, 24
FAR = 1e9


@dataclass(frozen=True, slots=True)
class Shape:
    """The properties of one kind of model. `positions`: "mask" (counted), "padding" (as XLM-R), or "input"."""

    pooling: str
    tokenizer: str = "wordpiece"
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    positions: str = "mask"
    is_causal: bool = False
    outputs: tuple[str, ...] = ("last_hidden_state",)
    graph: str = "model.onnx"
    prompts: dict[str, str] = field(default_factory=dict)
    dense: tuple[tuple[int, str], ...] = ()
    pools_prompt: bool = True
    batch: str | int = "batch"

    @property
    def pad_id(self) -> int:
        return 1 if self.tokenizer == "unigram" else 0


SHAPES = {
    "BERT, mean": Shape("mean_tokens", inputs=("input_ids", "attention_mask", "token_type_ids")),
    "CLS, normalised": Shape("cls_token", graph="onnx/model_quantized.onnx", outputs=("token_embeddings",)),
    "XLM-R": Shape("mean_tokens", tokenizer="unigram", positions="padding"),
    "decoder, last token": Shape(
        "lasttoken",
        tokenizer="bytes",
        inputs=("input_ids", "attention_mask", "position_ids", "past_key_values.0.key"),
        positions="input",
        is_causal=True,
        prompts={"query": "find it:", "document": ""},
    ),
    "prompts, Dense": Shape(
        "mean_tokens",
        prompts={"query": "the cat: ", "document": "a mat: ", "other": "no"},
        dense=((48, "Identity"), (40, "Tanh")),
    ),
}
"""The five shapes of the contract."""


def write_model(folder: Path, shape: Shape, *, seed: int = 5) -> Path:
    """A model folder as sentence-transformers writes it, with a graph; the same seed gives the same weights."""
    weights = weights_of(seed)
    graph = folder / shape.graph
    graph.parent.mkdir(parents=True)
    save_model(_graph(weights, shape), str(graph))
    tokenizer_of(shape).save(str(folder / "tokenizer.json"))
    _write(folder / "config.json", {"model_type": "small", "pad_token_id": shape.pad_id})
    _write(folder / "sentence_bert_config.json", {"max_seq_length": MAX_SEQUENCE})
    _write(folder / "config_sentence_transformers.json", {"prompts": shape.prompts, "default_prompt_name": None})
    _write_modules(folder, shape, seed)
    return folder


def reference_vector(folder: Path, shape: Shape, text: str, *, prompt: str = "", seed: int = 5) -> Array:
    """The vector (dim,) of one text, float64, by the definition: alone, so that nothing is padded."""
    tokenizer = whole_tokenizer(shape)
    tokenizer.enable_truncation(MAX_SEQUENCE)
    ids = tokenizer.encode(prompt + text).ids
    states = reference_states(ids, shape, seed=seed)
    if not shape.pools_prompt:
        states = states[len(tokenizer.encode(prompt).ids) - 1 :]  # without the [SEP] that a prompt alone ends in
    vector = {"mean_tokens": states.mean(axis=0), "cls_token": states[0], "lasttoken": states[-1]}[shape.pooling]
    for (weight, bias), (_, activation) in zip(_dense(shape, seed), shape.dense, strict=True):
        vector = weight @ vector + bias
        vector = np.tanh(vector) if activation == "Tanh" else vector
    return np.asarray(vector / np.linalg.norm(vector))


def reference_states(ids: list[int], shape: Shape, *, seed: int = 5) -> Array:
    """The states (t, width) of one sequence, float64."""
    w = {name: tensor.astype(np.float64) for name, tensor in weights_of(seed).items()}
    first = 1 + shape.pad_id if shape.positions == "padding" else 0
    x = w["words"][ids] + w["positions"][first : first + len(ids)]
    if "token_type_ids" in shape.inputs:
        x = x + w["types"][0]
    scores = (x @ w["query"]) @ (x @ w["key"]).T / np.sqrt(WIDTH)
    if shape.is_causal:
        scores = np.where(np.tri(len(ids), dtype=bool), scores, -FAR)
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(x + chances / chances.sum(-1, keepdims=True) @ (x @ w["value"]))


def weights_of(seed: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    shapes = {"words": (320, WIDTH), "positions": (POSITIONS, WIDTH), "types": (2, WIDTH)}
    shapes |= dict.fromkeys(("query", "key", "value"), (WIDTH, WIDTH))
    return {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def tokenizer_of(shape: Shape) -> Tokenizer:
    """A tokenizer of the kind that the shape names."""
    return {"wordpiece": tiny_bert.make_tokenizer, "unigram": _unigram, "bytes": _bytes}[shape.tokenizer]()


def whole_tokenizer(shape: Shape) -> Tokenizer:
    """The same without the cutting and the padding that files ask for."""
    tokenizer = tokenizer_of(shape)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _unigram() -> Tokenizer:
    """As XLM-R's: pieces with "▁" for the space before them, `<s>` and `</s>` around, `<pad>` is 1."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁the", "▁cat", "▁mat", "▁sat", *"abcdefghijklmnopqrstuvwxyz.,?!"]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(pieces[:4])
    return tokenizer


def _bytes() -> Tokenizer:
    """As Qwen's: bytes with merges, nothing before a text and one token after it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(":", "c"), ("c", "a"), ("ca", "t"), ("Ġ", "cat"), ("t", "h"), ("th", "e"), ("Ġ", "m")]
    words = [*letters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    end = [("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))]
    after = processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=end)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), after])
    return tokenizer


def _graph(weights: dict[str, NDArray[np.float32]], shape: Shape) -> Any:
    nodes = _Nodes()
    x = nodes.add("Gather", "words", "input_ids")
    positions = _positions(nodes, shape)
    x = nodes.add("Add", x, nodes.add("Gather", "positions", positions))
    if "token_type_ids" in shape.inputs:
        x = nodes.add("Add", x, nodes.add("Gather", "types", "token_type_ids"))
    query, key, value = (nodes.add("MatMul", x, name) for name in ("query", "key", "value"))
    if "past_key_values.0.key" in shape.inputs:
        past = nodes.add("Squeeze", "past_key_values.0.key", "one")
        key, value = (nodes.add("Concat", past, now, axis=1) for now in (key, value))
    scores = nodes.add("MatMul", query, nodes.add("Transpose", key, perm=[0, 2, 1]))
    scores = nodes.add("Div", scores, "root")
    seen = nodes.add("Unsqueeze", nodes.add("Cast", "attention_mask", to=TensorProto.FLOAT), "one")
    scores = nodes.add("Add", scores, nodes.add("Mul", nodes.add("Sub", seen, "unit"), "far"))
    if shape.is_causal:
        later = nodes.add("Greater", nodes.add("Unsqueeze", positions, "one"), nodes.add("Unsqueeze", positions, "two"))
        hidden = nodes.add("Mul", nodes.add("Cast", later, to=TensorProto.FLOAT), "far")
        scores = nodes.add("Sub", scores, hidden)
    mixed = nodes.add("MatMul", nodes.add("Softmax", scores, axis=-1), value)
    states = nodes.add("Add", x, mixed)
    for name in shape.outputs:
        if name == "sentence_embedding":
            nodes.add("Gather", states, "zero", output=name, axis=1)
        else:
            nodes.add("Identity", states, output=name)
    return _model(nodes.made, weights, shape)


def _positions(nodes: "_Nodes", shape: Shape) -> str:
    if shape.positions == "input":
        return "position_ids"
    if shape.positions == "mask":
        return nodes.add("Sub", nodes.add("CumSum", "attention_mask", "one"), "one")
    real = nodes.add("Cast", nodes.add("Not", nodes.add("Equal", "input_ids", "pad")), to=TensorProto.INT64)
    counted = nodes.add("Mul", nodes.add("CumSum", real, "one"), real)
    return nodes.add("Add", counted, "pad")


class _Nodes:
    """Nodes of a graph; each gets an output of its own."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"value{len(self.made)}"
        self.made.append(helper.make_node(kind, inputs, [output], **attributes))
        return output


def _model(nodes: list[Any], weights: dict[str, NDArray[np.float32]], shape: Shape) -> Any:
    constants: dict[str, Array] = {
        "zero": np.array(0, np.int64),
        "one": np.array([1], np.int64),
        "two": np.array([2], np.int64),
        "pad": np.array(shape.pad_id, np.int64),
        "unit": np.array(1, np.float32),
        "far": np.array(FAR, np.float32),
        "root": np.array(np.sqrt(WIDTH), np.float32),
    }
    sizes: dict[str, list[str | int | None]] = {"past_key_values.0.key": ["batch", 1, "past", WIDTH]}
    inputs = [
        helper.make_tensor_value_info(
            name,
            TensorProto.FLOAT if name.startswith("past") else TensorProto.INT64,
            sizes.get(name, [shape.batch, "length"]),
        )
        for name in shape.inputs
    ]
    vector: list[str | int | None] = ["batch", WIDTH]
    whole: list[str | int | None] = ["batch", "length", WIDTH]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, vector if name == "sentence_embedding" else whole)
        for name in shape.outputs
    ]
    used = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(value, name) for name, value in {**weights, **constants}.items() if name in used]
    graph = helper.make_graph(nodes, "small", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def _write_modules(folder: Path, shape: Shape, seed: int) -> None:
    kinds = ["Transformer", "Pooling", *("Dense" for _ in shape.dense), "Normalize"]
    places = [f"{number}_{kind}" if number else "" for number, kind in enumerate(kinds)]
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, place) in enumerate(zip(kinds, places, strict=True))
    ]
    _write(folder / "modules.json", modules)
    modes = {f"pooling_mode_{name}": name == shape.pooling for name in ("cls_token", "mean_tokens", "lasttoken")}
    pooling = {"word_embedding_dimension": WIDTH, **modes, "include_prompt": shape.pools_prompt}
    _write(folder / "1_Pooling" / "config.json", pooling)
    for place, (weight, bias), (_, activation) in zip(places[2:], _dense(shape, seed), shape.dense, strict=False):
        kind = "linear.Identity" if activation == "Identity" else f"activation.{activation}"
        _write(folder / place / "config.json", {"activation_function": f"torch.nn.modules.{kind}"})
        save_file({"linear.weight": weight, "linear.bias": bias}, folder / place / "model.safetensors")


def _dense(shape: Shape, seed: int) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    random = np.random.default_rng(seed + 1)
    layers, width = [], WIDTH
    for size, _ in shape.dense:
        weight = random.normal(0, 0.3, (size, width)).astype(np.float32)
        layers.append((weight, random.normal(0, 0.3, size).astype(np.float32)))
        width = size
    return layers


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
