"""Sentences of a model's answer are kept if they cite words of the turn."""

import time
from collections.abc import Sequence

import pytest

from convmemory.chat.checked_answers import MAX_SENTENCES, AnswerReader, Citation, Sentence

QUESTION = "how do we sign the portal's tokens?"
TURNS = {
    1: "User: Which key?\nAssistant: Then a **key pair** from the start: EdDSA with `Ed25519`.",
    2: "Assistant: Add leeway=30 where the token is decoded.\n| Clocks differ by \u201cthirty\u201d seconds.",
    3: "Assistant: \u9375\u306f\u30b5\u30fc\u30d0\u30fc\u304c\u6301\u3064\u3002",
}


def read(*pieces: str, question: str = QUESTION) -> list[Sentence]:
    reader = AnswerReader(question, TURNS)
    return [*(sentence for piece in pieces for sentence in reader.feed(piece)), *reader.finish()]


def texts(sentences: Sequence[Sentence]) -> list[str]:
    return [sentence.text for sentence in sentences]


def test_sentence_with_quote_of_its_turn_is_kept_with_the_citation() -> None:
    [sentence] = read('With EdDSA, by a key pair. [1 "key pair from the start: EdDSA"]')
    assert sentence == Sentence("With EdDSA, by a key pair.", (Citation(1, "key pair from the start: EdDSA"),))


def test_answer_in_single_characters_reads_like_a_whole_one() -> None:
    answer = 'With EdDSA. [1 "EdDSA with Ed25519"]\nClocks may differ. [2 "leeway=30"] [1 "a key pair"]\n'
    assert read(*answer) == read(answer)
    assert texts(read(answer)) == ["With EdDSA.", "Clocks may differ."]
    assert [len(sentence.citations) for sentence in read(answer)] == [1, 2]


def test_sentences_of_one_paragraph_are_yielded_as_soon_as_the_next_begins() -> None:
    reader = AnswerReader(QUESTION, TURNS)
    assert texts(list(reader.feed('With EdDSA [1 "EdDSA with Ed25519"]. C'))) == ["With EdDSA"]
    assert texts(list(reader.feed('locks differ [2 "leeway=30"].'))) == []
    assert texts(list(reader.finish())) == ["Clocks differ"]


@pytest.mark.parametrize(
    "line",
    [
        "It is signed with RSA.",
        'It is signed with RSA. [1 "RSA with 4096 bits"]',
        'It is signed with EdDSA. [2 "EdDSA with Ed25519"]',
        'It is signed with EdDSA. [9 "EdDSA with Ed25519"]',
        "It is signed with EdDSA. [1]",
        'It is signed with EdDSA. [1 "a"]',
        'It is signed with RSA. [1 "the"]',
        'Tokens are signed. [2 "token"]',
        'It is. [1 "d25519"]',
        '[1 "EdDSA with Ed25519"]',
        'EdDSA. [1 "EdDSA \u2026 RSA keys"]',
    ],
    ids=["uncited", "invented", "other turn", "no turn", "no quote", "letter", "stop word", "asked", "half a word",
         "no sentence", "half invented"],
)  # fmt: skip
def test_sentence_without_checked_citation_is_left_out(line: str) -> None:
    reader = AnswerReader("how are the tokens signed, by which token?", TURNS)
    assert [*reader.feed(line + "\n"), *reader.finish()] == []
    assert reader.refused


def test_only_the_sentence_before_a_citation_is_covered_by_it() -> None:
    assert texts(read('The keys were stolen. We sign with EdDSA. [1 "EdDSA with Ed25519"]')) == ["We sign with EdDSA."]


def test_unchecked_citation_next_to_a_checked_one_is_left_out() -> None:
    [sentence] = read('With EdDSA. [1 "EdDSA with Ed25519"] [2 "RSA with 4096 bits"]')
    assert sentence.citations == (Citation(1, "EdDSA with Ed25519"),)


@pytest.mark.parametrize(
    ("number", "quote"),
    [(1, "A KEY PAIR from the  start"), (2, 'Clocks differ by "thirty" seconds'), (2, "leeway=30 \u2026 Clocks differ"),
     (2, "is decoded. Clocks differ")],
)  # fmt: skip
def test_quotes_are_compared_without_case_markup_and_gaps(number: int, quote: str) -> None:
    assert read(f'It is so. [{number} "{quote}"]'), quote


def test_quote_in_a_script_without_spaces_is_checked() -> None:
    assert read('\u30b5\u30fc\u30d0\u30fc\u3067\u3059\u3002 [3 "\u30b5\u30fc\u30d0\u30fc\u304c\u6301\u3064"]')


def test_list_marks_and_markup_are_no_part_of_a_sentence() -> None:
    assert texts(read('- With **EdDSA**. [1 "EdDSA with Ed25519"]\n')) == ["With EdDSA."]


def test_answer_that_nothing_answers_ends_at_once() -> None:
    reader = AnswerReader(QUESTION, TURNS)
    assert list(reader.feed("NOTHING")) == []
    assert reader.is_over


def test_no_more_than_the_sentences_of_an_answer_are_kept() -> None:
    reader = AnswerReader(QUESTION, TURNS)
    kept = list(reader.feed('With EdDSA. [1 "EdDSA with Ed25519"]\n' * (MAX_SENTENCES + 3)))
    assert len(kept) == MAX_SENTENCES
    assert reader.is_over


@pytest.mark.parametrize("text", ['[1 "' * 20_000, '"]' * 40_000, "a. " * 30_000, "[" * 80_000, '[1 "a"]' * 10_000])
def test_hostile_answers_are_read_in_linear_time(text: str) -> None:
    start = time.process_time()
    assert read(text) == []
    assert time.process_time() - start < 1
