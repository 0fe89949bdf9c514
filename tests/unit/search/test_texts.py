"""What of a turn is embedded and indexed."""

from convmemory.conversations.parts import (
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    tool_call_text,
)
from convmemory.conversations.reading import StoredMessage
from search.indexing.texts import head_and_tail, searchable, turn_texts


def message(role: Role, *parts: Part, real: bool = False, name: str = "") -> StoredMessage:
    return StoredMessage(1, 0, role, real, name, parts)


TURN = [
    message("user", TextPart("why is it slow?"), real=True),
    message(
        "assistant",
        ThinkingPart("perhaps an index"),
        TextPart("Let me look."),
        ToolCallPart("t", "Bash", {"command": "ls"}),
    ),
    message("user", ToolResultPart("t", "file.txt")),
    message("assistant", TextPart("It lacks an index.")),
]


def test_the_embedded_text_holds_speech_and_calls_but_no_thinking_and_no_results() -> None:
    assert turn_texts(TURN).embedded == (
        "User: why is it slow?\n\nAssistant: Let me look.\nBash command:ls\n\nAssistant: It lacks an index."
    )


def test_a_named_speaker_is_named() -> None:
    texts = turn_texts(
        [message("user", TextPart("hi"), real=True, name="Ada"), message("assistant", TextPart("hello"))]
    )
    assert texts.embedded == "Ada: hi\n\nAssistant: hello"
    assert texts.lexical["A"] == "Ada\nhi"


def test_each_kind_has_its_weight() -> None:
    lexical = turn_texts(TURN).lexical
    assert lexical["A"] == "why is it slow?"
    assert "lacks an index" in lexical["B"]
    assert "Bash command:ls" in lexical["B"]
    assert lexical["C"] == "perhaps an index"
    assert lexical["D"] == "Bash command:ls\nfile.txt"


def test_injected_user_messages_are_not_spoken() -> None:
    texts = turn_texts([*TURN, message("user", TextPart("<reminder>be nice</reminder>"))])
    assert "reminder" not in texts.embedded + "".join(texts.lexical.values())


def test_parameters_are_cut() -> None:
    text = tool_call_text(ToolCallPart("t", "Write", {"path": "a.py", "lines": [1, 2], "content": "x" * 400}))
    assert text.startswith("Write path:a.py lines:[1, 2] content:xxx")
    assert len(text) == len("Write path:a.py lines:[1, 2] content:") + 250


def test_long_output_keeps_head_and_tail() -> None:
    text = "\n".join(f"line {n}" for n in range(1000))
    short = head_and_tail(text, 500)
    assert short.startswith("line 0\n")
    assert short.endswith("line 999")
    assert len(short) <= 510


def test_a_changed_word_changes_the_hash() -> None:
    other = [*TURN[:3], message("assistant", TextPart("It lacks a key."))]
    assert turn_texts(TURN).content_hash != turn_texts(other).content_hash
    assert turn_texts(TURN).content_hash == turn_texts(list(TURN)).content_hash


def test_identifiers_are_findable_by_their_parts() -> None:
    words = searchable("see retryPolicy in billing_api/jobs/HTTPClient.py, error E-4042 at api.example.com").split()
    assert {"retry", "Policy", "billing", "api", "jobs", "HTTP", "Client", "py", "4042", "example"} <= set(words)


def test_scripts_without_spaces_are_findable_by_pairs() -> None:
    assert {"数据", "据库"} <= set(searchable("数据库").split())
