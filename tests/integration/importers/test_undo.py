import time
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations import tasks
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.links import request_undo, undo
from convmemory.conversations.importing.models import Import, ImportedConversation
from convmemory.conversations.importing.runner import ImportReport, OnStored, import_paths
from convmemory.conversations.importing.syncing import import_undoably
from convmemory.conversations.importing.watching import WatchedImports, joined
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.models import Conversation, Message
from convmemory.core.errors import InvalidInput, NotFound
from tests.factories import make_conversation, make_user
from tests.support.api import signed_in
from tests.support.importing import run_at_once
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db

FIRST = b'{"id": "chat-0001", "messages": [{"id": "a", "role": "user", "content": "one"}, %s]}\n'
ANSWER = b'{"id": "b", "role": "assistant", "content": "1"}'
LONGER = ANSWER + b', {"id": "c", "role": "user", "content": "two"}, {"id": "d", "role": "assistant", "content": "2"}'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run_at_once(monkeypatch)


@pytest.fixture
def owner() -> User:
    return make_user()


def imported(owner: User, data: bytes, name: str = "chats.jsonl") -> Import:
    row = imports.queue_import(caller=Caller.of(owner), file=SimpleUploadedFile(name, data))
    tasks.run(row.pk, archive_id=row.archive_id)
    row.refresh_from_db()
    assert row.state == Import.State.DONE, row.error
    return row


def undone(owner: User, row: Import) -> None:
    request_undo(caller=Caller.of(owner), import_id=row.pk)
    assert undo(caller=Caller.of(owner), import_id=row.pk, deadline=time.monotonic() + 60)
    row.refresh_from_db()
    assert row.state == Import.State.UNDONE


def message_texts(conversation: Conversation) -> list[str]:
    rows = conversation.messages.order_by("position")
    assert [row.position for row in rows] == list(range(len(rows)))
    return [row.parts[0]["text"] for row in rows]


def test_undo_deletes_conversations_made_by_import(owner: User) -> None:
    row = imported(owner, FIRST % ANSWER)
    assert ImportedConversation.objects.count() == 1
    undone(owner, row)
    assert not Conversation.objects.exists()
    assert not Message.objects.exists()


def test_undo_keeps_messages_of_earlier_imports(owner: User) -> None:
    imported(owner, FIRST % ANSWER)
    later = imported(owner, FIRST % LONGER)
    conversation = Conversation.objects.get()
    assert (conversation.turn_count, message_texts(conversation)) == (2, ["one", "1", "two", "2"])
    undone(owner, later)
    conversation.refresh_from_db()
    assert (conversation.turn_count, conversation.message_count) == (1, 2)
    assert message_texts(conversation) == ["one", "1"]


def test_undo_keeps_conversation_that_was_empty_before(owner: User) -> None:
    empty = make_conversation(owner, source="plain", source_id="chat-0001")
    row = imported(owner, FIRST % ANSWER)
    assert message_texts(empty) == ["one", "1"]
    undone(owner, row)
    assert message_texts(Conversation.objects.get()) == []


def test_undo_keeps_messages_added_later(owner: User) -> None:
    row = imported(owner, FIRST % ANSWER)
    conversation = Conversation.objects.get()
    drafts = [MessageDraft("user", (TextPart("mine"),)), MessageDraft("assistant", (TextPart("yes"),))]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=drafts)
    undone(owner, row)
    conversation.refresh_from_db()
    assert message_texts(conversation) == ["mine", "yes"]
    assert conversation.turn_count == 1


def test_undo_of_unchanged_import_removes_nothing(owner: User) -> None:
    imported(owner, FIRST % ANSWER)
    undone(owner, imported(owner, FIRST % ANSWER))
    assert message_texts(Conversation.objects.get()) == ["one", "1"]


def test_interrupted_undo_resumes_and_can_be_requested_twice(owner: User) -> None:
    lines = b"".join(FIRST.replace(b"chat-0001", b"chat-%04d" % number) % ANSWER for number in range(3))
    row = imported(owner, lines)
    request_undo(caller=Caller.of(owner), import_id=row.pk)
    request_undo(caller=Caller.of(owner), import_id=row.pk)
    assert not undo(caller=Caller.of(owner), import_id=row.pk, deadline=0)
    assert Conversation.objects.count() == 3
    Conversation.objects.all()[0].delete()
    assert tasks.undo_import(row.pk, archive_id=owner.pk) == {"finished": True}
    assert not Conversation.objects.exists()


def test_anothers_import_and_one_that_runs_cannot_be_undone(owner: User) -> None:
    row = imported(owner, FIRST % ANSWER)
    with pytest.raises(NotFound):
        request_undo(caller=Caller.of(make_user()), import_id=row.pk)
    Import.objects.filter(pk=row.pk).update(state=Import.State.QUEUED)
    with pytest.raises(InvalidInput, match="not ended"):
        request_undo(caller=Caller.of(owner), import_id=row.pk)


