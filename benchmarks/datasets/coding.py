"""Reads coding agents' runs: a folder with `messages.jsonl.gz` and `queries.jsonl`.

Each repository is a haystack, each recorded run a conversation. A query is a commit subject, an intent, a lesson or an
open item; its answer is any turn with one of the messages that it was derived from.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.haystacks import SOURCE, Haystack, Question, read_lines
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart

SPOKEN = frozenset({"human", "text", "tool_call"})
Lines = list[dict[str, Any]]


def read(path: Path) -> Iterator[Haystack]:
    """Yield one haystack per repository. Raises: InvalidInput."""
    runs: dict[str, dict[str, Lines]] = defaultdict(lambda: defaultdict(list))
    for line in read_lines(path / "messages.jsonl.gz"):
        kept = runs[line["repo"]][line["session"]]
        if line["kind"] in SPOKEN and line["text"].strip():
            kept.append(line)
    queries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for query in read_lines(path / "queries.jsonl"):
        queries[query["repo"]].append(query)
    for repository, sessions in runs.items():
        # The runs that contain each message: some tools restart line numbers in each run.
        homes: dict[str, set[str]] = defaultdict(set)
        for session, lines in sessions.items():
            for line in lines:
                homes[line["uuid"]].add(session)
        questions = (_question(query, homes) for query in queries[repository])
        yield Haystack(repository.rsplit("/", 1)[-1], partial(_drafts, sessions), tuple(questions))


def _question(query: Mapping[str, Any], homes: Mapping[str, set[str]]) -> Question:
    """Return the question; if the query names its run, only that run's messages are right."""
    # Seven of 471 queries are labelled by a line number, which each run restarts; without their run nothing finds their
    # answers.
    named = {query["gold_session"]} if query.get("gold_session") else None
    matches = ((session, uuid) for uuid in query["gold_uuids"] for session in homes.get(uuid, ()))
    messages = frozenset((session, uuid) for session, uuid in matches if named is None or session in named)
    return Question(
        text=query["query"],
        category=query["type"],
        fold=min((session for session, _ in messages), default=""),
        messages=messages,
    )


def _drafts(sessions: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[ConversationDraft]:
    for number, (session, lines) in enumerate(sessions.items(), 1):
        messages = []
        for line in lines:
            part: Part = TextPart(line["text"])
            if line["kind"] == "tool_call":
                name, _, rest = line["text"].partition(" ")
                part = ToolCallPart(id=line["uuid"], name=name, input={"arguments": rest})
            at = datetime.fromisoformat(line["ts"]) if line["ts"] else None
            messages.append(MessageDraft(line["role"], (part,), created_at=at, source_key=line["uuid"]))
        yield ConversationDraft(messages, source=SOURCE, source_id=session, title=f"Run {number}")
