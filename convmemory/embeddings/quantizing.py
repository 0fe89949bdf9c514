"""An int8 variant of a BERT model: a separate folder with 8-bit weights, a quarter of their size.

Weights are quantized by column, activations at run time (dynamic quantization). It is another model: vectors of the two
must not be compared, and the folder's name distinguishes them.
"""

import shutil
from pathlib import Path

from convmemory.core.errors import EmbedderUnavailable, InvalidInput
from convmemory.embeddings.model_folder import ModelFiles
from convmemory.embeddings.onnx_graph import cached_graph
from convmemory.embeddings.sentence_recipe import POOLING_FOLDER

KEPT_FILES = (
    "config.json",
    "tokenizer.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    f"{POOLING_FOLDER}/config.json",
)


def write_int8(files: ModelFiles, target: Path, *, cache_folder: Path) -> None:
    """Write the int8 variant of a BERT's weights into the new folder `target`.

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
            # Our graph does not declare the types of inner tensors.
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )
    except OSError as error:
        raise EmbedderUnavailable(f"{error.filename or target}: {error.strerror}.") from error
