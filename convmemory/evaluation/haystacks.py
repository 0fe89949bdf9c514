"""The values of an evaluation set, independent of its file format. Pure.

A haystack is the archive of one scratch user with the questions asked of it. Answers are named as the source names
them; their turns are known once the conversations are stored.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

from convmemory.conversations.drafts import ConversationDraft

SOURCE = "evaluation"
"""The source name of stored conversations, so that a second load finds them."""

MessageRef = tuple[str, str]
"""Source id of a conversation, source key of one of its messages."""
TurnRef = tuple[str, int]
"""Source id of a conversation, turn number."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the messages, or the turns, that answer it.

    `fold` names the group of questions that is split together into development and held-out ones; `asked_at` is the day
    on which it is asked, if that matters.
    """

    text: str
    category: str
    fold: str
    messages: frozenset[MessageRef] = frozenset()
    turns: frozenset[TurnRef] = frozenset()
    asked_at: date | None = None


@dataclass(frozen=True, slots=True)
class Haystack:
    """One user's conversations and questions; `drafts` creates the conversations again at each call.

    The conversations answer none of the questions in `without_answer`.
    """

    name: str
    drafts: Callable[[], Iterable[ConversationDraft]]
    questions: tuple[Question, ...]
    without_answer: tuple[Question, ...] = ()
