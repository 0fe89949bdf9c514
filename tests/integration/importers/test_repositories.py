"""Repositories of folders, as clients, syncs and transcripts name them, and filters by project over them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.importing.runner import import_paths, import_upload
from convmemory.conversations.importing.syncing import sync_places
from convmemory.conversations.messages.ingest import change_conversation
from convmemory.conversations.models import Conversation, SeparateFolder
from convmemory.conversations.projects import rename_project
from convmemory.conversations.reading import page_of_conversations
from convmemory.push.ledger import Ledger
from convmemory.push.packing import pack, unsent
from convmemory.push.repositories import Repository
from convmemory.push.rules import Rules
from convmemory.push.stores import existing_stores
from tests.factories import exchange, make_conversation, make_user
from tests.unit.importers.helpers import write_lines

pytestmark = pytest.mark.django_db
BARN = "github.com/ada/barn"


def session(home: Path, number: int, cwd: str, **fields: Any) -> None:
    id = f"{number:08}-0000-4000-8000-000000000000"
    common = {"sessionId": id, "cwd": cwd, "timestamp": "2026-08-01T10:00:00Z", **fields}
    asked = {"type": "user", "uuid": f"{id}-u", "message": {"role": "user", "content": f"Question {number}?"}, **common}
    answer = {"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}."}]}
    answered = {"type": "assistant", "uuid": f"{id}-a", "parentUuid": f"{id}-u", "message": answer, **common}
    write_lines(home / f".claude/projects/-p/{id}.jsonl", [asked, answered])


def cloned(folder: Path, remote: str = "git@github.com:Ada/barn.git") -> str:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (folder / ".git" / "config").write_text(f'[remote "origin"]\nurl = {remote}\n')
    return str(folder)


def pushed(owner: User, home: Path) -> None:
    """Pack what the agents of a home folder wrote, and import the archive."""
    with Ledger(home / "ledger.db") as ledger:
        stores = existing_stores(home=home, environment={})
        items = list(unsent(stores, server="s", ledger=ledger, rules=Rules(), left_out=Counter()))
    archive = home / "transcripts.zip"
    pack(items, archive, home=home)
    with archive.open("rb") as file:
        report = import_upload(caller=Caller.of(owner), file=file, name=archive.name, folder=home / "unpacked")
    assert not report.refused
    assert not report.ignored


def titles(owner: User, project: str, repository: Repository | None = None) -> list[str]:
    filters = Filters(project=project, repository=repository)
    return sorted(row.title for row in page_of_conversations(caller=Caller.of(owner), filters=filters, limit=50)[0])


def test_pushed_archive_says_which_folders_are_of_repository(owner: User, tmp_path: Path) -> None:
    barn = cloned(tmp_path / "work" / "barn")
    for number, folder in enumerate([barn, f"{barn}/door", f"{barn}/.worktrees/roof", str(tmp_path / "notes")]):
        session(tmp_path, number, folder)
    pushed(owner, tmp_path)
    stored = Conversation.objects.order_by("title").values_list("project", "repository", "worktree")
    assert list(stored) == [
        (barn, BARN, ""), (f"{barn}/door", BARN, ""), (barn, BARN, f"{barn}/.worktrees/roof"),
        (str(tmp_path / "notes"), "", ""),
    ]  # fmt: skip
    everything = ["Question 0?", "Question 1?", "Question 2?"]
    assert titles(owner, "/Users/ada/barn", Repository(BARN, "/Users/ada/barn")) == titles(owner, BARN) == everything
    assert titles(owner, "/Users/ada/barn") == titles(owner, barn, Repository("github.com/bill/barn", barn)) == []
    stranger = make_user()
    make_conversation(stranger, exchange(("Theirs?", "Yes.")), title="Theirs", project=barn, repository=BARN)
    assert titles(owner, barn, Repository(BARN, barn)) == everything
    assert titles(stranger, barn, Repository(BARN, barn)) == ["Theirs"]


def test_worktrees_share_memory_until_switch_keeps_them_apart(owner: User, tmp_path: Path) -> None:
    """As transcripts alone say it: the folders are on another machine."""
    session(tmp_path, 1, "/home/kay/hoopoe")
    session(tmp_path, 2, "/home/kay/hoopoe/.claude/worktrees/fix-a")
    pushed(owner, tmp_path)
    for folder in ("", "/server", "/.claude/worktrees/fix-a", "/.claude/worktrees/fix-b/x"):
        assert titles(owner, f"/home/kay/hoopoe{folder}") == ["Question 1?", "Question 2?"]
    SeparateFolder.objects.create(archive_id=make_user().pk, folder="/home/kay/hoopoe", each_worktree=True)
    assert len(titles(owner, "/home/kay/hoopoe")) == 2
    SeparateFolder.objects.create(archive_id=owner.pk, folder="/home/kay/hoopoe", each_worktree=True)
    assert titles(owner, "/home/kay/hoopoe") == ["Question 1?"]
    assert titles(owner, "/home/kay/hoopoe/.claude/worktrees/fix-a/x") == ["Question 2?"]


def test_windows_spellings_of_folder_are_one_project(owner: User, tmp_path: Path) -> None:
    for number, folder in enumerate(
        ["C:\\Users\\kay\\turnstone", "C:/Users/kay/turnstone", "c:\\Users\\kay\\turnstone"]
    ):
        session(tmp_path, number, folder)
    pushed(owner, tmp_path)
    assert set(Conversation.objects.values_list("project", flat=True)) == {"C:/Users/kay/turnstone"}
    for name in ("turnstone", "c:\\users\\kay\\turnstone", "/mnt/c/Users/kay/turnstone", "/c/Users/kay/turnstone/src"):
        assert len(titles(owner, name)) == 3


def test_sync_reads_repository_of_this_machine(owner: User, tmp_path: Path) -> None:
    session(tmp_path, 1, cloned(tmp_path / "work" / "barn"))
    sync_places(caller=Caller.of(owner), stores=existing_stores(home=tmp_path, environment={}))
    assert Conversation.objects.get().repository == BARN


def test_transcript_names_its_repository_and_joins_earlier_ones_of_folder(owner: User, tmp_path: Path) -> None:
    earlier = make_conversation(owner, exchange(("Earlier?", "Yes.")), title="Earlier", project="/work/barn")
    id = "019f0000-0000-7000-8000-00000000000a"
    git = {"commit_hash": "a" * 40, "branch": "main", "repository_url": "https://github.com/ada/barn.git"}
    meta = {"id": id, "cwd": "/work/barn", "timestamp": "2026-08-01T10:00:00Z", "git": git}
    texts = (("user", "input_text", "Later?"), ("assistant", "output_text", "Yes."))
    records: list[tuple[str, dict[str, Any]]] = [("session_meta", meta)]
    for role, kind, text in texts:
        records.append(("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}))
    lines = [{"type": kind, "timestamp": "2026-08-01T10:00:00Z", "payload": payload} for kind, payload in records]
    write_lines(tmp_path / "sessions" / f"rollout-2026-08-01T10-00-00-{id}.jsonl", lines)
    assert not import_paths(caller=Caller.of(owner), paths=[tmp_path / "sessions"]).refused
    there = Repository(BARN, "/Users/ada/barn")
    assert titles(owner, "/Users/ada/barn", there) == ["Earlier", "Later?"]
    SeparateFolder.objects.create(archive_id=owner.pk, folder="/work/barn")
    assert titles(owner, "/Users/ada/barn", there) == []
    assert titles(owner, "/work/barn") == ["Earlier", "Later?"]
    # What its owner moves to another project is of the former repository no longer.
    change_conversation(caller=Caller.of(owner), conversation_id=earlier.pk, values={"project": "/work/roof"})
    assert titles(owner, "/work/barn") == ["Later?"]


def test_merged_projects_are_one_for_both_folders(owner: User) -> None:
    for number, name in enumerate(("/srv/ada/barn", "/srv/bill/barn")):
        make_conversation(owner, exchange(("Q?", "A.")), title=f"{number}", project=name, repository=f"x.org{name}")
    assert titles(owner, "/srv/ada/barn") == ["0"]
    rename_project(caller=Caller.of(owner), project="/srv/ada/barn", name="/srv/bill/barn")
    asked = Repository("x.org/srv/ada/barn", "/srv/ada/barn")
    assert titles(owner, "/srv/ada/barn", asked) == titles(owner, "/srv/ada/barn/door") == ["0", "1"]
    assert titles(owner, "/srv/bill/barn") == ["0", "1"]
