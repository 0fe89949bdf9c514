"""The shape of a BERT encoder, from its `config.json`."""

from dataclasses import dataclass
from pathlib import Path

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.model_folder import model_file, read_json


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
