"""Results of our own tools and text that recall inserted are stored and shown, but never found again."""

import json
from html import escape
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from memory.context import NOTICE, TAG, build_memory_context, enclosed
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.query import SearchQuery
from search.searching import search
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.queue import drop_all

pytestmark = pytest.mark.django_db

PUMP = ("Why did the well pump stop last spring?", "Its capacitor burst; a new one of 40 microfarad cured it.")
EVERYWHERE = frozenset({"user", "assistant", "thinking", "tool"})


def indexed(owner: User, messages: Any) -> Conversation:
    made = make_conversation(owner, messages)
    index_conversation(conversation_id=made.pk)
    drop_all()
    return made


def searched(name: str = "mcp__convmemory__ConversationSearch", **parameters: Any) -> list[MessageDraft]:
    """Return a turn in which an agent has asked the archive, as transcripts keep it: the result has no name."""
    answer = json.dumps({"results": [{"user_question": PUMP[0], "passage": PUMP[1]}]})
    return [
        user_says("Is there anything in the archive that helps me here?"),
        MessageDraft("assistant", (ToolCallPart("c1", name, {"query": PUMP[0], **parameters}),)),
        MessageDraft("tool", (ToolResultPart("c1", answer),)),
        assistant_says("Yes, I have read it."),
    ]


def found(owner: User) -> set[int]:
    query = SearchQuery(text=" ".join(PUMP), limit=10, scope=EVERYWHERE)
    recalled = recall(caller=Caller.of(owner), query=RecallQuery(" ".join(PUMP), min_relevance=0, scope=EVERYWHERE))
    hits = {hit.object_id for hit in search(caller=Caller.of(owner), query=query).hits if "microfarad" in hit.passage}
    return hits | {message.conversation_id for message in recalled.messages if "microfarad" in str(message.passages)}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mcp__convmemory__ConversationSearch", {}),
        ("mcp_convmemory_search_chat_history", {}),
        ("convmemory-conversation_recall", {}),
        ("convmemory_read_conversation", {}),
        ("ConversationSearch", {}),
        ("use_mcp_tool", {"server_name": "convmemory", "tool_name": "search"}),
    ],
)
def test_search_by_words_of_earlier_search_finds_answer_and_not_search(name: str, parameters: dict[str, str]) -> None:
    owner = make_user()
    pump = indexed(owner, exchange(PUMP))
    asked = indexed(owner, searched(name, **parameters))
    assert found(owner) == {pump.pk}
    assert "microfarad" in str(asked.messages.get(position=2).parts)


def test_results_of_other_tools_are_found() -> None:
    owner = make_user()
    asked = indexed(owner, searched("mcp__wiki__search"))
    assert found(owner) == {asked.pk}


@pytest.mark.parametrize("is_escaped", [False, True])
def test_recalled_text_in_prompt_is_no_part_of_question(is_escaped: bool) -> None:
    owner = make_user()
    pump = indexed(owner, exchange(PUMP))
    context = build_memory_context(
        recall(caller=Caller.of(owner), query=RecallQuery(PUMP[0], min_relevance=0)).messages, 350
    ).text
    assert "microfarad" in context
    context = escape(context, quote=False) if is_escaped else context
    prompt = f"{context}\n\nWrite that down for the neighbour, please."
    note = indexed(owner, [user_says(prompt), assistant_says("It is written down.")])
    assert found(owner) == {pump.pk}
    assert note.title == "Write that down for the neighbour, please."
    (hit, *_) = search(caller=Caller.of(owner), query=SearchQuery(text="write that down for the neighbour")).hits
    assert (hit.object_id, hit.heading) == (note.pk, "Write that down for the neighbour, please.")
    assert hit.passage.startswith("Write that down")


def test_message_of_recalled_text_alone_opens_no_turn() -> None:
    fence = enclosed("Ada: old words", tag=TAG, notice=NOTICE)
    made = indexed(make_user(), [*exchange(PUMP), MessageDraft("user", (TextPart(fence),)), assistant_says("And so.")])
    assert made.turn_count == 1
