"""Turns and right answers as the systems of the scoreboard get them."""

from collections.abc import Iterable

from benchmarks.archives import archive_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.evaluation.haystacks import Haystack, Question


def haystack(messages: Iterable[MessageDraft], *questions: Question) -> Haystack:
    kept = list(messages)
    return Haystack("one", lambda: [ConversationDraft(iter(kept), source_id="c/1")], questions)


def said(role: str, text: str, key: str, name: str = "") -> MessageDraft:
    assert role in ("user", "assistant")
    return MessageDraft("user" if role == "user" else "assistant", (TextPart(text),), name=name, source_key=key)


def test_text_of_turn_names_each_speaker() -> None:
    spoken = [
        said("user", "Where is it?", "m1", "Ann"),
        said("assistant", "In the shed.", "m2", "Bob"),
        said("user", "Thanks", "m3", "Ann"),
        said("assistant", "Sure", "m4"),
        said("user", "Unanswered", "m5"),
    ]
    archive = archive_of(haystack(spoken))
    assert archive.turns == (
        ("c/1#0", "Ann: Where is it?\nBob: In the shed."),
        ("c/1#1", "Ann: Thanks\nAssistant: Sure"),
    )
    assert archive.characters == sum(len(text) for _, text in archive.turns)


def test_calls_are_shortened_and_thinking_and_output_omitted() -> None:
    call = ToolCallPart("t1", "Bash", {"command": "x" * 300, "timeout": 5})
    answer = MessageDraft("assistant", (ThinkingPart("hm"), TextPart("I look."), call), source_key="m2")
    output = MessageDraft("user", (ToolResultPart("t1", "total 0"),), source_key="m3")
    ((_, text),) = archive_of(haystack([said("user", "List it", "m1"), answer, output])).turns
    assert text == f"User: List it\nAssistant: I look.\nBash command:{'x' * 250}... timeout:5"


def test_right_turns_come_from_evidence_messages_or_named_turns() -> None:
    spoken = [said("user", "One", "m1"), said("assistant", "Two", "m2"), said("user", "Three", "m3")]
    by_message = Question("q", "", "", messages=frozenset({("c/1", "m2"), ("c/1", "m3")}))
    by_turn = Question("q", "", "", turns=frozenset({("c/1", 0), ("c/1", 7)}))
    unanswerable = Question("q", "", "", messages=frozenset({("c/1", "m3")}))
    archive = archive_of(haystack(spoken, by_message, by_turn, unanswerable))
    assert [asked.right for asked in archive.questions] == [{"c/1#0"}, {"c/1#0"}]
