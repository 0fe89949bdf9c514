"""Turn numbers: the cases of the glossary, and properties that hold for any conversation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolResultPart
from convmemory.conversations.messages.turns import TurnCounter, TurnMessage, is_real_user_message, number_turns

KINDS = {
    "u": TurnMessage("user", is_real_user=True),
    "i": TurnMessage("user", is_real_user=False),  # injected, or only a tool result
    "a": TurnMessage("assistant", is_real_user=False),
    "t": TurnMessage("tool", is_real_user=False),
    "s": TurnMessage("system", is_real_user=False),
}


def numbers(kinds: str, first_number: int = 0) -> list[int | None]:
    return number_turns([KINDS[kind] for kind in kinds], first_number=first_number)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("", []),
        ("ua", [0, 0]),
        ("uaua", [0, 0, 1, 1]),
        ("uua", [0, 0, 0]),  # interrupted: joins the next
        ("uauua", [0, 0, 1, 1, 1]),
        ("u", [None]),  # unanswered
        ("uau", [0, 0, None]),
        ("uauu", [0, 0, None, None]),
        ("aua", [None, 0, 0]),  # an assistant speaks first
        ("sua", [None, 0, 0]),
        ("uaaa", [0, 0, 0, 0]),
        ("uaitaua", [0, 0, 0, 0, 0, 1, 1]),  # tool results do not open a turn
        ("uait", [0, 0, 0, 0]),
        ("uit", [None, None, None]),  # results without a response
        ("usaua", [0, 0, 0, 1, 1]),
        ("ss", [None, None]),
    ],
)
def test_turn_numbers_follow_glossary(kinds: str, expected: list[int | None]) -> None:
    assert numbers(kinds) == expected


def test_numbering_goes_on_from_later_turn() -> None:
    assert numbers("uaua", first_number=7) == [7, 7, 8, 8]


@given(st.text(alphabet="uiats", max_size=40))
def test_numbers_start_at_zero_never_skip_and_never_fall(kinds: str) -> None:
    seen = [number for number in numbers(kinds) if number is not None]
    assert seen == sorted(seen)
    assert sorted(set(seen)) == list(range(len(set(seen))))


@given(st.text(alphabet="uiats", max_size=40))
def test_every_numbered_turn_has_question_first_and_answer(kinds: str) -> None:
    result = numbers(kinds)
    for number in {n for n in result if n is not None}:
        turn = "".join(kind for kind, n in zip(kinds, result, strict=True) if n == number)
        assert turn[0] == "u"
        assert "a" in turn


@given(st.text(alphabet="uiats", max_size=30), st.text(alphabet="uiats", max_size=10))
def test_appended_messages_never_change_earlier_turn_numbers(before: str, added: str) -> None:
    old = numbers(before)
    new = numbers(before + added)[: len(before)]
    assert all(was is None or was == now for was, now in zip(old, new, strict=True))


@given(st.lists(st.text(alphabet="uiats", max_size=8), max_size=6))
def test_numbering_in_pieces_matches_whole_except_unanswered(pieces: list[str]) -> None:
    counter = TurnCounter()
    found = [number for piece in pieces for number in counter.number(KINDS[kind] for kind in piece)]
    whole = numbers("".join(pieces))
    assert all(number in (None, expected) for number, expected in zip(found, whole, strict=True))
    if len([piece for piece in pieces if piece]) == 1:
        assert found == whole
    if counter.turn_count is not None:
        assert found == whole
        assert counter.turn_count == len({number for number in whole if number is not None})


def test_number_of_turns_is_known_if_each_piece_ends_answered() -> None:
    counter = TurnCounter()
    for piece in ("sua", "iat", "uau"):
        counter.number(KINDS[kind] for kind in piece)
    assert counter.turn_count == 2
    counter.number([KINDS["a"]])  # answers a question whose message has no number yet
    assert counter.turn_count is None


def test_real_user_message_has_text_written_by_person() -> None:
    text = (TextPart("hello"),)
    assert is_real_user_message("user", text)
    assert not is_real_user_message("user", text, injected=True)
    assert not is_real_user_message("assistant", text)
    assert not is_real_user_message("user", (TextPart("  \n"),))
    assert not is_real_user_message("user", (ToolResultPart("t1", "output"),))
    assert not is_real_user_message("user", (ThinkingPart("hm"),))
    assert is_real_user_message("user", (ToolResultPart("t1", "output"), TextPart("and now?")))
