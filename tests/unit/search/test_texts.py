"""The texts of a turn that are embedded and indexed."""

import re

from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.messages.parts import (
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    tool_call_text,
)
from convmemory.conversations.reading import StoredMessage
from search.adapters.conversations import items_of
from search.vectors.texts import (
    _IDENTIFIER,
    LEXICAL_CHARS,
    MAX_TOKEN_CHARS,
    ItemTexts,
    head_and_tail,
    item_texts,
    parseable,
    searchable,
    words_of_tools,
)


def message(role: Role, *parts: Part, real: bool = False, name: str = "") -> StoredMessage:
    return StoredMessage(1, 0, role, real, name, parts)


def texts_of(messages: list[StoredMessage]) -> ItemTexts:
    (item,) = items_of(messages)
    return item_texts(item)


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


def test_embedded_text_holds_speech_and_calls_but_no_thinking_and_no_results() -> None:
    assert texts_of(TURN).embedded == (
        "User: why is it slow?\n\nAssistant: Let me look.\nBash command:ls\n\nAssistant: It lacks an index."
    )


def test_named_speaker_is_named() -> None:
    texts = texts_of([message("user", TextPart("hi"), real=True, name="Ada"), message("assistant", TextPart("hello"))])
    assert texts.embedded == "Ada: hi\n\nAssistant: hello"
    assert texts.lexical["A"] == "Ada\nhi"


def test_kinds_of_text_go_to_their_weight_classes() -> None:
    lexical = texts_of(TURN).lexical
    assert lexical["A"] == "why is it slow?"
    assert "lacks an index" in lexical["B"]
    assert "Bash command:ls" in lexical["B"]
    assert lexical["C"] == "perhaps an index"
    assert lexical["D"] == "Bash command:ls\nfile.txt"


def test_injected_user_messages_are_not_spoken() -> None:
    texts = texts_of([*TURN, message("user", TextPart("<reminder>be nice</reminder>"))])
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


def log_of(name: str, lines: int = 2_000) -> ToolResultPart:
    return ToolResultPart("t", "\n".join(f"{name} line {n} says the same" for n in range(lines)))


def test_middle_of_long_output_is_found_by_its_words_each_once() -> None:
    output = log_of("build")
    said = f"{output.text[:30_000]}\nquokka quokka in the middle\n{output.text[30_000:]}"
    words = texts_of([message("tool", ToolResultPart("t", said))]).lexical["D"].split()
    assert words.count("quokka") == 1
    assert words.count("1000") == 1
    assert words.count("says") < 400
    assert set(said.split()) <= set(words)


def test_every_one_of_many_outputs_is_searched_within_bound() -> None:
    outputs = [message("tool", log_of(f"output{n}", 300)) for n in range(200)]
    text = texts_of(outputs).lexical["D"]
    assert {f"output{n}" for n in range(200)} <= set(text.split())
    assert len(text) <= LEXICAL_CHARS
    distinct = " ".join(f"word{n}" for n in range(100_000))
    assert len(words_of_tools([distinct])) <= LEXICAL_CHARS


def test_changed_word_changes_hash() -> None:
    other = [*TURN[:3], message("assistant", TextPart("It lacks a key."))]
    assert texts_of(TURN).content_hash != texts_of(other).content_hash
    assert texts_of(TURN).content_hash == texts_of(list(TURN)).content_hash


def test_identifiers_are_findable_by_their_parts() -> None:
    words = searchable("see retryPolicy in billing_api/jobs/HTTPClient.py, error E-4042 at api.example.com").split()
    assert {"retry", "Policy", "billing", "api", "jobs", "HTTP", "Client", "py", "4042", "example"} <= set(words)


def test_scripts_without_spaces_are_findable_by_pairs() -> None:
    assert {"数据", "据库"} <= set(searchable("数据库").split())


# What identifiers are, as an expression that takes quadratic time.
PLAIN_IDENTIFIER = re.compile(
    r"[A-Za-z0-9]+(?:[._/\\:@#\-]+[A-Za-z0-9]+)+|[A-Za-z]+[A-Z][A-Za-z0-9]*|[A-Za-z]+[0-9]+\w*"
)


@given(st.text(alphabet="aBcD12_é ./-:@", max_size=60))
def test_identifiers_are_those_of_plain_expression(text: str) -> None:
    found = [match[1] or match[2] for match in _IDENTIFIER.finditer(text)]
    assert found == PLAIN_IDENTIFIER.findall(text)


def test_long_tokens_are_cut_up_for_index() -> None:
    text = parseable(f"start {'ab_' * 1_000} end {'x' * MAX_TOKEN_CHARS}")
    assert max(map(len, text.split())) == MAX_TOKEN_CHARS
    assert text.startswith("start ab_")
    assert text.endswith(f" end {'x' * MAX_TOKEN_CHARS}")
    assert "abC" * 200 not in searchable("abC" * 200).split()


def test_only_comment_without_end_is_opened_up() -> None:
    assert parseable("<!-- note --> text <!-- open") == "<!-- note --> text   open"
