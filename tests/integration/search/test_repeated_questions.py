"""A turn that only asks the question again does not come before the turn that answered it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.push.hook import MIN_RELEVANCE
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.searching import MODES, SearchQuery, search
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db

ASKED = "which fuse protects the fan relay?"
MARCH, MAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
ELSE = [("how warm may the cabinet get?", "Forty degrees."), ("who painted the door?", "Quintus, in green.")]


def indexed(owner: User, messages: Sequence[MessageDraft], **values: Any) -> Conversation:
    conversation = make_conversation(owner, messages, **values)
    index_conversation(conversation_id=conversation.pk)
    return conversation


@pytest.fixture
def answered(owner: User) -> Conversation:
    """A conversation in whose first turn the question is answered, in other words, and others."""
    indexed(owner, exchange(*ELSE))
    said = "The relay of the fan hangs on F14, the fuse that protects it, ten amps."
    return indexed(owner, [user_says("the fan stopped, what now?", created_at=MARCH), assistant_says(said)])


def found(owner: User, **values: Any) -> list[int]:
    return [hit.object_id for hit in search(caller=Caller.of(owner), query=SearchQuery(text=ASKED, **values)).hits]


def looked_up(of: Conversation, call: str = "convmemory_search") -> list[MessageDraft]:
    """Return a turn that asked the question, searched for it, and repeats what it found."""
    told = f"- [Fan](https://memory.example/conversations/{of.pk}?turn=0) (2026-03-01)"
    return [
        user_says(ASKED, created_at=MAY),
        MessageDraft("assistant", (ToolCallPart("1", call, {"query": ASKED}),), created_at=MAY),
        MessageDraft("tool", (ToolResultPart("1", told),), created_at=MAY),
        MessageDraft("assistant", (TextPart("The fuse F14 protects the fan relay, as you said."),), created_at=MAY),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_turn_that_searched_for_question_comes_behind_turn_that_it_found(
    owner: User, answered: Conversation, mode: str
) -> None:
    again = indexed(owner, looked_up(answered), source="claude-code")
    assert found(owner, mode=mode)[:2] == [answered.pk, again.pk]
    assert found(owner, mode=mode, limit=1) == [answered.pk]


def test_chat_here_without_memory_comes_behind_turn_that_answered(owner: User, answered: Conversation) -> None:
    chat = [user_says(ASKED, created_at=MAY), assistant_says("I cannot know that.", created_at=MAY)]
    again = indexed(owner, chat, source="chat")
    assert found(owner)[:2] == [answered.pk, again.pk]


def test_question_asked_before_is_answered_at_bar_of_hook_in_archive_of_few_turns(owner: User) -> None:
    def answered(asked: str) -> bool | None:
        return recall(caller=Caller.of(owner), query=RecallQuery(asked, min_relevance=MIN_RELEVANCE)).answered

    for _ in range(4):
        indexed(owner, exchange((ASKED, "The fuse F14, ten amps.")))
        assert answered(ASKED)
    steering = (Path(settings.BASE_DIR) / "tests/retrieval/steering.txt").read_text(encoding="utf-8").splitlines()
    indexed(owner, exchange((steering[0], "Done.")))
    assert [text for text in steering[::12] if answered(text)] == []


def test_recall_brings_answer_before_repeated_question(owner: User, answered: Conversation) -> None:
    indexed(owner, looked_up(answered), source="claude-code")
    messages = recall(caller=Caller.of(owner), query=RecallQuery(ASKED, min_relevance=0)).messages
    assert messages[0].conversation_id == answered.pk


def test_same_question_in_another_session_keeps_its_place(owner: User, answered: Conversation) -> None:
    """Without a link it may be the answer: nothing says that it repeats one."""
    chat = [user_says(ASKED, created_at=MAY), assistant_says("F15 since the rebuild.", created_at=MAY)]
    again = indexed(owner, chat, source="claude-code")
    assert found(owner)[0] == again.pk


def test_link_to_turn_of_another_owner_moves_nothing(owner: User, answered: Conversation) -> None:
    other = indexed(make_user("stranger"), exchange((ASKED, "F99.")))
    again = indexed(owner, looked_up(other), source="claude-code")
    assert found(owner)[0] == again.pk
