"""Reads LongMemEval: each question has a haystack of chat sessions of its own.

Each question becomes one haystack, each session in it a conversation. The evidence is the messages marked `has_answer`,
or all messages of the answer sessions if none is marked. Questions without an answer (`..._abs`) are left out. Source:
xiaowu0162/LongMemEval, `longmemeval_s.json` and its variants.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.haystacks import Haystack, Question, chat, moment, read_json
from convmemory.conversations.messages.drafts import ConversationDraft

DATE_FORMATS = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d")


def read(path: Path) -> Iterator[Haystack]:
    """Yield one haystack per question. Raises: InvalidInput."""
    for entry in read_json(path):
        name = str(entry["question_id"])
        if name.endswith("_abs"):
            continue
        answers = set(entry["answer_session_ids"])
        sessions = [(source_id, messages) for source_id, own_id, _, messages in _sessions(entry) if own_id in answers]
        refs = {
            (source_id, str(position)): bool(message.get("has_answer"))
            for source_id, messages in sessions
            for position, message in enumerate(messages)
        }
        question = Question(
            text=entry["question"],
            category=entry["question_type"],
            fold=name,
            messages=frozenset(ref for ref, marked in refs.items() if marked) or frozenset(refs),
        )
        yield Haystack(name, partial(_drafts, entry), (question,))


def _sessions(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str, list[dict[str, Any]]]]:
    """Yield (id within the haystack, the session's own id, date, messages); a haystack can contain a session twice."""
    columns = (entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"])
    for number, (own_id, date, messages) in enumerate(zip(*columns, strict=True)):
        yield f"{entry['question_id']}/{number}", own_id, date, messages


def _drafts(entry: Mapping[str, Any]) -> Iterator[ConversationDraft]:
    for source_id, own_id, date, messages in _sessions(entry):
        texts = ((message["role"], message["content"]) for message in messages)
        yield chat(texts, source_id=source_id, title=own_id, created_at=moment(date, *DATE_FORMATS))
