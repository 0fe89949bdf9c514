"""Splitting messages into passages."""

from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_text,
)
from search.adapters.conversations import split_message
from search.vectors.splitting import SENTENCE_CHARS, TOOL_CHARS, guess_language


def pieces(*parts: Part, real: bool = False, assistant: bool = True) -> list[tuple[str, str]]:
    spans = split_message(parts, is_real_user=real, is_assistant=assistant)
    return [(span.kind, part_text(parts[span.part_index])[span.start : span.end]) for span in spans]


def said(text: str) -> list[str]:
    return [piece for _, piece in pieces(TextPart(text))]


def test_prose_is_split_into_sentences_and_abbreviations_are_known() -> None:
    text = "Dr. Smith went to the market at 5 p.m. on Monday. He bought version 1.2.3 of everything, e.g. apples."
    assert said(text) == [
        "Dr. Smith went to the market at 5 p.m. on Monday.",
        "He bought version 1.2.3 of everything, e.g. apples.",
    ]


def test_list_items_and_headings_stand_alone() -> None:
    text = "# Steps to take before the release\n\n- first update the changelog file\n- then tag the release commit\n"
    assert said(text) == [
        "# Steps to take before the release",
        "- first update the changelog file",
        "- then tag the release commit",
    ]


def test_wrapped_lines_are_one_sentence() -> None:
    assert said("This sentence was wrapped by\nits author at a narrow margin.") == [
        "This sentence was wrapped by\nits author at a narrow margin."
    ]


def test_fenced_code_is_kept_whole_and_cut_at_lines() -> None:
    code = "```python\n" + "\n".join(f"variable_{n} = compute_something({n})" for n in range(40)) + "\n```"
    parts = said(
        f"Here is the whole program that you asked for.\n{code}\nThat was the whole program, good luck with it."
    )
    assert parts[0] == "Here is the whole program that you asked for."
    assert parts[-1] == "That was the whole program, good luck with it."
    assert len(parts) > 3
    assert all(line.startswith(("variable_", "```")) for block in parts[1:-1] for line in block.splitlines())


def test_tiny_fragments_join_their_neighbour() -> None:
    assert said("Yes. That is exactly what I meant to say.") == ["Yes. That is exactly what I meant to say."]


def test_sentence_without_end_is_cut_between_words() -> None:
    parts = said("word " * 500)
    assert len(parts) > 2
    assert all(len(part) <= SENTENCE_CHARS and part.startswith("word") for part in parts)


def test_kind_of_passage_follows_its_part_and_speaker() -> None:
    parts: list[Part] = [ThinkingPart("let me think about this"), ToolCallPart("t", "Bash", {"command": "ls"})]
    assert pieces(*parts) == [("thinking", "let me think about this"), ("call", "Bash command:ls")]
    assert pieces(TextPart("what is going on here?"), real=True, assistant=False)[0][0] == "user"
    assert pieces(ToolResultPart("t", "file.txt"), assistant=False) == [("tool", "file.txt")]


def test_reminders_and_punctuation_give_no_passage() -> None:
    assert pieces(TextPart("<system-reminder>be nice</system-reminder>"), assistant=False) == []
    assert pieces(TextPart("  \n ... --- \n")) == []


def test_long_output_keeps_head_and_tail() -> None:
    text = "\n".join(f"line number {n} of the output" for n in range(1_000))
    parts = [piece for _, piece in pieces(ToolResultPart("t", text))]
    assert parts[0].startswith("line number 0 ")
    assert parts[-1].endswith("line number 999 of the output")
    assert sum(map(len, parts)) <= TOOL_CHARS


def test_languages_are_guessed_by_script_and_function_words() -> None:
    cases = {
        "en": "The quick brown fox is jumping over the lazy dog and it runs to you.",
        "de": "Der Hund und die Katze sind nicht das Problem, ich habe ein anderes.",
        "es": "El perro y los gatos es una cosa que para con todos los demás.",
        "ru": "Быстрая лиса прыгает через ленивую собаку.",
        "ja": "これは日本語の文章です。",
        "zh": "这是一个中文句子。",
    }
    assert {code: guess_language(text) for code, text in cases.items()} == {code: code for code in cases}


@given(st.text(max_size=3_000), st.booleans())
def test_spans_are_in_order_inside_text_and_lose_no_word_of_prose(text: str, real: bool) -> None:
    spans = split_message([TextPart(text)], is_real_user=real, is_assistant=not real)
    ends = [0]
    for span in spans:
        assert ends[-1] <= span.start < span.end <= len(text)
        ends.append(span.end)
    covered = {place for span in spans for place in range(span.start, span.end)}
    assert all(place in covered for place, character in enumerate(text) if character.isalnum())


def test_block_longer_than_window_splits_into_same_sentences() -> None:
    sentences = [f"This is sentence number {n}, and it says something of Dr. Smith." for n in range(200)]
    assert said(" ".join(sentences)) == sentences


def test_block_of_one_sentence_is_cut_whatever_its_length() -> None:
    found = said("```中" * 10_000)
    assert all(0 < len(piece) <= SENTENCE_CHARS for piece in found)
    assert "".join(found) == "```中" * 10_000
