"""Of token vectors those of words alone are kept: for new passages, and for those of before once the sweep comes by."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.spaces import activate_space, active_space, configured_space, embedder_for
from convmemory.embeddings.token_codes import encode_vectors
from search.adapters.conversations import index_conversation
from search.indexing.active import index_source
from search.indexing.batches import read_items
from search.indexing.sweeping import sources_to_index
from search.models import Passage, Source, TokenVectors
from search.retrieval.dense import embed_query
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.searching import SearchQuery, search
from search.vectors.passages import draft_passages, only_words
from search.vectors.small_owners import CACHE
from tests.factories import exchange, make_conversation, make_user
from tests.support.queue import drop_all
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db

WIDTH = 48
PUNCTUATED = [("Where, (exactly), is the key?!", "- Under the mat... -- 'usually'."), ("???", "!!! ... !!!")]


def embedder() -> TokenEmbedder:
    found = embedder_for(active_space())
    assert isinstance(found, TokenEmbedder)
    return found


def indexed_owner() -> User:
    owner = make_user()
    index_conversation(conversation_id=make_conversation(owner, exchange(*PUNCTUATED)).pk)
    drop_all()
    return owner


def texts_of(owner: User) -> dict[Any, str]:
    source = Source.objects.get(archive_id=owner.pk)
    elements = [e for item in read_items(source, 0, source.item_count - 1) for e in item.elements]
    return {draft.digest: draft.text for draft in draft_passages(elements)}


def as_of_before(owner: User) -> None:
    """The owner's rows as an older version left them: a vector for every token."""
    texts = texts_of(owner)
    TokenVectors.objects.filter(archive_id=owner.pk).delete()
    for passage in Passage.objects.filter(archive_id=owner.pk):
        [embedding] = embedder().embed_passages_with_tokens([texts[passage.content_hash]])
        TokenVectors.objects.create(
            passage=passage, archive_id=owner.pk, vectors=encode_vectors(embedding.token_vectors)
        )
    Source.objects.filter(archive_id=owner.pk).update(layout=Source.IN_LANGUAGES)


def kept(owner: User) -> dict[Any, bytes]:
    rows = TokenVectors.objects.filter(archive_id=owner.pk).values_list("passage__content_hash", "vectors")
    return {digest: bytes(vectors) for digest, vectors in rows}


def refuse(*_: Any) -> Any:
    raise AssertionError("The model need not run.")


def tokens(codes: bytes) -> set[bytes]:
    return {codes[start : start + WIDTH] for start in range(0, len(codes), WIDTH)}


def test_new_passage_has_one_vector_word() -> None:
    owner = indexed_owner()
    sizes = {text: len(kept(owner).get(digest, b"")) // WIDTH for digest, text in texts_of(owner).items()}
    words = {text: sum(embedder().are_words(embedder().tokenize(text).ids)) for text in sizes}
    assert sizes == words
    counts = dict(Passage.objects.filter(archive_id=owner.pk).values_list("content_hash", "token_count"))
    assert sum(counts.values()) > sum(sizes.values())  # what a passage costs is counted as before


def test_punctuation_is_dropped_without_model_and_searches_find_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = indexed_owner()
    sizes, query = {digest: len(codes) for digest, codes in kept(owner).items()}, SearchQuery(text="where is the key")
    as_of_before(owner)
    before, found = kept(owner), [hit.number for hit in search(caller=Caller.of(owner), query=query).hits]
    assert sum(map(len, before.values())) > sum(sizes.values())
    source = Source.objects.get(archive_id=owner.pk)
    assert source.pk in sources_to_index(limit=10)
    monkeypatch.setattr(type(embedder()), "embed_passages_with_tokens", refuse)
    index_source(archive_id=owner.pk, source_id=source.pk)
    monkeypatch.undo()
    assert {digest: len(codes) for digest, codes in kept(owner).items()} == sizes
    assert all(tokens(codes) <= tokens(before[digest]) for digest, codes in kept(owner).items())
    assert Source.objects.get(archive_id=owner.pk).layout == Source.LAYOUT
    assert source.pk not in sources_to_index(limit=10)
    assert [hit.number for hit in search(caller=Caller.of(owner), query=query).hits] == found
    held = CACHE.get(owner.pk, active_space().pk)
    assert held is not None
    assert len(held.tokens) == sum(sizes.values())


def test_token_vectors_are_kept_while_model_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = indexed_owner()
    as_of_before(owner)
    expected = kept(owner)

    def unavailable(space: Any) -> Any:
        raise EmbedderUnavailable("away")

    monkeypatch.setattr("search.indexing.layouts.embedder_for", unavailable)
    index_source(archive_id=owner.pk, source_id=Source.objects.get(archive_id=owner.pk).pk)
    assert kept(owner) == expected
    assert Source.objects.get(archive_id=owner.pk).layout == Source.IN_LANGUAGES


def test_only_words_is_idempotent() -> None:
    text = "a, b."
    [embedding] = embedder().embed_passages_with_tokens([text])
    codes = encode_vectors(embedding.token_vectors)
    once = only_words(embedder(), text, codes, len(embedding.token_ids))
    assert once is not None
    assert len(once) == 2 * WIDTH
    assert only_words(embedder(), text, once, len(embedding.token_ids)) == once
    assert only_words(embedder(), "?!", codes[: 2 * WIDTH], 2) is None


def test_token_vectors_stand_in_their_rows() -> None:
    """Also those of a passage which takes more than the two kilobytes from which on values are moved out."""
    owner = make_user()
    many = " ".join(f"word{number}" for number in range(10, 45))
    index_conversation(conversation_id=make_conversation(owner, exchange(("Which words?", many))).pk)
    assert 2_000 < max(len(codes) for codes in kept(owner).values()) < 7_000
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(pg_column_toast_chunk_id(vectors)) FROM search_tokenvectors WHERE owner_id = %s",
            [owner.pk],
        )
        assert cursor.fetchone() == (2, 0)


def test_query_in_another_language_has_no_tokens_of_english_model(settings: Settings, tmp_path: Path) -> None:
    owner = make_user()
    texts = ("Where is the old key?", "古い鍵はどこですか", "Wo ist denn nur der alte Schlüssel für die Tür?")

    def counts() -> list[int]:
        prepared = [prepare_query(PreparedQuery.of(owner.pk, SearchQuery(text=text))) for text in texts]
        return [len(query.embedding.token_ids) for each in prepared if (query := embed_query(each)).embedding]

    assert all(counts())  # one model for both: its sentences are as foreign as its tokens
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "tiny"))
    activate_space(configured_space())
    english, *others = counts()
    assert english > 0
    assert others == [0, 0]
