"""The default model: where its files lie, and their download where its package is not installed.

The package depends on PyTorch, which is not used here: a checkout and the image install it without its dependencies,
and pip cannot do that for an installed package. There, the first start downloads the same weights from the hub.
"""

import importlib.util
from pathlib import Path

from convmemory.core.config import config
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.program import COMMAND
from convmemory.embeddings import hub
from convmemory.embeddings.model_folder import BERT_WEIGHTS, DEFAULT_PACKAGE, DEFAULT_SHA256, EXACT_MODEL

HUB_NAME = f"sentence-transformers/{EXACT_MODEL}"


def default_folder() -> Path:
    """Return the folder of the model: in its installed package, which is not imported, or else downloaded.

    Raises:
        EmbedderUnavailable: there is neither.
    """
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    if spec and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))) / "model"
    if (downloaded_folder() / BERT_WEIGHTS).is_file():
        return downloaded_folder()
    raise EmbedderUnavailable(
        f"The weights of {EXACT_MODEL} are missing: `{COMMAND} up` downloads them, and `make setup` installs them in "
        "a checkout. Or set EMBEDDING_MODEL_PATH to a folder that holds a sentence model."
    )


def downloaded_folder() -> Path:
    """Return the folder into which `download_default` and `manage.py models --get` download the model."""
    folder: Path = config.var_dir / hub.DOWNLOADED / EXACT_MODEL
    return folder


def download_default() -> None:
    """Download the model from the hub of the settings; its weights are the last file.

    Raises:
        EmbedderUnavailable: the hub does not answer, or has other weights than those of this version.
    """
    model = hub.find_on_hub(HUB_NAME, hub_url=config.hf_endpoint)
    if DEFAULT_SHA256 not in {file.sha256 for file in model.files if file.name == BERT_WEIGHTS}:
        raise EmbedderUnavailable(f"{config.hf_endpoint} has other weights of {HUB_NAME} than this version uses.")
    hub.download(model, downloaded_folder(), hub_url=config.hf_endpoint)
