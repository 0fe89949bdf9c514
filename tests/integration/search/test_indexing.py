"""The index follows the conversation: nothing twice, nothing missed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.parts import AttachmentPart, ThinkingPart
from convmemory.conversations.models import Conversation
from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.queue.fair_queue import claim
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import index_conversation
from search.indexing import active, batches
from search.indexing.status import index_status
from search.indexing.sweeping import reconcile_sources, sources_to_index
from search.models import Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from search.query import Mode, SearchQuery
from search.searching import search
from search.vectors import item_vectors, passages
from search.vectors.codes import decoded, rotated_back
from tests.factories import NEW_YEAR, assistant_says, exchange, make_conversation, make_user, source_id, user_says
from tests.support.passages import stored_passages
from tests.support.queue import drop_all

pytestmark = pytest.mark.django_db

PAIRS = [("how do I boil an egg?", "seven minutes"), ("and potatoes?", "twenty minutes"), ("thanks", "you are welcome")]


def test_every_turn_gets_document_and_vector() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    result = index_conversation(conversation_id=conversation.pk)
    assert (result.finished, result.items, result.computed) == (True, 3, 6)
    assert Item.objects.count() == ItemEmbedding.objects.count() == 3


def test_indexing_again_computes_nothing() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    assert index_conversation(conversation_id=conversation.pk).computed == 0


def test_indexing_after_append_embeds_only_new_turn() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("one"), assistant_says("two")]
    )
    result = index_conversation(conversation_id=conversation.pk)
    assert (result.items, result.computed) == (1, 2)


def test_turn_that_grows_is_embedded_again() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    before = set(ItemEmbedding.objects.values_list("pk", flat=True))
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("one more thing")]
    )
    result = index_conversation(conversation_id=conversation.pk)
    assert result.computed == 1
    assert set(ItemEmbedding.objects.exclude(item_number=2).values_list("pk", flat=True)) < before
    assert "one more thing" in " ".join(Item.objects.get(number=2).heading) or result.items == 1


def test_same_text_of_owner_is_embedded_once() -> None:
    owner = make_user()
    computed = [
        index_conversation(conversation_id=make_conversation(owner, exchange(*PAIRS)).pk).computed for _ in range(2)
    ]
    assert computed == [6, 0]


def said_in_turn(number: int) -> list[tuple[int, Any]]:
    """Return tokens and vector of each passage that was said, in order."""
    kinds = (PassageBlock.Kind.USER, PassageBlock.Kind.ASSISTANT)
    said = [one for one in stored_passages() if one.item_number == number and one.kind in kinds]
    rows = sorted(said, key=lambda one: (one.element_id, one.start))
    return [(one.token_count, rotated_back(decoded(one.code, 384))[0]) for one in rows]


def vectors_of_turn(number: int) -> list[Any]:
    rows = ItemEmbedding.objects.filter(item_number=number).order_by("chunk_number")
    return [np.array(row.embedding) for row in rows]


def mean_of(passages: list[tuple[int, Any]]) -> Any:
    total = sum(tokens * vector for tokens, vector in passages)
    return total / np.linalg.norm(total)


def test_vector_of_turn_is_mean_of_what_was_said_weighed_by_tokens() -> None:
    answer = assistant_says("seven minutes. Then put it into cold water for a while.")
    answer = replace(answer, parts=(*answer.parts, ThinkingPart("Eggs differ in size, and so do pans.")))
    index_conversation(conversation_id=make_conversation(make_user(), [user_says(PAIRS[0][0]), answer]).pk)
    assert PassageBlock.Kind.THINKING in {one.kind for one in stored_passages()}
    (vector,) = vectors_of_turn(0)
    np.testing.assert_allclose(vector, mean_of(said_in_turn(0)), atol=1e-3)


def test_long_turn_has_vector_of_each_of_equal_chunks() -> None:
    long = " ".join(f"{number} eggs boil for {number} minutes." for number in range(100))
    index_conversation(conversation_id=make_conversation(make_user(), exchange(("and many?", long))).pk)
    said = said_in_turn(0)
    total = sum(tokens for tokens, _ in said)
    vectors = vectors_of_turn(0)
    assert len(vectors) == math.ceil(total / item_vectors.ITEM_TOKENS) > 2
    before = 0
    chunks: list[list[tuple[int, Any]]] = [[] for _ in vectors]
    for tokens, vector in said:
        chunks[before * len(vectors) // total].append((tokens, vector))
        before += tokens
    for vector, chunk in zip(vectors, chunks, strict=True):
        np.testing.assert_allclose(vector, mean_of(chunk), atol=1e-3)


def test_turn_without_text_has_vector_and_is_not_pending() -> None:
    owner = make_user()
    picture = replace(user_says("-"), parts=(AttachmentPart("egg.png"),))
    index_conversation(conversation_id=make_conversation(owner, [picture, assistant_says("   ")]).pk)
    (vector,) = vectors_of_turn(0)
    assert abs(np.linalg.norm(vector) - 1) < 1e-2
    assert index_status(caller=Caller.of(owner)).pending == 0


def test_status_counts_what_waits(django_capture_on_commit_callbacks: Any) -> None:
    owner = make_user()
    with django_capture_on_commit_callbacks(execute=True):
        conversation = make_conversation(owner, exchange(*PAIRS))
    assert index_status(caller=Caller.of(owner)).pending == 3
    index_conversation(conversation_id=conversation.pk)
    assert asdict(index_status(caller=Caller.of(owner))) == {
        "turns": 3, "embedded_turns": 3, "messages": 6, "passages": 6, "pending": 0, "failed": 0,
        "sections": 0, "embedded_sections": 0, "without_words": 0, "unread_documents": 0,
        "unfinished_imports": 0,
    }  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        ingest.append_messages(
            caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("a"), assistant_says("b")]
        )
    assert index_status(caller=Caller.of(owner)).pending == 2  # the last turn may have grown, the new one has come
    assert index_status(caller=Caller.of(make_user())).turns == 0


def test_text_that_model_refuses_fails_alone() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))

    embed = passages._embed

    def refuse_potatoes(archive_id: int, space: EmbeddingSpace, texts: Sequence[str]) -> Iterator[Any]:
        for text, result in zip(texts, embed(archive_id, space, texts), strict=True):
            yield EmbeddingError("too strange") if "potatoes" in text else result

    with patch("search.vectors.passages._embed", refuse_potatoes):
        result = index_conversation(conversation_id=conversation.pk)
    assert result.failed == 1
    assert ItemEmbedding.objects.count() == 2
    assert Item.objects.get(number=1).error == "too strange"
    status = index_status(caller=Caller.of(owner))
    assert (status.pending, status.failed, status.embedded_turns) == (0, 1, 2)


def test_without_embedder_words_are_indexed_and_sweep_tries_again() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    drop_all()
    with (
        patch("search.vectors.passages._embed", side_effect=EmbedderUnavailable("no model")),
        pytest.raises(EmbedderUnavailable),
    ):
        index_conversation(conversation_id=conversation.pk)
    assert Item.objects.count() == 3
    state = SourceIndex.objects.get()
    assert (state.error, state.attempts) == ("no model", 1)
    assert sources_to_index(limit=10) == []  # too soon
    SourceIndex.objects.update(updated_at=timezone.now() - timedelta(minutes=3))
    assert sources_to_index(limit=10) == [source_id(conversation)]
    index_conversation(conversation_id=conversation.pk)
    assert sources_to_index(limit=10) == []


def found_by_words(owner: User, text: str, mode: Mode = "full_text") -> list[int]:
    found = search(caller=Caller.of(owner), query=SearchQuery(text=text, mode=mode)).hits
    return [hit.number for hit in found]


@pytest.mark.parametrize("mode", ["full_text", "hybrid"])
def test_words_are_found_before_any_worker_has_run(mode: Mode) -> None:
    owner = make_user()
    conversation = make_conversation(owner, [assistant_says("Ahoy from the lugger!"), *exchange(*PAIRS)])
    assert found_by_words(owner, "potatoes", mode) == [1]
    assert found_by_words(owner, "lugger", mode) == [0]  # belongs to no turn
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("where are artichokes?")]
    )
    assert found_by_words(owner, "artichokes", mode) == [2]  # no answer yet: read with the turn before
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("in Brittany")]
    )
    assert found_by_words(owner, "artichokes", mode) == found_by_words(owner, "Brittany", mode) == [3]
    question = conversation.messages.get(position=5)
    ingest.supersede_from(caller=Caller.of(owner), conversation_id=conversation.pk, message_id=question.pk)
    assert found_by_words(owner, "artichokes", mode) == []
    assert not ItemEmbedding.objects.exists()
    assert Source.objects.get().spoken_length == sum(Item.objects.values_list("length", flat=True))


def test_imported_words_are_found_before_any_worker_has_run() -> None:
    owner = make_user()
    pairs = [(f"question {number}", f"answer quux{number}") for number in range(150)]
    draft = ConversationDraft(messages=exchange(*pairs), source="test", source_id="long")
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft)
    assert [found_by_words(owner, f"quux{number}") for number in (0, 63, 64, 149)] == [[0], [63], [64], [149]]
    changed = exchange(*pairs[:100], ("question 100", "answer frobnicate"), *pairs[101:])
    ingest.sync_conversation(caller=Caller.of(owner), draft=replace(draft, messages=changed))
    assert (found_by_words(owner, "quux100"), found_by_words(owner, "frobnicate")) == ([], [100])


def test_worker_keeps_words_that_were_stored_after_it_had_read_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))
    read, late = batches.batches_of_items, [assistant_says("with nutmeg")]

    def read_before_an_append(source: Source, first: int) -> Iterator[batches.ItemBatch]:
        found = list(read(source, first))
        if late:
            ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[late.pop()])
        yield from found

    monkeypatch.setattr(active, "batches_of_items", read_before_an_append)
    with (
        patch("search.vectors.passages._embed", side_effect=EmbedderUnavailable("no model")),
        pytest.raises(EmbedderUnavailable),
    ):
        index_conversation(conversation_id=conversation.pk)
    assert found_by_words(owner, "nutmeg") == [2]


def test_recent_conversations_of_import_are_indexed_first(django_capture_on_commit_callbacks: Any) -> None:
    owner = make_user()
    sources = {}
    with django_capture_on_commit_callbacks(execute=True):
        for day in (3, 9, 1):
            drafts = [replace(draft, created_at=NEW_YEAR + timedelta(days=day)) for draft in exchange(*PAIRS)]
            sources[source_id(make_conversation(owner, drafts))] = day
    claimed = [claim() for _ in sources]
    assert [sources[task.args[0]] for task in claimed if task] == [9, 3, 1]


def test_sweep_finds_sources_changed_without_signal() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    drop_all()
    assert sources_to_index(limit=10) == [source_id(conversation)]
    index_conversation(conversation_id=conversation.pk)
    Conversation.objects.update(turns_version=9)
    assert reconcile_sources() == 1
    assert sources_to_index(limit=10) == [source_id(conversation)]


def test_indexing_past_its_deadline_resumes_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_CHARS", 1)
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    runs = [index_conversation(conversation_id=conversation.pk, deadline=0) for _ in PAIRS]
    assert [(run.items, run.computed, run.finished) for run in runs] == [(1, 2, False), (1, 2, False), (1, 2, True)]


def test_indexing_past_its_deadline_makes_progress_without_noted_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_CHARS", 1)
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    SourceIndex.objects.all().delete()
    runs = [index_conversation(conversation_id=conversation.pk, deadline=0) for _ in PAIRS]
    assert [(run.items, run.finished) for run in runs] == [(1, False), (1, False), (1, True)]


@pytest.mark.slow
def test_huge_turn_is_indexed_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "AHEAD", 4)
    text = " ".join(f"Sentence number {number} says that lake {number} is deep and cold." for number in range(120))
    conversation = make_conversation(make_user(), exchange(("How deep are the lakes?", text)))
    whole = make_conversation(make_user(), exchange(("How deep are the lakes? ", text)))
    runs: list[active.IndexResult] = []
    while not runs or not runs[-1].finished:
        runs.append(index_conversation(conversation_id=conversation.pk, deadline=0))
        if not runs[-1].finished:  # each run writes what it computed, and nothing of before again
            written = PassageBlock.objects.filter(source=source_id(conversation)).values_list("is_kept", "passages")
            assert list(written) == [(True, run.computed) for run in runs]
    index_conversation(conversation_id=whole.pk)
    assert len(runs) > 20
    assert all(run.computed <= 4 for run in runs[:-1])
    found, expected = (
        sorted((one.start, one.end, one.kind, one.content_hash) for one in stored_passages(source=source_id(c)))
        for c in (conversation, whole)
    )
    assert len(found) == len(set(found)) > 100
    assert len(found) == len(expected)
    assert ItemEmbedding.objects.filter(source=source_id(conversation)).count() > 2


@pytest.mark.parametrize("sizes", [[10] * 200, [5_000, 20_000, 10, 10], [40_000], [8_000] * 5])
def test_batches_are_bounded_by_what_is_embedded(sizes: list[int]) -> None:
    conversation = make_conversation(make_user(), exchange(*((f"q{n}", "x" * size) for n, size in enumerate(sizes))))
    found = list(batches.batches_of_items(Source.objects.get(pk=source_id(conversation)), 0))
    assert [batch.first for batch in found[1:]] == [batch.last + 1 for batch in found[:-1]]
    assert (found[0].first, found[-1].last) == (0, len(sizes) - 1)
    for batch in found:
        of_batch = sizes[batch.first : batch.last + 1]
        assert len(of_batch) <= batches.ITEMS_PER_BATCH
        assert len(of_batch) == 1 or sum(of_batch) <= batches.BATCH_CHARS
        assert {item.number for item in batch.items} == set(range(batch.first, batch.last + 1))


@pytest.mark.django_db(transaction=True)
def test_two_workers_do_not_index_one_conversation_at_once() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, %s)", [AdvisoryLock.INDEXING, source_id(conversation)])
            assert not index_conversation(conversation_id=conversation.pk).finished
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [AdvisoryLock.INDEXING, source_id(conversation)])
    finally:
        other.close()
    assert index_conversation(conversation_id=conversation.pk).finished