def test_import_page_links_to_conversations_and_offers_undo(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("convmemory.conversations.importing.views.enqueue_undo", lambda row: asked.append(row.pk))
    row = imported(owner, FIRST % ANSWER)
    client = signed_in(owner)
    page = client.get(f"/import/{row.pk}").content.decode()
    assert f'href="/conversations/{Conversation.objects.get().pk}"' in page
    assert "Undo this import" in page
    after = client.post(f"/import/{row.pk}/undo", follow=True).content.decode()
    assert asked == [row.pk]
    assert "being undone" in after
    assert "Undo this import" not in after


def test_zip_in_folder_is_imported(owner: User, tmp_path: Path) -> None:
    import io
    import zipfile

    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("chats.jsonl", FIRST % ANSWER)
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("part-1.zip", inner.getvalue())
    imported(owner, outer.getvalue(), "all.zip")
    assert message_texts(Conversation.objects.get()) == ["one", "1"]


def test_import_by_command_can_be_undone(owner: User, tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(FIRST % ANSWER)
    for _ in range(2):  # the second brings nothing, and is not listed
        call_command("import_conversations", path, "--user", owner.username, stdout=StringIO())
    [row] = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert (row.name, row.state, row.messages_read) == ("chats.jsonl", "done", 2)
    undone(owner, row)
    assert not Conversation.objects.exists()


def test_import_by_command_is_running_until_its_lease_ends(owner: User, tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_bytes(FIRST % ANSWER)

    def listed() -> Import:
        (row,) = imports.imports_of(caller=Caller.of(owner), limit=10)
        return row

    def run(on_stored: OnStored) -> ImportReport:
        report = import_paths(caller=Caller.of(owner), paths=[tmp_path], on_stored=on_stored)
        row = listed()
        assert (row.state, row.error, row.messages_read) == ("running", "", 2)
        with pytest.raises(InvalidInput, match="has not ended yet"):
            request_undo(caller=Caller.of(owner), import_id=row.pk)
        Import.objects.update(lease_until=timezone.now())  # as after the command was killed
        assert (listed().state, listed().failure) == ("failed", "interrupted")
        return report

    import_undoably(caller=Caller.of(owner), name="chats", run=run)
    assert listed().state == "done"


def test_command_that_was_interrupted_can_be_undone(owner: User, tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_bytes(FIRST % ANSWER)

    def run(on_stored: OnStored) -> ImportReport:
        import_paths(caller=Caller.of(owner), paths=[tmp_path], on_stored=on_stored)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_undoably(caller=Caller.of(owner), name="chats", run=run)
    [row] = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert (row.state, row.failure) == ("failed", "interrupted")
    undone(owner, row)
    assert not Conversation.objects.exists()


def test_sync_is_undone(owner: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    session = tmp_path / ".claude/projects/-p/0c5e2b7a-0000-4000-8000-00000000000a.jsonl"
    write_lines(session, [user_line("u1", "one?")])
    call_command("sync", "--user", owner.username, "--home", str(tmp_path), "--yes", stdout=StringIO())
    [row] = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert row.name == "sync of claude-code"
    undone(owner, row)
    assert not Conversation.objects.exists()


class Watch:
    """Do as `watch` does each time that an agent has written to its one session."""

    def __init__(self, owner: User, folder: Path) -> None:
        self.owner, self.folder, self.lines = owner, folder, list[dict[str, object]]()
        self.imports = WatchedImports(Caller.of(owner))

    def write(self, key: str, text: str) -> None:
        self.lines += [user_line(key, text), assistant_line(f"{key}-answer", f"About {text}")]
        write_lines(self.folder / "0c5e2b7a-0000-4000-8000-00000000000a.jsonl", self.lines)
        self.sync()

    def sync(self) -> None:
        report = import_paths(caller=Caller.of(self.owner), paths=[self.folder], on_stored=self.imports.on_stored)
        self.imports.add(report)


def added_by(row: Import) -> int:
    assert row.report is not None
    return int(row.report["total"]["added"])


@pytest.mark.usefixtures("from_noon_on")
def test_watch_makes_one_import_per_day(owner: User, tmp_path: Path) -> None:
    watch = Watch(owner, tmp_path)
    watch.sync()
    assert not Import.objects.exists()
    watch.write("u1", "bread")
    watch.write("u2", "rolls")
    watch.sync()
    [row] = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert (row.state, row.files_read, row.messages_read) == ("done", 1, 4)
    assert added_by(row) == 4
    Import.objects.update(created_at=row.created_at - timedelta(days=1))
    watch.write("u3", "cake")
    today, yesterday = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert (today.messages_read, yesterday.messages_read) == (6, 4)
    assert added_by(today) == 2
    undone(owner, today)
    assert message_texts(Conversation.objects.get()) == ["bread", "About bread", "rolls", "About rolls"]


def test_undone_watch_goes_on_in_another_import(owner: User, tmp_path: Path) -> None:
    watch = Watch(owner, tmp_path)
    watch.write("u1", "bread")
    [first] = imports.imports_of(caller=Caller.of(owner), limit=10)
    undone(owner, first)
    watch.write("u2", "rolls")
    second, _ = imports.imports_of(caller=Caller.of(owner), limit=10)
    assert added_by(second) == 4
    first.refresh_from_db()
    assert first.state == Import.State.UNDONE
    undone(owner, second)
    assert not Conversation.objects.exists()


def test_file_that_was_read_twice_is_counted_once() -> None:
    earlier = FileReport("a.jsonl", conversations=1, added=2, updated=1, unchanged=9)
    later = FileReport("a.jsonl", conversations=1, added=1, unchanged=12)
    both = joined(earlier, later)
    assert (both.added, both.updated, both.unchanged, both.messages) == (3, 1, 9, later.messages)
