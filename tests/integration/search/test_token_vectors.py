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
from search.models import Passage, Source
from search.retrieval.dense import embed_query
from search.retrieval.prepared import PreparedQuery, prepare_query
from search.searching import SearchQuery
from search.vectors.passages import draft_passages
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


def kept(owner: User) -> dict[Any, bytes]:
    rows = Passage.objects.filter(archive_id=owner.pk, tokens__isnull=False).values_list("content_hash", "tokens")
    return {digest: bytes(tokens or b"") for digest, tokens in rows}


def test_new_passage_has_one_vector_word() -> None:
    owner = indexed_owner()
    sizes = {text: len(kept(owner).get(digest, b"")) // WIDTH for digest, text in texts_of(owner).items()}
    words = {text: sum(embedder().are_words(embedder().tokenize(text).ids)) for text in sizes}
    assert sizes == words
    counts = dict(Passage.objects.filter(archive_id=owner.pk).values_list("content_hash", "token_count"))
    assert sum(counts.values()) > sum(sizes.values())  # what a passage costs is counted as before


def test_token_vectors_stand_in_their_rows() -> None:
    """Also those of a passage which takes more than the two kilobytes from which on values are moved out."""
    owner = make_user()
    many = " ".join(f"word{number}" for number in range(10, 45))
    index_conversation(conversation_id=make_conversation(owner, exchange(("Which words?", many))).pk)
    assert 2_000 < max(len(codes) for codes in kept(owner).values()) < 7_000
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(pg_column_toast_chunk_id(tokens)) FROM search_passage WHERE owner_id = %s",
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
