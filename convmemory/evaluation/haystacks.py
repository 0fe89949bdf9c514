"""What an evaluation set is, whatever file it came from, and how its files are read. Pure.

A haystack is the archive of one scratch user with the questions asked of it. Answers are named as the source names
them; their turns are known once the conversations are stored.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.core.errors import InvalidInput

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


# --- files ----------------------------------------------------------------------------------------
# Reads the files of evaluation sets; errors name the expected format.


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises: InvalidInput if the file cannot be read or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON: {error}") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file, gzipped or not. Raises: InvalidInput."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON lines: {error}") from error


def moment(text: str, *formats: str) -> datetime | None:
    """Return `text` as a moment in UTC by the first format that fits; None if none fits."""
    for pattern in formats:
        try:
            return datetime.strptime(text.strip(), pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
