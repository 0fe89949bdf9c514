"""Downloads a sentence model from a model hub (huggingface.co) into a folder that `find_model` can open.

Only the files that are read here are fetched, at one commit of the repository; an interrupted download continues. The
hub's SHA-256 of each large file is checked, and the name of the model holds the digest of its weights from then on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from convmemory.core.errors import EmbedderUnavailable, InvalidInput
from convmemory.embeddings.model_folder import (
    BERT_WEIGHTS,
    GRAPH_FOLDER,
    GRAPH_NAMES,
    GRAPH_SUFFIX,
    bert_problems,
    fresh_digest,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB_URL = "https://huggingface.co"
HUB_TIMEOUT_S = 30.0
DOWNLOADED = "downloaded"  # in the data folder: a folder for each downloaded model

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_SMALL_FILES = re.compile(
    r"config\.json|tokenizer\.json|modules\.json|sentence_\w+_config\.json|config_sentence_transformers\.json"
    r"|\d_Pooling/config\.json|\d_Dense/(config\.json|model\.safetensors)"
)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. `sha256` is empty if the hub stores it in Git, which names it by another digest."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model at one `commit`. `licence` is empty if its author names none; `files` are those that are fetched."""

    name: str
    commit: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def find_on_hub(name: str, *, hub_url: str = HUB_URL) -> HubModel:
    """Return a model by its name on the hub, `organisation/name`. Fetches its `config.json` alone.

    Raises:
        InvalidInput: the name is not of that form.
        EmbedderUnavailable: the hub does not answer, has no such model, or the model has no file that can be run.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name[:100]!r} is not the name of a model: write it as ORGANISATION/NAME.")
    api = _api(hub_url)
    with _explained(name, hub_url):
        info = api.model_info(name, files_metadata=True, timeout=HUB_TIMEOUT_S)
    files = {
        sibling.rfilename: HubFile(
            sibling.rfilename, sibling.size or 0, (sibling.lfs.sha256 or "") if sibling.lfs else ""
        )
        for sibling in info.siblings or ()
    }
    if "config.json" not in files or not info.sha:
        raise EmbedderUnavailable(f"{name} has no config.json: it is no model that can be run here.")
    with TemporaryDirectory() as folder:  # it decides which weights can be run
        _fetch(api, HubModel(name, info.sha, "", (files["config.json"],)), Path(folder))
        weights = _weights(name, files, Path(folder))
    small = [file for path, file in files.items() if _SMALL_FILES.fullmatch(path)]
    licence: Any = getattr(info.card_data, "license", "") or ""
    return HubModel(name, info.sha, str(licence)[:100], (*small, *weights))


def download(model: HubModel, folder: Path, *, hub_url: str = HUB_URL) -> None:
    """Download the files of a model into `folder`; a second call continues after an interruption.

    Raises:
        EmbedderUnavailable: the hub does not answer, or a file differs from what the hub says of it.
    """
    _fetch(_api(hub_url), model, folder)
    for file in model.files:
        path = folder / file.name
        if file.sha256 and fresh_digest([path]) != file.sha256:
            path.unlink()
            raise EmbedderUnavailable(
                f"{path} does not have the SHA-256 that the hub names ({file.sha256}): it is deleted; run the command "
                "again."
            )
    rmtree(folder / ".cache", ignore_errors=True)  # parts of unfinished files, which are none any more


def _weights(name: str, files: dict[str, HubFile], folder: Path) -> list[HubFile]:
    """Return the weights that can be run: a BERT's, or else the most exact graph with its separate tensors."""
    if BERT_WEIGHTS in files and not bert_problems(folder):
        return [files[BERT_WEIGHTS]]
    for stem in GRAPH_NAMES:
        for path in (f"{stem}{GRAPH_SUFFIX}", f"{GRAPH_FOLDER}/{stem}{GRAPH_SUFFIX}"):
            if path in files:
                return [file for other, file in files.items() if other == path or other.startswith(f"{path}_")]
    raise EmbedderUnavailable(
        f"{name} has neither a BERT's {BERT_WEIGHTS} nor an ONNX graph: look on the hub for a repository of the same "
        "model with a folder `onnx`, or export it with `optimum-cli export onnx`."
    )


def _fetch(api: "HfApi", model: HubModel, folder: Path) -> None:
    with _explained(model.name, str(api.endpoint)):
        for file in model.files:
            api.hf_hub_download(
                model.name, file.name, revision=model.commit, local_dir=folder, etag_timeout=HUB_TIMEOUT_S
            )


def _api(hub_url: str) -> "HfApi":
    from huggingface_hub import HfApi

    # The user's own token for gated models goes to the hub that it belongs to alone.
    return HfApi(endpoint=hub_url, token=None if hub_url == HUB_URL else False)


@contextmanager
def _explained(name: str, hub_url: str) -> Iterator[None]:
    """Convert errors of the library to ours."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    try:
        yield
    except GatedRepoError as error:
        raise EmbedderUnavailable(
            f"{name} is given only to users who accepted its terms on {hub_url}: accept them and set HF_TOKEN."
        ) from error
    except RepositoryNotFoundError as error:
        raise EmbedderUnavailable(f"{hub_url} has no model {name}: check the name.") from error
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "an error"
        raise EmbedderUnavailable(f"{hub_url} answered {status} for {name}: try later; it continues there.") from error
    except (HTTPError, OSError, ValueError) as error:
        raise EmbedderUnavailable(
            f"{name} cannot be downloaded from {hub_url}: {str(error)[:200].rstrip('.')}. "
            "Run the command again to continue."
        ) from error
