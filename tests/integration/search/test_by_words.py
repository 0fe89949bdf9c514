"""The passage that a search by words alone shows, of turns with many messages: only messages with a word are read."""

from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, part_text
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import StoredMessage, stored_messages
from convmemory.embeddings.spaces import active_space
from search.adapters import conversations
from search.models import PassageBlock, Source
from search.query import SearchQuery
from search.results.hits import Hit
from search.searching import search
from tests.factories import exchange, make_conversation, make_user
from tests.support.passages import take_passages

pytestmark = pytest.mark.django_db

FILLER = " ".join(f"Sentence number {number} of a long answer about bread and flour and ovens." for number in range(60))


def run_of_agent(owner: User, *said: str) -> Conversation:
    """An indexed turn of many messages."""
    answers = [MessageDraft("assistant", (TextPart(text),)) for text in (FILLER, *said, FILLER)]
    conversation = make_conversation(owner, [*exchange(("tell me about bread", "Soon.")), *answers])
    conversations.index_conversation(conversation_id=conversation.pk)
    return conversation


def find_by_words(owner: User, text: str) -> list[Hit]:
    return list(search(caller=Caller.of(owner), query=SearchQuery(text=text, mode="full_text")).hits)


def test_search_by_words_reads_only_messages_with_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    run_of_agent(owner, "Quintus knows more.", "Ask for quintuses.")
    read: list[StoredMessage] = []

    def reading(*arguments: Any, **options: Any) -> list[StoredMessage]:
        read.extend(stored_messages(*arguments, **options))
        return read

    monkeypatch.setattr(conversations, "stored_messages", reading)
    with patch.object(conversations.ConversationAdapter, "read_items", side_effect=AssertionError("read as a whole")):
        (hit,) = find_by_words(owner, "quintus")
    assert hit.passage == "Quintus knows more."
    said = [part_text(part) for message in read for part in message.parts]
    assert sorted(said, reverse=True) == ["Quintus knows more.", "Ask for quintuses."]


@pytest.mark.parametrize("word", ["quintus", "zinc/lid.toml"])
def test_search_by_words_finds_them_in_text_that_has_no_passages(word: str) -> None:
    owner = make_user()
    conversation = run_of_agent(owner, "All about zinc, toml and lids of bread.", f"{word} knows more about bread.")
    message = conversation.messages.get(parts__contains=[{"text": f"{word} knows more about bread."}])
    take_passages(Source.objects.get(object_id=conversation.pk), active_space(), elements=[message.pk])
    (hit,) = find_by_words(owner, f"bread {word}")
    assert (hit.passage, hit.turn.passage_message_id) == (f"{word} knows more about bread.", message.pk)
    PassageBlock.objects.all().delete()
    assert find_by_words(owner, f"bread {word}")[0].passage == hit.passage


def test_search_by_words_reads_nothing_of_another_owner() -> None:
    ada, bob = make_user(), make_user()
    run_of_agent(ada, "Quintus knows more.")
    run_of_agent(bob, "Quintus knows less.")
    assert [hit.passage for hit in find_by_words(bob, "quintus")] == ["Quintus knows less."]
