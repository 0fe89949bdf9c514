"""Reads our own questions over the sample conversations: a folder of `questions*.jsonl`, or one such file.

A line has `query`, `conversation` (source id of a sample), `turns` and `kind`, and if it matters `asked_at`, a day. The
conversations of a `conversations.jsonl` in the same folder are searched too: `id`, `title`, `created_at`, `messages`
with `role` and `content`. The questions in `no_answer.jsonl` have no answer: `query`, `kind`, and as `fold` the closest
conversation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks.datasets.haystacks import SOURCE, Haystack, Question, read_lines
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.samples_loader import SAMPLES
from convmemory.core.errors import InvalidInput

MORE = "conversations.jsonl"
NO_ANSWER = "no_answer.jsonl"


def read(path: Path) -> Iterator[Haystack]:
    """Yield one haystack: all samples and all questions. Raises: InvalidInput."""
    files = sorted(path.glob("questions*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path} holds no questions*.jsonl file.")
    questions = [
        Question(
            text=line["query"],
            category=line["kind"],
            fold=line["conversation"],
            asked_at=date.fromisoformat(line["asked_at"]) if "asked_at" in line else None,
            turns=frozenset((line["conversation"], turn) for turn in line["turns"]),
        )
        for file in files
        for line in read_lines(file)
    ]
    folder = path if path.is_dir() else path.parent
    more = folder / MORE
    drafts = partial(_drafts, more)
    file = folder / NO_ANSWER
    lines = read_lines(file) if file.exists() else ()
    yield Haystack(
        path.name if more.exists() else "samples",
        drafts,
        tuple(questions),
        tuple(Question(text=line["query"], category=line["kind"], fold=line["fold"]) for line in lines),
    )


def _drafts(more: Path) -> Iterator[ConversationDraft]:
    """Yield the sample conversations, and those of the file `more` if there is one."""
    if more.exists():
        yield from map(_draft, read_lines(more))
    with resources.as_file(SAMPLES) as folder:
        for file in sorted(folder.glob("*.json")):
            for draft in PlainImporter().parse(Source(file), FileReport(path=str(file))):
                yield replace(draft, source=SOURCE)


def _draft(line: Mapping[str, Any]) -> ConversationDraft:
    messages = [
        MessageDraft(role=message["role"], parts=(TextPart(message["content"]),), source_key=str(number))
        for number, message in enumerate(line["messages"])
    ]
    when = datetime.fromisoformat(line["created_at"])
    return ConversationDraft(messages, source=SOURCE, source_id=line["id"], title=line["title"], created_at=when)
