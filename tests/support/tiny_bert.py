"""A BERT sentence model of a few kilobytes with random weights, and BERT's forward pass in plain NumPy."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.options import EmbeddingOptions

LAYERS, HEADS, DIMENSIONS, INNER, POSITIONS = 2, 4, 32, 64, 40
MAX_SEQUENCE = 24
WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz.,?!",
    "the",
    "cat",
    "sat",
    "##s",
    "mat",
)

Array = NDArray[Any]


def write_tiny_bert(
    folder: Path, *, seed: int = 7, pooling: str = "mean", prefix: str = "", dimensions: int = DIMENSIONS
) -> Path:
    """A model folder as sentence-transformers writes it; the same seed gives the same weights."""
    (folder / "1_Pooling").mkdir(parents=True)
    _write_json(folder / "config.json", _config(dimensions))
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": MAX_SEQUENCE})
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in ("mean_tokens", "cls_token", "max_tokens")}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": dimensions, **modes})
    make_tokenizer().save(str(folder / "tokenizer.json"))
    weights = {f"{prefix}{name}": tensor for name, tensor in _weights(seed, dimensions).items()}
    save_file(weights, folder / "model.safetensors")
    return folder


def open_small_model(folder: Path, cache_folder: Path) -> LocalEmbedder:
    """The embedder of a folder whose model gives token vectors, with one thread."""
    options = EmbeddingOptions.from_settings()
    embedder = open_local(replace(options, model_path=folder, cache_folder=cache_folder, threads=1, dimensions=0))
    assert isinstance(embedder, LocalEmbedder)
    return embedder


def numpy_hidden_states(folder: Path, ids: list[int]) -> Array:
    """The last hidden states (t, dim) of one sequence, float64. Source: arXiv:1810.04805, arXiv:1706.03762."""
    config = json.loads((folder / "config.json").read_text())
    w = {name: tensor.astype(np.float64) for name, tensor in load_file(folder / "model.safetensors").items()}
    epsilon = config["layer_norm_eps"]

    def norm(values: Array, name: str) -> Array:
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        return np.asarray(scaled * w[f"{name}.weight"] + w[f"{name}.bias"])

    def dense(values: Array, name: str) -> Array:
        return np.asarray(values @ w[f"{name}.weight"].T + w[f"{name}.bias"])

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        block = f"encoder.layer.{layer}"
        query, key, value = (
            _heads(dense(x, f"{block}.attention.self.{name}"), config["num_attention_heads"])
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        context = (weights / weights.sum(-1, keepdims=True)) @ value
        context = context.transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(dense(context, f"{block}.attention.output.dense") + x, f"{block}.attention.output.LayerNorm")
        inner = _gelu(dense(x, f"{block}.intermediate.dense"))
        x = norm(dense(inner, f"{block}.output.dense") + x, f"{block}.output.LayerNorm")
    return x


def _heads(values: Array, count: int) -> Array:
    return values.reshape(len(values), count, -1).transpose(1, 0, 2)


def _gelu(values: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(values * 0.5 * (1 + erf(values / math.sqrt(2))))


def _config(dimensions: int) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": dimensions,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-12,
    }


def _weights(seed: int, dimensions: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)

    def tensor(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": tensor(len(WORDS), dimensions),
        "embeddings.position_embeddings.weight": tensor(POSITIONS, dimensions),
        "embeddings.token_type_embeddings.weight": tensor(2, dimensions),
    }
    normed = ["embeddings.LayerNorm"]
    dense: dict[str, tuple[int, int]] = {}
    for layer in range(LAYERS):
        block = f"encoder.layer.{layer}"
        dense |= {f"{block}.attention.self.{name}": (dimensions, dimensions) for name in ("query", "key", "value")}
        dense |= {
            f"{block}.attention.output.dense": (dimensions, dimensions),
            f"{block}.intermediate.dense": (INNER, dimensions),
            f"{block}.output.dense": (dimensions, INNER),
        }
        normed += [f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"]
    for name, shape in dense.items():
        weights |= {f"{name}.weight": tensor(*shape), f"{name}.bias": tensor(shape[0])}
    for name in normed:
        weights |= {f"{name}.weight": 1 + tensor(dimensions), f"{name}.bias": tensor(dimensions)}
    return weights


def make_tokenizer() -> Tokenizer:
    """A WordPiece tokenizer over `WORDS`, with [CLS] and [SEP]."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    tokenizer.add_special_tokens(list(WORDS[:5]))
    tokenizer.enable_truncation(5)  # as in real files: the embedder must not keep to it
    tokenizer.enable_padding(length=5)
    return tokenizer


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
