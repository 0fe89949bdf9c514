"""Uploads are parsed in a confined process, which reads all kinds of them; hostile code in it reaches nothing else."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile

from convmemory.accounts.callers import Caller
from convmemory.conversations import tasks
from convmemory.conversations.importing import queue
from convmemory.conversations.importing.imports import queue_import, queue_mapped
from convmemory.conversations.importing.models import Import, KeptUpload, kept_storage
from convmemory.conversations.importing.work import EXIT_WITHOUT_DATABASE
from convmemory.conversations.models import Message
from convmemory.core.processes import confinement
from tests.factories import make_user
from tests.support.importing import let_children_in, uploads

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(bool(confinement.missing_parts()), reason="this kernel cannot confine processes"),
]

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"
LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'
THREADS = (TRANSCRIPTS / "zed" / "threads.db").read_bytes()
ROLLOUT = next((TRANSCRIPTS / "codex" / "sessions" / "2026" / "06").rglob("rollout-*.jsonl"))

# Runs an import as the fork server's child does, with hostile code in the place of the importers.
HOSTILE_CHILD = """
import ctypes, json, os, signal, socket, subprocess, sys
from pathlib import Path
import psycopg
from convmemory.conversations.importing import child as import_child

attempts, place, *arguments = sys.argv[1:]

def outcome(attempt):
    try:
        exec(attempt)
    except Exception as error:
        return type(error).__name__
    return "succeeded"

def hostile(*, folder, **_):
    assert len(os.listdir("/proc/self/task")) == 1, "other threads would not be confined"
    outcomes = {name: outcome(attempt) for name, attempt in json.loads(attempts).items()}
    (folder / "outcomes.json").write_text(json.dumps(outcomes))
    from convmemory.conversations.importing.models import Import
    from django.db import connection
    Import.objects.get()
    connection.close()
    Import.objects.get()

import_child._prepare()
from convmemory.conversations.importing import work as import_work
import_work.import_upload = hostile
import_child._work(arguments)
"""
ATTEMPTS = {
    "read the secret key": "Path(place, 'secret_key').read_bytes()",
    "list the folder of the secret key": "os.listdir(place)",
    "read another owner's upload": "Path(place, 'imports', '0', 'upload').read_bytes()",
    "read a kept upload": "Path(place, 'media', 'kept').read_bytes()",
    "write outside": "Path(place, 'new').write_bytes(b'x')",
    "read the environment of the parent": "Path(f'/proc/{os.getppid()}/environ').read_bytes()",
    "read the secret with a program": "subprocess.run(['cat', f'{place}/secret_key'], check=True, stderr=-3)",
    "open a Unix socket": "socket.socket(socket.AF_UNIX)",
    "open a TCP socket": "socket.socket(socket.AF_INET)",
    "open a UDP socket": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "connect to the database as another role": "psycopg.connect(os.environ['DATABASE_URL'], user='postgres')",
    "signal the parent": "os.kill(os.getppid(), 0)",
}
ENDINGS = {
    "read the secret with a program": "CalledProcessError",
    "connect to the database as another role": "OperationalError",
}


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> User:
    settings.IMPORT_FOLDER = tmp_path / "imports"
    settings.MEDIA_ROOT = tmp_path / "media"
    let_children_in(monkeypatch)
    return make_user()


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return packed.getvalue()


UPLOADS = {
    "chat.jsonl": LINES,
    "chat.zip": zipped(chat_jsonl=LINES, threads_db=THREADS, inner_zip=zipped(other_jsonl=LINES)),
    f"{ROLLOUT.name}.zst": zstandard.compress(ROLLOUT.read_bytes()),
    "threads.db": THREADS,
}


def test_every_kind_of_upload_is_read_and_kept_by_confined_process(owner: User) -> None:
    for name, content in UPLOADS.items():
        before = Message.objects.count()
        row = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile(name, content))
        outcome = tasks.run(row.pk, archive_id=owner.pk)
        row.refresh_from_db()
        assert outcome == {"state": "done"}, (name, row.error)
        assert row.report
        assert not [file["errors"] for file in row.report["files"] if file["errors"]], name
        assert Message.objects.count() > before or name == "threads.db", name
        assert row.kept is not None
        assert kept_storage().size_of(str(row.kept.file)) == row.kept.stored_size > 0
    assert KeptUpload.objects.count() == len(UPLOADS)
    assert uploads() == []


def test_kept_upload_is_read_again_by_mapping_in_confined_process(owner: User) -> None:
    chats = [{"said": [{"who": "me", "say": "what is it?"}, {"who": "it", "say": "that one"}]}]
    asked = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("own.json", json.dumps(chats).encode()))
    assert tasks.run(asked.pk, archive_id=owner.pk) == {"state": "failed"}
    asked.refresh_from_db()
    assert asked.report
    mapping = asked.report["files"][0]["proposal"]["mapping"]
    row = queue_mapped(caller=Caller.of(owner), import_id=asked.pk, mapping=mapping, is_preview=False)
    assert tasks.run(row.pk, archive_id=owner.pk) == {"state": "done"}
    assert Message.objects.filter(archive_id=owner.pk).count() == 2


@pytest.mark.essential
def test_hostile_code_in_import_reaches_neither_secrets_nor_sockets(owner: User, tmp_path: Path) -> None:
    queued = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("chat.jsonl", LINES))
    row = queue.claim(archive_id=owner.pk, import_id=queued.pk)
    assert row
    folder = tmp_path / "work"
    for path in (tmp_path / "secret_key", tmp_path / "imports" / "0" / "upload", tmp_path / "media" / "kept"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    folder.mkdir()
    arguments = [json.dumps(ATTEMPTS), str(tmp_path), str(row.pk), str(row.run), str(folder), str(owner.pk)]
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE_CHILD, *arguments],
        cwd=django_settings.BASE_DIR, capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "convmemory.settings"},
    )  # fmt: skip
    assert json.loads((folder / "outcomes.json").read_text()) == {
        name: ENDINGS.get(name, "PermissionError") for name in ATTEMPTS
    }, done.stderr
    assert done.returncode == EXIT_WITHOUT_DATABASE, "it used its connection, lost it, and did not get another"
    assert Import.objects.get().state == Import.State.RUNNING
