"""The sentence of a turn that says most of what was asked, for the hit to show."""

import re
from collections.abc import Sequence

from convmemory.conversations.models import Message
from convmemory.conversations.parts import TextPart
from convmemory.core.text import one_line

PASSAGE_CHARS = 280
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = re.compile(r"\w{3,}")


def best_passages(*, owner_id: int, turns: Sequence[tuple[int, int]], text: str) -> dict[tuple[int, int], str]:
    """For each (conversation, turn) of the owner, its sentence that shares most words with `text`."""
    wanted = set(_WORDS.findall(text.lower()))
    rows = Message.objects.filter(
        conversation__owner_id=owner_id,
        conversation_id__in={conversation for conversation, _ in turns},
        turn_number__in={turn for _, turn in turns},
        role__in=("user", "assistant"),
    ).order_by("position")
    best: dict[tuple[int, int], tuple[int, str]] = {}
    for message in rows:
        turn = (message.conversation_id, message.turn_number or 0)
        for sentence in _sentences(message):
            score = len(wanted.intersection(_WORDS.findall(sentence.lower())))
            if turn not in best or score > best[turn][0]:
                best[turn] = (score, sentence)
    return {turn: one_line(sentence, PASSAGE_CHARS) for turn, (_, sentence) in best.items()}


def _sentences(message: Message) -> list[str]:
    said = (part.text for part in message.typed_parts if isinstance(part, TextPart))
    return [sentence for text in said for sentence in _SENTENCES.split(text) if sentence.strip()]
