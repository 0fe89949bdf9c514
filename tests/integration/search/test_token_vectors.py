"""Of token vectors those of words alone are kept."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings

from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.spaces import activate_space, active_space, configured_space, embedder_for
from search.adapters.conversations import index_conversation
from search.indexing.batches import read_items
from search.models import PassageBlock, Source
from search.retrieval.dense import embed_query
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.searching import SearchQuery
from search.vectors.passages import draft_passages
from tests.factories import exchange, make_conversation, make_user
from tests.support.passages import stored_passages
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


def kept(owner: User) -> dict[Any, bytes]:
    return {one.content_hash: one.tokens for one in stored_passages(archive_id=owner.pk) if one.tokens}


def test_new_passage_has_one_vector_word() -> None:
    owner = indexed_owner()
    sizes = {text: len(kept(owner).get(digest, b"")) // WIDTH for digest, text in texts_of(owner).items()}
    words = {text: sum(embedder().are_words(embedder().tokenize(text).ids)) for text in sizes}
    assert sizes == words
    counts = {one.content_hash: one.token_count for one in stored_passages(archive_id=owner.pk)}
    assert sum(counts.values()) > sum(sizes.values())  # what a passage costs is counted as before


def test_token_vectors_are_stored_outside_of_their_rows_and_uncompressed() -> None:
    """So that PostgreSQL reads of a slice of them only its own pages."""
    owner = make_user()
    many = " ".join(f"word{number}" for number in range(10, 45)) + " word" * 40
    index_conversation(conversation_id=make_conversation(owner, exchange(("Which words?", many))).pk)
    (block,) = PassageBlock.objects.filter(archive_id=owner.pk)
    assert len(block.tokens) > 4_000
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_column_toast_chunk_id(tokens) IS NOT NULL, pg_column_compression(tokens), pg_column_size(tokens)"
            " FROM search_passageblock WHERE id = %s",
            [block.pk],
        )
        assert cursor.fetchone() == (True, None, len(block.tokens))


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
