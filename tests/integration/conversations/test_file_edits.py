"""Edits of files are stored with each change of a turn; a worker makes those of conversations of an older version."""

from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.numbering import renew_outcomes
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, FileEdit
from tests.factories import assistant_says, make_conversation, user_says

pytestmark = pytest.mark.django_db
_numbers = count(1)


def agent_edits(*calls: tuple[str, dict[str, Any]], text: str = "Done.", ends: bool = True) -> list[MessageDraft]:
    parts = [ToolCallPart(f"call-{next(_numbers)}", name, given) for name, given in calls]
    results = [ToolResultPart(part.id, "ok", is_error=not ends) for part in parts]
    return [
        MessageDraft(role="assistant", parts=(TextPart("I edit."), *parts)),
        MessageDraft(role="tool", parts=tuple(results)),
        assistant_says(text),
    ]


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "Write", {"file_path": path, "content": content}


def stored(conversation: Conversation) -> list[tuple[int, str]]:
    rows = FileEdit.objects.filter(archive_id=conversation.archive_id, conversation=conversation).order_by("pk")
    return list(rows.values_list("turn_number", "path"))


def test_each_turn_stores_the_files_that_it_edits_relative_to_the_project(owner: User) -> None:
    first = [user_says("Make two files."), *agent_edits(write("/barn/a.py", "x"), write("/etc/b", "y"))]
    made = make_conversation(owner, first, project="/barn")
    assert stored(made) == [(0, "a.py"), (0, "/etc/b")]
    more = [
        user_says("And a third."),
        *agent_edits(write("/barn/src/c.py", "z")),
        *agent_edits(write("/barn/d", ""), ends=False),
    ]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=more)
    assert stored(made) == [(0, "a.py"), (0, "/etc/b"), (1, "src/c.py")]


def test_worker_reads_edits_of_conversations_of_an_older_version(owner: User) -> None:
    made = make_conversation(
        owner, [user_says("Make a file."), *agent_edits(write("/barn/a.py", "x"))], project="/barn"
    )
    FileEdit.objects.filter(conversation=made).delete()
    Conversation.objects.filter(pk=made.pk).update(outcome_version=1)
    assert renew_outcomes(limit=10) == 1
    assert stored(made) == [(0, "a.py")]
    assert renew_outcomes(limit=10) == 0
