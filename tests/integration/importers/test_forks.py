from pathlib import Path

import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db

SESSION, FORK = "0c5e2b7a-0000-4000-8000-00000000000a", "0c5e2b7a-0000-4000-8000-00000000000b"
OPENING = [user_line("u1", "Which glaze?"), assistant_line("a1", "A blue one.")]
OWN = [user_line("u2", "How hot?"), assistant_line("a2", "At 900 degrees.")]


def message_texts(source_id: str) -> list[str]:
    rows = Conversation.objects.get(source_id=source_id).messages.order_by("position")
    return [row.parts[0]["text"] for row in rows]


def write(folder: Path, name: str, *, lines: list[dict[str, object]], kind: str = "") -> Path:
    marked = [{**line, "sessionKind": kind} if kind else line for line in lines]
    return write_lines(folder / f"{name}.jsonl", marked)


def test_forked_session_keeps_only_its_own_messages(tmp_path: Path) -> None:
    owner = make_user()
    paths = [write(tmp_path, SESSION, lines=OPENING), write(tmp_path, FORK, lines=OPENING + OWN, kind="bg")]
    for _ in range(2):
        import_paths(caller=Caller.of(owner), paths=paths)
        assert message_texts(SESSION) == ["Which glaze?", "A blue one."]
        assert message_texts(FORK) == ["How hot?", "At 900 degrees."]
    parent = Conversation.objects.get(source_id=FORK).parent
    assert parent
    assert parent.source_id == SESSION


def test_fork_without_its_session_is_stored_whole(tmp_path: Path) -> None:
    import_paths(caller=Caller.of(make_user("eve")), paths=[write(tmp_path, SESSION, lines=OPENING)])
    import_paths(caller=Caller.of(make_user()), paths=[write(tmp_path, FORK, lines=OPENING + OWN, kind="bg")])
    assert len(message_texts(FORK)) == 4
