"""Same text, one embedding: the vector cache against the real database."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.core.text import Span
from convmemory.embeddings import cache
from convmemory.embeddings.cache import embed_cached, query_embedding, query_vector
from convmemory.embeddings.embedder import ModelCard, TextsRefused, Vector, unit_rows
from convmemory.embeddings.models import CachedVector, EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from tests.support.openai_server import vector_of

pytestmark = pytest.mark.django_db
DIMENSIONS = 12
ADA, BOB = 7_001, 7_002


class Scripted:
    """An embedder that notes what it is asked, refuses "poison" and can be switched off."""

    card = ModelCard("local", "scripted", DIMENSIONS, 100, "", token_dimensions=0)

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.works_for = 1000

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_spans(self, text: str) -> list[Span]:
        raise NotImplementedError

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        if not self.works_for:
            raise EmbedderUnavailable("switched off")
        self.works_for -= 1
        self.asked.append(list(texts))
        vectors = unit_rows(np.array([vector_of(text, DIMENSIONS) for text in texts]))
        errors = {index: "bad text" for index, text in enumerate(texts) if text == "poison"}
        if errors:
            raise TextsRefused(errors, vectors)
        return vectors

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_passages([text])[0]
        return vector


@pytest.fixture(autouse=True)
def owners() -> None:
    User.objects.bulk_create([User(pk=ADA, username="ada"), User(pk=BOB, username="bob")])


@pytest.fixture
def space() -> EmbeddingSpace:
    return EmbeddingSpace.objects.create(provider="local", model="scripted", dimensions=DIMENSIONS, recipe_version=1)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    scripted = Scripted()
    monkeypatch.setattr(cache, "embedder_for", lambda space: scripted)
    cache._questions.clear()
    yield scripted
    cache._questions.clear()


def test_each_distinct_text_is_computed_once(
    space: EmbeddingSpace, embedder: Scripted, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        first = embed_cached(space, ["a", "b", "a"], owner_id=ADA)
    assert (first.computed, first.errors, embedder.asked) == (2, {}, [["a", "b"]])
    with django_assert_num_queries(2):
        second = embed_cached(space, ["c", "b", "a"], owner_id=ADA)
    assert (second.computed, embedder.asked[1:]) == (1, [["c"]])
    with django_assert_num_queries(1):
        assert embed_cached(space, ["a", "b", "c"], owner_id=ADA).computed == 0
    assert CachedVector.objects.count() == 3


def test_fresh_vector_and_cached_one_are_identical(space: EmbeddingSpace, embedder: Scripted) -> None:
    fresh = embed_cached(space, ["b", "a"], owner_id=ADA).vectors
    cached = embed_cached(space, ["b", "a"], owner_id=ADA).vectors
    assert fresh.dtype == cached.dtype == np.float32
    np.testing.assert_array_equal(fresh, cached)
    np.testing.assert_allclose(fresh[0], unit_rows(vector_of("b", DIMENSIONS)[None])[0], atol=1e-3)
    assert len(bytes(CachedVector.objects.earliest("pk").vector)) == 2 * DIMENSIONS


def test_embedding_no_texts_takes_no_queries(
    space: EmbeddingSpace, embedder: Scripted, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        batch = embed_cached(space, [], owner_id=ADA)
    assert batch.vectors.shape == (0, DIMENSIONS)
    assert batch.computed == 0


def test_refused_texts_are_reported_and_others_cached(space: EmbeddingSpace, embedder: Scripted) -> None:
    batch = embed_cached(space, ["a", "poison", "b", "poison"], owner_id=ADA)
    assert batch.errors == {1: "bad text", 3: "bad text"}
    assert not batch.vectors[[1, 3]].any()
    assert batch.vectors[[0, 2]].any(axis=1).all()
    assert CachedVector.objects.count() == 2


def test_vectors_computed_before_failure_are_kept(
    space: EmbeddingSpace, embedder: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "STORE_BATCH", 2)
    embedder.works_for = 2
    with pytest.raises(EmbedderUnavailable):
        embed_cached(space, list("abcdef"), owner_id=ADA)
    embedder.works_for = 1
    assert embed_cached(space, list("abcdef"), owner_id=ADA).computed == 2


def test_spaces_do_not_share_vectors(space: EmbeddingSpace, embedder: Scripted) -> None:
    other = EmbeddingSpace.objects.create(provider="local", model="other", dimensions=DIMENSIONS, recipe_version=1)
    embed_cached(space, ["a"], owner_id=ADA)
    assert embed_cached(other, ["a"], owner_id=ADA).computed == 1


def test_owners_share_no_vectors(space: EmbeddingSpace, embedder: Scripted) -> None:
    embed_cached(space, ["a", "b"], owner_id=ADA)
    assert embed_cached(space, ["b", "a"], owner_id=BOB).computed == 2
    assert embed_cached(space, ["a", "b"], owner_id=BOB).computed == 0
    assert CachedVector.objects.count() == 4


def test_vector_that_another_process_stored_meanwhile_is_no_error(
    space: EmbeddingSpace, embedder: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed_cached(space, ["a"], owner_id=ADA)
    monkeypatch.setattr(cache, "_look_up", lambda space, owner_id, hashes: {})
    assert embed_cached(space, ["a"], owner_id=ADA).computed == 1
    assert CachedVector.objects.count() == 1


def test_many_texts_are_looked_up_in_one_query(
    space: EmbeddingSpace, embedder: Scripted, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    texts = [f"text {number}" for number in range(2000)]
    with django_assert_num_queries(1 + 4):
        assert embed_cached(space, texts, owner_id=ADA).computed == 2000
    with django_assert_num_queries(1):
        batch = embed_cached(space, texts, owner_id=ADA)
    np.testing.assert_allclose(np.linalg.norm(batch.vectors, axis=1), 1, atol=2e-3)


def test_query_vector_is_cached(space: EmbeddingSpace, embedder: Scripted) -> None:
    first = query_vector(space, "why?", owner_id=ADA)
    assert query_vector(space, "why?", owner_id=ADA) is first
    assert embedder.asked == [["why?"]]
    assert len(query_embedding(space, "why?", owner_id=ADA).token_ids) == 0
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_query_vector_is_cached_per_owner(space: EmbeddingSpace, embedder: Scripted) -> None:
    for owner_id in (ADA, BOB, ADA, BOB):
        query_vector(space, "why?", owner_id=owner_id)
    assert embedder.asked == [["why?"], ["why?"]]


def test_failure_is_not_remembered(space: EmbeddingSpace, embedder: Scripted) -> None:
    embedder.works_for = 0
    with pytest.raises(EmbeddingError):
        query_vector(space, "why?", owner_id=ADA)
    embedder.works_for = 1
    assert query_vector(space, "why?", owner_id=ADA).shape == (DIMENSIONS,)


def test_default_model_end_to_end() -> None:
    space = active_space()
    texts = ["The worker restarts by itself.", "Paris is lovely in spring."]
    batch = embed_cached(space, texts, owner_id=ADA)
    found: Any = batch.vectors @ query_vector(space, "how does the worker start again?", owner_id=ADA)
    assert found[0] > 0.4 > found[1]
    tokens = query_embedding(space, "how does the worker start again?", owner_id=ADA)
    assert tokens.token_vectors.shape == (8 - 1, space.dimensions)
