"""Same text, one embedding: the vector cache against the real database."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from convmemory.core.text import Span, content_hash
from convmemory.embeddings import cache
from convmemory.embeddings.cache import query_embedding, store_vectors, unknown_texts, vectors_ahead
from convmemory.embeddings.embedder import ModelCard, Vector, unit_rows
from convmemory.embeddings.models import CachedVector, EmbeddingSpace
from convmemory.embeddings.spaces import active_space, embedder_for
from tests.support.openai_server import vector_of

pytestmark = pytest.mark.django_db
DIMENSIONS = 12
ADA, BOB = 7_001, 7_002


class Scripted:
    """An embedder that notes what it is asked."""

    card = ModelCard("local", "scripted", DIMENSIONS, 100, "", token_dimensions=0)

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_spans(self, text: str) -> list[Span]:
        raise NotImplementedError

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        self.asked.append(list(texts))
        return unit_rows(np.array([vector_of(text, DIMENSIONS) for text in texts]))

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_passages([text])[0]
        return vector


@pytest.fixture(autouse=True)
def owners() -> None:
    for pk, name in ((ADA, "ada"), (BOB, "bob")):
        User.objects.create(pk=pk, username=name)


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


def vectors_by_hash(texts: Sequence[str]) -> dict[bytes, Vector]:
    return {content_hash(text): unit_rows(vector_of(text, DIMENSIONS)[None])[0] for text in texts}


def test_vectors_stored_ahead_are_found_again_and_first_ones_stay(
    space: EmbeddingSpace, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    stored = vectors_by_hash(["a", "b"])
    store_vectors(space, stored, archive_id=ADA)
    store_vectors(space, {digest: -vector for digest, vector in stored.items()}, archive_id=ADA)
    with django_assert_num_queries(1):
        cached = vectors_ahead(space, ["b", "c", "a"], archive_id=ADA)
    assert set(cached) == {"a", "b"}
    assert cached["a"].dtype == np.float32
    np.testing.assert_allclose(cached["a"], stored[content_hash("a")], atol=1e-3)
    assert len(bytes(CachedVector.objects.earliest("pk").vector)) == 2 * DIMENSIONS
    with django_assert_num_queries(1):
        assert unknown_texts(space, ["c", "b", "c", "d"], archive_id=ADA) == ["c", "d"]
    with django_assert_num_queries(0):
        assert unknown_texts(space, [], archive_id=ADA) == []


def test_neither_spaces_nor_owners_share_vectors(space: EmbeddingSpace) -> None:
    other = EmbeddingSpace.objects.create(provider="local", model="other", dimensions=DIMENSIONS, recipe_version=1)
    store_vectors(space, vectors_by_hash(["a"]), archive_id=ADA)
    assert vectors_ahead(other, ["a"], archive_id=ADA) == {}
    assert vectors_ahead(space, ["a"], archive_id=BOB) == {}


def test_question_is_cached(space: EmbeddingSpace, embedder: Scripted) -> None:
    first = query_embedding(space, "why?", archive_id=ADA)
    assert query_embedding(space, "why?", archive_id=ADA) is first
    assert embedder.asked == [["why?"]]
    assert len(query_embedding(space, "why?", archive_id=ADA).token_ids) == 0
    with pytest.raises(ValueError, match="read-only"):
        first.vector[0] = 1


def test_question_is_cached_per_owner(space: EmbeddingSpace, embedder: Scripted) -> None:
    for archive_id in (ADA, BOB, ADA, BOB):
        query_embedding(space, "why?", archive_id=archive_id)
    assert embedder.asked == [["why?"], ["why?"]]


def test_default_model_end_to_end() -> None:
    space = active_space()
    texts = ["The worker restarts by itself.", "Paris is lovely in spring."]
    question = query_embedding(space, "how does the worker start again?", archive_id=ADA)
    similarities: Any = embedder_for(space).embed_passages(texts) @ question.vector
    assert similarities[0] > 0.4 > similarities[1]
    assert question.token_vectors.shape == (8 - 1, space.dimensions)
