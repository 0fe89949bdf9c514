"""Drafts hold no character that PostgreSQL cannot store."""

from dataclasses import fields, replace

from convmemory.conversations.messages.drafts import (
    ConversationDraft,
    EventDraft,
    MessageDraft,
    event_words,
    words_query,
)

BAD, CLEAN = "a\x00b\ud800c", "ab\ufffdc"
TEXTS = {
    ConversationDraft: (
        "source_id",
        "title",
        "agent",
        "project",
        "repository",
        "worktree",
        "parent_source_id",
        "continued_in",
    ),
    MessageDraft: ("name", "model", "source_key"),
    EventDraft: ("type", "level", "tool"),
}


def test_texts_of_draft_lose_characters_that_database_refuses() -> None:
    conversation = ConversationDraft((), **dict.fromkeys(TEXTS[ConversationDraft], BAD), former_ids=(BAD,))  # type: ignore[arg-type]
    message = MessageDraft("user", (), **dict.fromkeys(TEXTS[MessageDraft], BAD))  # type: ignore[arg-type]
    event = EventDraft(1, **dict.fromkeys(TEXTS[EventDraft], BAD), payload={BAD: [BAD, float("nan")]})  # type: ignore[arg-type]
    for draft in (conversation, message, event):
        assert {getattr(draft, name) for name in TEXTS[type(draft)]} == {CLEAN}
    assert conversation.former_ids == (CLEAN,)
    assert event.payload == {CLEAN: [CLEAN, "nan"]}
    assert replace(message, name=BAD).name == CLEAN
    assert replace(message, name="ab\x00").name == "ab"


def test_every_text_of_draft_is_cleaned() -> None:
    """A source is checked where it comes in, and a role is one of four."""
    for kind, names in TEXTS.items():
        texts = {field.name for field in fields(kind) if field.type is str}
        assert texts - {*names, "source", "unless_source"} == set()


def test_words_of_event_are_those_of_its_names_keys_and_values() -> None:
    payload = {"Exit": 137, "why": None, "files": ["a/b.py", {"deep": True}]}
    words = ["137", "a", "b", "deep", "error", "exit", "files", "py", "tool", "true", "why"]
    assert event_words("tool:error", payload=payload) == words


def test_query_of_words_takes_each_once_as_prefix() -> None:
    assert words_query("Exit exit, 1a!") == "'exit':* & '1a':*"
    assert words_query(" ".join(map(str, range(30)))).count(":*") == 20
