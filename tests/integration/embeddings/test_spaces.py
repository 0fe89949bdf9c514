"""The active space, the embedder of a space, and the check that compares them with the settings."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, connection, transaction
from django.forms import model_to_dict
from numpy.testing import assert_allclose, assert_array_equal
from pytest_django import Settings

from convmemory.core.errors import EmbedderUnavailable, InvalidInput, SettingError
from convmemory.embeddings import spaces
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.embeddings.spaces import check_active_space
from convmemory.embeddings.token_model import PairedEmbedder
from tests.support.patience import ANSWER_S
from tests.support.remembering import RememberingEmbedder
from tests.support.tiny_bert import open_small_model, write_tiny_bert


@pytest.fixture(autouse=True)
def _own_embedders() -> Iterator[None]:
    yield
    for embedder in spaces._opened.by_options.values():
        if isinstance(embedder, OpenAIEmbedder):
            embedder.close()
    spaces._opened.reset()


def name_openai(settings: Settings, model: str = "text-embedding-3-small") -> None:
    settings.EMBEDDING_PROVIDER = "openai"
    settings.EMBEDDING_MODEL = model


@pytest.mark.django_db
def test_first_caller_makes_active_space() -> None:
    space = spaces.active_space()
    assert (space.provider, space.model, space.dimensions, space.recipe_version) == (
        "local",
        "all-MiniLM-L6-v2-int8",
        384,
        spaces.RECIPE_VERSION,
    )
    assert space.is_active
    assert spaces.active_space() == space


@pytest.mark.django_db
def test_search_reads_same_space_by_one_query(django_assert_num_queries: Any) -> None:
    EmbeddingSpace.objects.update(is_active=False)  # of another test, maybe
    assert spaces.read_active_space() is None
    space = spaces.active_space()
    EmbeddingSpace.objects.create(provider="local", model="another", dimensions=8, recipe_version=1, is_building=True)
    with django_assert_num_queries(1), spaces.one_active_space():
        read = spaces.read_active_space()
        assert spaces.read_active_space() is read
        assert read is not None
        assert model_to_dict(read) == model_to_dict(space)
        assert (read.created_at, read.retired_at) == (space.created_at, space.retired_at)


@pytest.mark.django_db(transaction=True)
def test_concurrent_first_callers_get_same_space() -> None:
    def ask(_: int) -> int:
        try:
            return spaces.active_space().pk
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        spaces_seen = set(pool.map(ask, range(6)))
    assert len(spaces_seen) == 1
    assert EmbeddingSpace.objects.count() == 1


@pytest.mark.django_db
def test_other_settings_leave_active_space_alone(settings: Settings) -> None:
    space = spaces.active_space()
    name_openai(settings)
    assert spaces.active_space() == space
    assert isinstance(spaces.embedder_for(space), LocalEmbedder)
    assert isinstance(spaces.open_embedder(EmbeddingOptions.from_settings()), OpenAIEmbedder)


@pytest.mark.django_db
def test_two_spaces_cannot_be_active() -> None:
    space = spaces.active_space()
    with pytest.raises(IntegrityError), transaction.atomic():
        EmbeddingSpace.objects.create(provider="local", model="b", dimensions=8, recipe_version=1, is_active=True)
    other = EmbeddingSpace.objects.create(provider="local", model="b", dimensions=8, recipe_version=1)
    spaces.activate_space(other)
    assert list(EmbeddingSpace.objects.filter(is_active=True)) == [other]
    assert spaces.active_space() == other != space


@pytest.mark.django_db
def test_embedder_is_made_once_and_follows_space(settings: Settings, tmp_path: Path) -> None:
    local_space = spaces.active_space()
    assert spaces.embedder_for(local_space) is spaces.open_embedder(EmbeddingOptions.from_settings())
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "tiny"))
    tiny_space = spaces.configured_space()
    assert tiny_space.model.startswith("tiny@")
    tiny = spaces.embedder_for(tiny_space)
    assert isinstance(tiny, PairedEmbedder)
    assert tiny.sentences is spaces.open_embedder(EmbeddingOptions.from_settings())
    assert tiny.tokens is spaces.embedder_for(local_space)
    assert spaces.embedder_for(local_space).card.model == "all-MiniLM-L6-v2-int8"
    settings.EMBEDDING_MODEL_PATH = ""
    assert spaces.embedder_for(tiny_space).card.model == tiny_space.model  # from where it was built
    tiny_space.location = ""
    with pytest.raises(EmbedderUnavailable, match=r"Set the EMBEDDING_ variables back, or run `manage.py reembed`"):
        spaces.embedder_for(tiny_space)


@pytest.mark.django_db
def test_space_of_earlier_version_keeps_its_own_uncentred_tokens(settings: Settings, tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    settings.EMBEDDING_MODEL_PATH = str(folder)
    key = spaces.space_key(EmbeddingOptions.from_settings())
    token_fields = {"token_model": key["model"], "token_dimensions": key["dimensions"], "token_location": str(folder)}
    space = EmbeddingSpace.objects.create(**key | token_fields, location=str(folder), is_active=True)
    plain = open_small_model(folder, tmp_path / "cache").embed_query_tokens("the cat sat")
    embedding = query_embedding(space, "the cat sat", archive_id=1)
    np.testing.assert_allclose(embedding.token_vectors, plain.token_vectors, atol=1e-6)
    [warning] = check_active_space(None, databases=["default"])
    assert warning.hint == "Run `manage.py reembed` to change over."


@pytest.mark.django_db
def test_remote_space_keeps_its_model_and_dimensions(settings: Settings) -> None:
    name_openai(settings)
    settings.EMBEDDING_DIMENSIONS = 512
    space = spaces.configured_space()
    name_openai(settings, "text-embedding-3-large")
    settings.EMBEDDING_DIMENSIONS = 0
    card = spaces.embedder_for(space).card
    assert (card.model, card.dimensions) == ("text-embedding-3-small", 512)


@pytest.mark.django_db
def test_key_goes_only_to_address_it_was_set_with(settings: Settings) -> None:
    name_openai(settings)
    settings.EMBEDDING_API_KEY = "secret"
    space = spaces.configured_space()
    settings.EMBEDDING_MODEL = "text-embedding-3-large"
    [here] = spaces._ways_to(space, EmbeddingOptions.from_settings())
    assert (here.base_url, here.api_key, here.model) == (space.location, "secret", "text-embedding-3-small")
    settings.EMBEDDING_BASE_URL = "http://elsewhere.test/v1"
    [there] = spaces._ways_to(space, EmbeddingOptions.from_settings())
    assert (there.base_url, there.api_key) == (space.location, "")


@pytest.mark.django_db
def test_only_one_space_is_built_at_time(settings: Settings) -> None:
    active = spaces.active_space()
    first, second = (
        EmbeddingSpace.objects.create(provider="local", model=name, dimensions=8, recipe_version=1) for name in "ab"
    )
    with pytest.raises(InvalidInput, match="is the active space"):
        spaces.start_building(active)
    spaces.start_building(first)
    assert spaces.building_space() == first
    with pytest.raises(InvalidInput, match=r"reembed --cancel"):
        spaces.start_building(second)
    spaces.activate_space(first)
    assert (spaces.building_space(), spaces.active_space()) == (None, first)
    active.refresh_from_db()
    assert active.retired_at
    spaces.start_building(second)
    spaces.stop_building(second)
    assert spaces.building_space() is None


def test_unknown_provider_error_names_known_ones(settings: Settings) -> None:
    settings.EMBEDDING_PROVIDER = "psychic"
    with pytest.raises(SettingError, match="EMBEDDING_PROVIDER='psychic' is unknown: use local or openai"):
        spaces.open_embedder(EmbeddingOptions.from_settings())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_makes_its_own_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "open_local", open_local)  # nothing else keeps the model, which has threads
    spaces.open_embedder(EmbeddingOptions.from_settings()).embed_query("a text")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(len(spaces._opened.by_options)))
    child.start()
    child.join(ANSWER_S)
    child.kill()
    assert child.exitcode == 0
    assert queue.get() == 0
    assert len(spaces._opened.by_options) == 1


def test_repr_of_embedding_options_hides_key() -> None:
    options = EmbeddingOptions.from_settings()
    assert "api_key" not in repr(options)


def ids() -> list[str | None]:
    return [message.id for message in check_active_space(None, databases=["default"])]


@pytest.mark.django_db
def test_check_asks_for_reembed_when_settings_name_another_model(settings: Settings) -> None:
    assert ids() == []
    spaces.active_space()
    assert ids() == []
    name_openai(settings)
    [warning] = check_active_space(None, databases=["default"])
    assert warning.id == "embeddings.W001"
    assert "openai/text-embedding-3-small, 1536 dimensions, recipe 1, tokens of all-MiniLM-L6-v2-int8" in warning.msg
    assert "manage.py reembed" in str(warning.hint)


@pytest.mark.django_db
def test_check_asks_for_reembed_after_change_of_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces.active_space()
    monkeypatch.setattr(spaces, "RECIPE_VERSION", spaces.RECIPE_VERSION + 1)
    assert ids() == ["embeddings.W001"]


@pytest.mark.django_db
def test_check_reports_impossible_settings(settings: Settings) -> None:
    name_openai(settings, "unknown-model")
    assert ids() == ["embeddings.E001"]
    settings.EMBEDDING_PROVIDER = "local"
    assert ids() == ["embeddings.W002"]


def test_check_leaves_database_alone_unless_asked() -> None:
    assert check_active_space(None, databases=None) == []
    assert check_active_space(None, databases=["other"]) == []


@pytest.mark.django_db
def test_tests_take_known_texts_from_memory_with_vectors_of_model() -> None:
    embedder = spaces.embedder_for(spaces.active_space())
    assert isinstance(embedder, RememberingEmbedder)
    texts = ["a wherry is a barge", "7", "a ketch is a yacht", "a wherry is a barge"]
    first = embedder.embed_passages(texts)
    assert_allclose(first, open_local(EmbeddingOptions.from_settings()).embed_passages(texts), atol=1e-5)
    assert_array_equal(embedder.embed_passages(texts), first)
    assert_array_equal(embedder.embed_query(texts[0]), first[3])
