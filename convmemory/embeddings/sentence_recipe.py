"""The steps from a text to its vector around the network itself, as a sentence model's folder describes them.

Reads the files of sentence-transformers: `modules.json`, the folders of its Pooling and Dense modules,
`config_sentence_transformers.json` (prompts) and `sentence_*_config.json` (length).

Source: https://sbert.net/docs/sentence_transformer/usage/custom_models.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.model_folder import fresh_digest, model_file, read_any_json, read_json

Pooling = Literal["mean", "cls", "last"]

POOLING_FOLDER = "1_Pooling"
DENSE_WEIGHTS = "model.safetensors"
ACTIVATIONS = ("Identity", "Tanh")
QUERY_PROMPTS = ("query",)
PASSAGE_PROMPTS = ("document", "passage", "corpus")

_POOLINGS: dict[str, Pooling] = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "last"}
_POOLINGS |= {"mean": "mean", "cls": "cls", "last": "last"}
_KNOWN_MODULES = frozenset({"Transformer", "Pooling", "Dense", "Normalize", "Dropout"})


@dataclass(frozen=True, slots=True)
class DenseFile:
    """A layer after the pooling: `activation(weight @ vector + bias)`."""

    weights: Path
    activation: str


@dataclass(frozen=True, slots=True)
class SentenceRecipe:
    """The steps from a text to its vector. `pooling` is None and `max_sequence` 0 if no file names them.

    `max_sequence` includes special tokens and prompts. If `pools_prompt` is False the mean excludes the tokens of the
    prompt.
    """

    pooling: Pooling | None
    pools_prompt: bool
    dense: tuple[DenseFile, ...]
    max_sequence: int
    query_prompt: str
    passage_prompt: str

    @property
    def is_plain(self) -> bool:
        """True without a prompt before the texts and without a step after the pooling."""
        return not (self.dense or self.query_prompt or self.passage_prompt)

    def without_prompts(self) -> "SentenceRecipe":
        return replace(self, query_prompt="", passage_prompt="")

    def digest(self) -> str:
        """Return the SHA-256 in hex of all that affects a vector, except the length at which texts are cut."""
        dense = [(fresh_digest([layer.weights]), layer.activation) for layer in self.dense]
        facts = (self.pooling, self.pools_prompt, dense, self.query_prompt, self.passage_prompt)
        return sha256(repr(facts).encode()).hexdigest()


def read_recipe(folder: Path) -> SentenceRecipe:
    """Return the recipe in the folder's files.

    Raises:
        EmbedderUnavailable: a file is broken, or requires something that is not supported.
    """
    # The folders of the modules by kind, in order.
    path = folder / "modules.json"
    modules: dict[str, list[str]] = {}
    try:
        for module in read_any_json(path, []):
            modules.setdefault(str(module["type"]).rsplit(".", 1)[-1], []).append(str(module.get("path", "")))
    except (KeyError, TypeError, AttributeError) as error:
        raise EmbedderUnavailable(f"{path} is not a list of modules.") from error
    if unknown := sorted(set(modules) - _KNOWN_MODULES):
        raise EmbedderUnavailable(
            f"The model in {folder} has parts that cannot be run here: module {', '.join(unknown)} is not supported. "
            "Serve it with an OpenAI-compatible server and set EMBEDDING_PROVIDER=openai."
        )
    # The pooling, None if no file names it, and whether it includes the prompt's tokens.
    pooling_folder = folder / modules.get("Pooling", [POOLING_FOLDER])[0]
    config = read_json(pooling_folder / "config.json")
    chosen = [name.removeprefix("pooling_mode_") for name, on in config.items() if on is True]
    modes = [name for name in chosen if f"pooling_mode_{name}" in config]
    if isinstance(config.get("pooling_mode"), str):
        modes = [config["pooling_mode"]]
    if len(modes) > 1 or (modes and modes[0] not in _POOLINGS):
        raise EmbedderUnavailable(
            f"{pooling_folder / 'config.json'} pools by {', '.join(modes)}: only the mean, the first token (CLS) or "
            "the last token can be run here. Serve the model with an OpenAI-compatible server instead."
        )
    pooling, pools_prompt = (_POOLINGS[modes[0]] if modes else None), config.get("include_prompt", True) is not False
    # The prompts for queries and for passages, chosen like `encode_query` and `encode_document` of the library.
    path = folder / "config_sentence_transformers.json"
    config = read_json(path)
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise EmbedderUnavailable(f"{path}: `prompts` must be an object of texts.")
    default = prompts.get(config.get("default_prompt_name") or "", "")
    query, passage = _first(prompts, QUERY_PROMPTS, default), _first(prompts, PASSAGE_PROMPTS, default)
    return SentenceRecipe(
        pooling=pooling,
        pools_prompt=pools_prompt,
        dense=tuple(_dense(folder / subfolder) for subfolder in modules.get("Dense", [])),
        max_sequence=_max_sequence(folder),
        query_prompt=query,
        passage_prompt=passage,
    )


def _dense(folder: Path) -> DenseFile:
    activation = str(read_json(model_file(folder, "config.json")).get("activation_function", "Tanh"))
    name = activation.rsplit(".", 1)[-1].removesuffix("()")
    if name not in ACTIVATIONS:
        raise EmbedderUnavailable(f"{folder / 'config.json'}: the activation {activation} cannot be run here.")
    weights = folder / DENSE_WEIGHTS
    if not weights.is_file():
        raise EmbedderUnavailable(
            f"{weights} is missing: a Dense layer is read from safetensors alone. Where the folder has a "
            "pytorch_model.bin, load and save the model once with sentence-transformers."
        )
    return DenseFile(weights, name)


def _first(prompts: Mapping[str, str], names: tuple[str, ...], default: str) -> str:
    return next((prompts[name] for name in names if name in prompts), default)


def _max_sequence(folder: Path) -> int:
    """Return the longest sequence that a file of sentence-transformers allows; 0 if none does."""
    for path in sorted(folder.glob("sentence_*_config.json")):
        length: Any = read_json(path).get("max_seq_length")
        if length is not None:
            try:
                return max(0, int(length))
            except (TypeError, ValueError) as error:
                raise EmbedderUnavailable(f"{path}: max_seq_length is {length!r}, which is no number.") from error
    return 0
