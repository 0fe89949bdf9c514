"""`<think>` in a text is thinking, however the text comes in; what only mentions the tag stays text."""

import random

import pytest

from convmemory.chat.capture import ReplyReader
from convmemory.chat.wires import CHAT
from convmemory.conversations.importers.content import message_draft
from convmemory.conversations.messages.parts import Part, TextPart, ThinkingPart
from convmemory.conversations.messages.thinking import ThinkingSplitter, thinking_apart

HM, YES = ThinkingPart("hm"), TextPart("Yes.")
CASES: dict[str, tuple[Part, ...]] = {
    "<think>\nhm\n</think>\n\nYes.": (HM, YES),
    "\n<thinking>hm</thinking>Yes.": (HM, YES),
    "<think>\n\n</think>\n\nYes.": (YES,),
    "<think>hm": (HM,),
    "hm\n</think>\nYes.": (HM, YES),
    "Yes.\n<think>\nhm\n</think>\nYes.": (YES, HM, YES),
    "<think>hm</think><think>hm</think>Yes.": (ThinkingPart("hmhm"), YES),
}
AS_IT_IS = (
    *("Yes.", "  Yes.\n\n", "The tag <think> begins it.", "<thin", "<", "``", "Yes, `</think>`", ""),
    *("Yes.\n<think> begins it, </think> ends it.", "```\n<think>\nhm\n</think>\n```\nYes."),
)


@pytest.mark.parametrize("text", CASES)
def test_thinking_becomes_parts_of_its_own(text: str) -> None:
    assert thinking_apart([TextPart(text)]) == CASES[text]
    assert message_draft({"role": "assistant", "content": text}).parts == CASES[text]


@pytest.mark.parametrize("text", AS_IT_IS)
def test_text_without_block_stays_as_it_is(text: str) -> None:
    assert thinking_apart([TextPart(text)]) == (TextPart(text),)


def test_persons_text_stays_as_it_is() -> None:
    assert message_draft({"role": "user", "content": "<think>hm</think>Yes."}).parts == (
        TextPart("<think>hm</think>Yes."),
    )


def test_reply_of_proxy_that_was_not_streamed_is_split_too() -> None:
    body = b'{"choices": [{"message": {"content": "<think>hm</think>Yes."}}]}'
    reply = ReplyReader(CHAT)
    reply.add(body)
    assert reply.received().draft.parts == (HM, YES)


@pytest.mark.parametrize("text", [*CASES, *AS_IT_IS])
def test_pieces_of_any_size_give_same(text: str) -> None:
    for seed in range(20):
        dice, splitter, at = random.Random(seed), ThinkingSplitter(), 0
        said = {True: "", False: ""}
        while at < len(text):
            end = at + dice.randint(1, 4)
            for is_thinking, piece in splitter.feed(text[at:end]):
                said[is_thinking] += piece
            at = end
        for is_thinking, piece in splitter.finish():
            said[is_thinking] += piece
        whole = ThinkingSplitter()
        pieces = [*whole.feed(text), *whole.finish()]
        assert said == {kind: "".join(piece for is_it, piece in pieces if is_it is kind) for kind in (True, False)}
