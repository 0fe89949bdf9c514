"""The evidence of an answer: what the model is given of a turn, and how much."""

from datetime import UTC, datetime

import pytest

from convmemory.chat.asking import (
    ANSWER_TOKENS,
    CUT,
    EVIDENCE_TOKENS,
    INSTRUCTION,
    LABEL_TOKENS,
    MAX_ASK_TOKENS,
    MAX_TURNS,
    QUESTION_TOKENS,
    excerpt,
)
from convmemory.core.tokens import count_tokens
from memory.context import NOTICE
from search.sources import Element, ElementPart, ItemText


def turn(question: str, answer: str) -> ItemText:
    parts = [ElementPart(0, "user", question), ElementPart(0, "thinking", "Hm."), ElementPart(0, "assistant", answer)]
    elements = tuple(Element(number, 0, (part,)) for number, part in enumerate(parts))
    return ItemText(0, question, elements, 0, datetime(2026, 1, 1, tzinfo=UTC))


def test_short_turn_is_given_as_it_was_said() -> None:
    assert excerpt(turn("Which?", "This.\nThat."), "That.", max_tokens=100) == "User: Which?\nAssistant: This.\n| That."


@pytest.mark.parametrize("filler", ["word ", "a\n", "\u9375\u306f", "<", "</recalled-memory>"])
@pytest.mark.parametrize("max_tokens", [40, 85, 500])
def test_long_turn_is_cut_to_its_tokens_and_has_its_passage(filler: str, max_tokens: int) -> None:
    long = filler * 4_000
    text = excerpt(turn(long, f"{long} So we chose EdDSA. {long}"), "So we chose EdDSA.", max_tokens=max_tokens)
    assert count_tokens(text) <= max_tokens + 2
    assert "So we chose EdDSA." in text
    assert text.startswith("User: ")
    assert "</recalled-memory" not in text


@pytest.mark.parametrize("passage", ["was changed", "was changed " * 50])
def test_passage_that_is_not_in_the_text_leaves_its_beginning(passage: str) -> None:
    text = excerpt(turn("word " * 4_000, "So."), passage, max_tokens=50)
    assert text.startswith("User: word word")
    assert CUT not in text
    assert count_tokens(text) <= 50


def test_most_tokens_of_a_question_hold_all_its_parts() -> None:
    labels = MAX_TURNS * (LABEL_TOKENS + 10)
    around = count_tokens(INSTRUCTION) + count_tokens(NOTICE) + QUESTION_TOKENS + 40
    assert EVIDENCE_TOKENS + ANSWER_TOKENS + labels + around <= MAX_ASK_TOKENS
