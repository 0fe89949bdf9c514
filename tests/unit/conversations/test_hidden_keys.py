"""Taking keys out of a message: one number for one key, wherever it stands."""

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.hidden_keys import without_keys
from convmemory.conversations.messages.parts import TextPart, ToolCallPart
from tests.support.planted_keys import planted_keys

TOKEN, OTHER = planted_keys()["github-token"], planted_keys()["npm-token"]


def message(*parts: TextPart | ToolCallPart, raw: bytes = b"") -> MessageDraft:
    return MessageDraft("user", parts, raw=raw)


def test_same_key_gets_same_number_in_all_parts() -> None:
    call = ToolCallPart("", "bash", {"command": [f"echo {OTHER}", {"token": TOKEN}]})
    draft = without_keys(message(TextPart(f"{TOKEN} and {TOKEN}"), call))
    assert draft.parts[0] == TextPart("[hidden github-token 1] and [hidden github-token 1]")
    assert draft.parts[1].input == {"command": ["echo [hidden npm-token 2]", {"token": "[hidden github-token 1]"}]}  # type: ignore[union-attr]
    assert [(key.number, key.value) for key in draft.hidden_keys] == [(1, TOKEN), (2, OTHER)]


def test_message_without_keys_is_same_message() -> None:
    draft = message(TextPart("bread"), raw=b"bread")
    assert without_keys(draft) is draft


def test_marks_of_hidden_keys_are_not_hidden_again() -> None:
    hidden = without_keys(message(TextPart(TOKEN)))
    assert without_keys(message(*hidden.parts)).parts == hidden.parts  # type: ignore[arg-type]


def test_source_lines_are_looked_into() -> None:
    assert without_keys(message(TextPart("bread"), raw=f"so {TOKEN}".encode())).raw == b"so [hidden github-token 1]"


def test_value_is_not_in_its_own_description() -> None:
    assert TOKEN not in repr(without_keys(message(TextPart(TOKEN))))
