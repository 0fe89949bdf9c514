"""The pure parts of `manage.py reembed`: its progress line, its prices, and which model the options name."""

from pathlib import Path

import pytest
from pytest_django import Settings

from convmemory.core.errors import InvalidInput
from convmemory.embeddings.openai_models import price_usd
from convmemory.ops.reembed.progress import ReembedProgress, duration
from convmemory.ops.reembed.targets import checked_embedder, target_options
from tests.support.tiny_bert import write_tiny_bert

OPENAI_URL = "https://api.openai.com/v1"


def test_progress_line_tells_share_rate_and_time_left() -> None:
    moments = iter([0.0, 10.0])
    progress = ReembedProgress(400, lambda: next(moments))
    progress.add(100)
    assert progress.line() == "[######..................]  25%  100 of 400 items  10.0/s  30 s left"


def test_progress_never_passes_its_total() -> None:
    progress = ReembedProgress(10, lambda: 0.0)
    progress.add(25)
    assert progress.line().startswith("[########################] 100%  10 of 10 items")


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min")])
def test_durations_are_short_to_read(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_only_openai_itself_has_price() -> None:
    assert price_usd(model="text-embedding-3-small", base_url=OPENAI_URL, tokens=5_000_000) == pytest.approx(0.1)
    assert price_usd(model="text-embedding-3-small", base_url="http://localhost:8080/v1", tokens=1) is None
    assert price_usd(model="nomic-embed-text", base_url=OPENAI_URL, tokens=1) is None


def test_folder_is_local_model_and_known_name_is_openai(tmp_path: Path, settings: Settings) -> None:
    local = target_options(model=str(tmp_path))
    assert (local.provider, local.model_path) == ("local", tmp_path)
    remote = target_options(model="text-embedding-3-large", dimensions=256)
    assert (remote.provider, remote.model, remote.dimensions) == ("openai", "text-embedding-3-large", 256)
    settings.EMBEDDING_MODEL_PATH = str(tmp_path)
    assert target_options(model="all-MiniLM-L6-v2").model_path is None
    assert target_options().model_path == tmp_path


def test_key_stays_with_its_address(settings: Settings) -> None:
    settings.EMBEDDING_API_KEY = "secret"
    assert target_options(model="text-embedding-3-large").api_key == "secret"
    other = target_options(model="some", provider="openai", base_url="http://localhost:1/v1", dimensions=8)
    assert (other.base_url, other.api_key) == ("http://localhost:1/v1", "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"provider": "openai"}, "needs --model"),
        ({"provider": "openai", "model": "/tmp"}, "is a folder"),
        ({"provider": "local", "model": "nomic"}, "neither a folder nor"),
    ],
)
def test_options_that_contradict_each_other_say_what_to_do(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        target_options(**options)  # type: ignore[arg-type]


def test_dimensions_that_local_model_has_not_are_refused(tmp_path: Path) -> None:
    target = target_options(model=str(write_tiny_bert(tmp_path / "tiny")))
    with pytest.raises(InvalidInput, match=r"has 32 dimensions, not 64"):
        checked_embedder(target, dimensions=64)
    odd = target_options(token_model=str(write_tiny_bert(tmp_path / "odd", dimensions=36)))
    with pytest.raises(InvalidInput, match="multiple of 8"):
        checked_embedder(odd)
