"""Notes on the page that say how a reply ended."""

from convmemory.chat.models import Reply
from convmemory.chat.pages import notes_on
from convmemory.conversations.models import Message


def message(pk: int, role: str = "assistant") -> Message:
    return Message(pk=pk, role=role, is_real_user=role == "user")


def reply(question: int, status: str, error: str = "", **context: object) -> Reply:
    return Reply(pk=7, conversation_id=3, question_id=question, status=status, error=error, context=context)


MESSAGES = [message(1, "user"), message(2), message(3, "tool"), message(4), message(5, "user"), message(6)]


def test_interrupted_reply_gets_warning_below_its_last_message() -> None:
    notes = notes_on([reply(1, "interrupted", "The server went away.")], MESSAGES)
    assert {pk: [note.text for note in found] for pk, found in notes.items() if found} == {
        4: ["The reply was interrupted. The server went away."]
    }
    assert notes[4][0].is_warning


def test_failure_without_answer_stands_below_question() -> None:
    notes = notes_on([reply(5, "failed", "It is down.")], MESSAGES[:5])
    assert [note.text for note in notes[5]] == ["The reply failed. It is down."]


def test_left_out_messages_are_noted_below_question_with_link() -> None:
    notes = notes_on([reply(5, "done", left_out=12, shortened=1)], MESSAGES)
    [note] = notes[5]
    assert note.text == "For this answer 12 older messages were left out, 1 tool output was shortened."
    assert note.address == "/conversations/3/replies/7"
    assert not notes[6]


def test_completed_reply_gets_no_note() -> None:
    assert not any(notes_on([reply(1, "done")], MESSAGES).values())
    assert notes_on([], MESSAGES) == {}


def test_answer_of_endpoint_is_folded_apart_from_sentence_about_it() -> None:
    failed = "The reply failed. The endpoint answered"
    for error, text in (
        ("The endpoint answered 400: it does not take it (“bad: x”).", f"{failed} 400: it does not take it."),
        ("The endpoint answered with something unreadable: “bad: x”", f"{failed} with something unreadable"),
    ):
        [note] = notes_on([reply(5, "failed", error)], MESSAGES[:5])[5]
        assert (note.text, note.raw) == (text, "“bad: x”")
