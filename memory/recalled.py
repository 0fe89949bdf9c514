"""The result of a recall, as values: messages with their passages, and the openings of their turns.

Created by `memory/recall.py`, read by `memory/context.py`, the API, tools and pages. Pure.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

NOTHING_ANSWERS = "Nothing is recalled: nothing here seems to answer this. A search shows what comes nearest."

Side = Literal["user", "assistant"]
"""A side of a turn, whatever the speaker's name."""
ChunkId = tuple[int, int, int]
"""Message id, part and first character: the identity of a passage."""


@dataclass(frozen=True, slots=True)
class RecalledPassage:
    """Characters `start` to `end` of one part of a message. `similarity` is a cosine, 0 if none was compared.

    `leading` is the white space right before it in its part, which separates it from the previous passage.
    """

    message_id: int
    part_index: int
    start: int
    end: int
    text: str
    similarity: float = 0.0
    leading: str = ""

    @property
    def key(self) -> ChunkId:
        return self.message_id, self.part_index, self.start


@dataclass(frozen=True, slots=True)
class Opening:
    """The first passage of what one side of a turn said."""

    passage: RecalledPassage
    speaker: str
    position: int


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """One message that answers a query.

    `passages` are its passages nearest to the query, in the order of the text; `similarity` is the cosine of the best
    of them, `score` is comparable within one recall only. The openings are those of its turn's question and answer.
    """

    message_id: int
    conversation_id: int
    title: str
    turn_number: int
    position: int
    role: str
    speaker: str
    created_at: datetime | None
    passages: tuple[RecalledPassage, ...]
    similarity: float
    score: float
    question_opening: Opening | None = None
    answer_opening: Opening | None = None

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"

    @property
    def by_similarity(self) -> tuple[RecalledPassage, ...]:
        """Return the passages, nearest to the query first."""
        return tuple(sorted(self.passages, key=lambda passage: -passage.similarity))


@dataclass(frozen=True, slots=True)
class Recall:
    """The messages that answer a query, best first, and notes for the caller.

    `answered` is false if nothing is likely to answer, so that the result is empty; None if that is unknown.
    """

    query: str
    messages: tuple[RecalledMessage, ...] = ()
    notes: tuple[str, ...] = ()
    answered: bool | None = None
