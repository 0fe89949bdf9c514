"""What an evaluation set is, whatever file it came from, and how its files are read. Pure.

A haystack is the archive of one scratch user with the questions asked of it. Answers are named as the source names
them; their turns are known once the conversations are stored.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.messages.turns import TurnMessage, is_real_user_message, number_turns
from convmemory.core.errors import InvalidInput

ASKED_ELSEWHERE = 20  # about so many questions without an answer are asked of a small archive
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


def cut_archives(haystack: Haystack, *, turns: int, count: int) -> Iterator[Haystack]:
    """Yield up to `count` archives of `turns` consecutive turns each, evenly spread over the haystack.

    An archive has the questions that its turns answer; all others of the haystack have no answer there. The names of
    its conversations contain that of the archive: one of the same name would keep the messages of another cut.
    """
    cut = [(draft, turn) for draft in haystack.drafts() for turn in turns_of(draft)]
    for start in range(0, max(1, len(cut) - turns + 1), max(1, (len(cut) - turns) // max(1, count - 1))):
        name = f"{haystack.name}-{turns}-{start}"
        drafts: dict[str, ConversationDraft] = {}
        first: dict[str, int] = {}
        for draft, (number, messages) in cut[start : start + turns]:
            first.setdefault(draft.source_id, number)
            kept = drafts.get(draft.source_id) or replace(draft, source_id=f"{name}/{draft.source_id}", messages=())
            drafts[draft.source_id] = replace(kept, messages=(*kept.messages, *messages))
        keys = {(source_id, one.source_key) for source_id, draft in drafts.items() for one in draft.messages}
        turn_keys = {(draft.source_id, number) for draft, (number, _) in cut[start : start + turns]}
        answered = [
            q for q in haystack.questions if q.messages | q.turns and q.messages <= keys and q.turns <= turn_keys
        ]
        without = [q for q in haystack.questions if not (q.messages & keys or q.turns & turn_keys)]
        without = without[:: max(1, len(without) // ASKED_ELSEWHERE)]
        questions = [
            replace(
                question,
                messages=frozenset((f"{name}/{source_id}", key) for source_id, key in question.messages),
                turns=frozenset((f"{name}/{source_id}", turn - first[source_id]) for source_id, turn in question.turns),
            )
            for question in answered
        ]
        unanswered = [
            replace(question, category="of other turns", messages=frozenset(), turns=frozenset())
            for question in without
        ]
        yield Haystack(name, partial(iter, list(drafts.values())), tuple(questions), tuple(unanswered))


def turns_of(draft: ConversationDraft) -> list[tuple[int, list[MessageDraft]]]:
    """Return the turns of a conversation with their numbers."""
    messages = list(draft.messages)
    facts = [
        TurnMessage(one.role, is_real_user_message(one.role, one.parts, injected=one.injected), one.superseded)
        for one in messages
    ]
    turns: dict[int, list[MessageDraft]] = {}
    for number, message in zip(number_turns(facts), messages, strict=True):
        if number is not None:
            turns.setdefault(number, []).append(message)
    return list(turns.items())


def chat(
    messages: Iterable[tuple[str, str]], *, source_id: str, title: str, created_at: datetime | None
) -> ConversationDraft:
    """Return a conversation of (role, text); the source keys of its messages are their places."""
    drafts = [
        MessageDraft(
            role="user" if role == "user" else "assistant",
            parts=(TextPart(text),),
            created_at=created_at,
            source_key=str(position),
        )
        for position, (role, text) in enumerate(messages)
    ]
    return ConversationDraft(drafts, source=SOURCE, source_id=source_id, title=title, created_at=created_at)


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
