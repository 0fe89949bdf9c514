"""Backup and restore as a person runs them: the real commands on a data folder of their own."""

import hashlib
import json
import os
import pty
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_django

from convmemory.core.errors import InvalidInput
from convmemory.core.files.private_files import DRAFT_SUFFIX
from convmemory.core.postgres import configuration, embedded, server
from convmemory.ops.privacy import backup as backup_module
from convmemory.ops.privacy import backup_places, restoring
from convmemory.ops.privacy.backup_places import Bucket
from tests.conftest import FAST_OPTIONS
from tests.support.forked_commands import ForkedCommands
from tests.support.prepared_folder import copy_prepared_folder
from tests.support.run_database import ROOT
from tests.support.s3_server import BUCKET, client, running_s3_server

pytestmark = pytest.mark.slow

FILL = """
from django.contrib.auth.models import User
from tests.factories import exchange, make_conversation
from search.adapters.conversations import index_conversation
ada = User.objects.create_user("ada", password="correct horse")
conversation = make_conversation(ada, exchange(("where is the zebrafish lab?", "In Lima.")), title="Fish")
from tests.support.documents import upload
upload(ada, "# The lab\\n\\nIt has forty tanks.", "lab.md")
from django.core.files.uploadedfile import SimpleUploadedFile
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.importing.kept_uploads import keep_upload
from convmemory.accounts.callers import Caller
row = queue_import(caller=Caller.of(ada), file=SimpleUploadedFile("chat.jsonl", b"a transcript"))
with row.file.open() as file:
    keep_upload(row, file)
print(index_conversation(conversation_id=conversation.pk).computed)
"""
FILL_BOB = """
from django.contrib.auth.models import User
from tests.factories import exchange, make_conversation
bob = User.objects.create_user("bob", password="battery staple")
make_conversation(bob, exchange(("what is a quagga?", "A zebra.")))
"""
CHANGE = """
INSERT INTO auth_user (username, password, first_name, last_name, email, is_superuser, is_staff, is_active, date_joined)
VALUES ('eve', '', '', '', '', false, false, true, now())
"""
LAST_ENTRIES = "SELECT action, what FROM accounts_auditentry ORDER BY id"
USERS = "SELECT username FROM auth_user ORDER BY 1"
SHOW = """
from django.contrib.auth.models import User
from convmemory.accounts.callers import Caller
from search.searching import SearchQuery, search
names = sorted(User.objects.values_list("username", flat=True))
ada = User.objects.filter(username="ada").first()
hits = search(caller=Caller.of(ada), query=SearchQuery(text="zebrafish")).hits if ada else []
print(names, [hit.passage for hit in hits])
"""
FILES = """
from convmemory.documents.models import Document
from convmemory.documents.storage import document_storage
rows = [row for row in Document.objects.order_by("name") if row.file.storage.exists(str(row.file))]
print([(row.name, row.file.read().decode()) for row in rows])
"""
UPLOADS = """
from convmemory.conversations.importing.kept_uploads import opened
from convmemory.conversations.models import KeptUpload
for row in KeptUpload.objects.all():
    with opened(row) as file:
        print([row.name, file.read()])
"""
WAITING = """
from convmemory.conversations.importing.models import Import
print([row.file.read() for row in Import.objects.filter(state="queued")])
"""
ADD = """
from django.contrib.auth.models import User
from tests.support.documents import upload
print(upload(User.objects.get(username="ada"), "Newer than the backup.", "newer.md").file.path)
"""
POLICIES = "SELECT polrelid::regclass::text, polname, pg_get_expr(polqual, polrelid) FROM pg_policy ORDER BY 1, 2"
LAB = r"[('lab.md', '# The lab\n\nIt has forty tanks.')]"


class Installation:
    """A data folder with an embedded database."""

    def __init__(self, folder: Path, commands: ForkedCommands) -> None:
        self.folder, self.commands = folder, commands

    def run(self, *arguments: str, ok: bool = True) -> str:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
        result = self.commands.run(*arguments, environment=outside | {"CONVMEMORY_VAR": str(self.folder)})
        assert (result.returncode == 0) == ok, result.stdout + result.stderr
        self.warnings = result.stderr
        return result.stdout if ok else result.stderr

    def shell(self, code: str) -> str:
        return self.run("shell", "--no-imports", "-c", code).strip().splitlines()[-1]

    @property
    def target(self) -> dict[str, Any]:
        return {
            "host": str(self.folder / "postgres"),
            "port": configuration.PORT,
            "user": "postgres",
            "dbname": "convmemory",
        }

    def query(self, statement: str, database: str = "convmemory") -> list[tuple[Any, ...]]:
        with psycopg.connect(**{**self.target, "dbname": database}, autocommit=True) as link:
            cursor = link.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with closing(ForkedCommands()) as commands:
        installation = Installation(tmp_path_factory.mktemp("backup") / "var", commands)
        copy_prepared_folder(installation.folder / "postgres")
        embedded.join(installation.folder / "postgres", FAST_OPTIONS)  # one server for all the commands
        assert installation.shell(FILL + FILL_BOB) == "2"
        yield installation
        server.stop(installation.folder / "postgres")


def agree(counts: Mapping[str, int]) -> None:
    """Let a restore replace the rows."""


@pytest.fixture(scope="module")
def backup(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "monday.zip"
    assert "rows" in installation.run("backup", str(path))
    assert "exists already" in installation.run("backup", str(path), ok=False)
    return path


def test_restore_gives_back_rows_vectors_and_hits(installation: Installation, backup: Path) -> None:
    installation.run("erase_user", "bob", "--yes")
    before, policies = installation.shell(SHOW), installation.query(POLICIES)
    assert before == "['ada'] ['where is the zebrafish lab?']"
    assert len(policies) > 20
    installation.query(CHANGE)
    refused = installation.run("restore", str(backup), ok=False)
    assert re.search(r"auth_user +2 rows\n.*conversations_conversation +\d+ rows\n", refused)
    assert "Nothing was replaced. There is no terminal to ask on: --yes agrees" in refused
    assert installation.query(USERS) == [("ada",), ("eve",)]

    assert "Erased again: bob." in installation.run("restore", str(backup), "--yes")
    assert len(installation.query("SELECT checked_at FROM ops_restorecheck")) == 1
    assert installation.query(LAST_ENTRIES)[-2:] == [("restored", "backup"), ("erased", "account 2")]

    assert "SECRET_KEY" not in installation.warnings
    assert installation.shell(SHOW) == before
    assert installation.query(POLICIES) == policies


def test_restore_asks_on_terminal(installation: Installation, backup: Path) -> None:
    """A process of its own on a pseudo-terminal, as an operator has it: any answer but yes keeps everything."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
    before = installation.query(USERS)
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "rb+", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "restore", str(backup), "--no-color"],
            cwd=ROOT, env=outside | {"CONVMEMORY_VAR": str(installation.folder)}, stdin=terminal, stderr=terminal,
        )  # fmt: skip
        os.close(terminal)
        shown = b""
        while b"Type yes to agree" not in shown:
            shown += screen.read(1_000)
        screen.write(b"y\n")
        assert process.wait(60) == 1
    assert re.search(rb"auth_user +\d+ rows", shown)
    assert installation.query(USERS) == before


def test_restore_check_replaces_nothing_and_is_recorded(
    installation: Installation, backup: Path, tmp_path: Path
) -> None:
    assert "damaged" in installation.run("restore", str(damaged(backup, tmp_path / "broken.zip")), "--check", ok=False)
    installation.query("DELETE FROM ops_restorecheck")
    everything = installation.shell(SHOW)
    assert "Nothing was replaced" in installation.run("restore", str(backup), "--check")
    assert len(installation.query("SELECT checked_at FROM ops_restorecheck")) == 1
    assert installation.shell(SHOW) == everything
    names = installation.query("SELECT datname FROM pg_database WHERE datname LIKE 'convmemory%'")
    assert names == [("convmemory",)]


def test_restore_killed_before_erasing_again_leaves_erased_users_shut_out(here: Installation, backup: Path) -> None:
    with psycopg.connect(**here.target) as link:
        erased = link.execute("SELECT account, joined_at FROM ops_eraseduser").fetchall()
    restoring.restore(path=backup, erased=erased, confirm=agree)  # and nothing of what the command does afterwards

    assert here.query("SELECT username FROM auth_user WHERE NOT is_active") == [("bob",)]
    assert "1" in here.shell("from convmemory.ops.tasks import finish_erasures; print(finish_erasures())")
    assert "bob" in here.run("restore", str(backup), "--yes")


@pytest.fixture(scope="module")
def fresh(backup: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation that a restore made from nothing, by an account whose files everybody may read."""
    with closing(ForkedCommands()) as commands:
        fresh = Installation(tmp_path_factory.mktemp("fresh") / "var", commands)
        umask = os.umask(0)
        try:
            fresh.run("restore", str(backup))
        finally:
            os.umask(umask)
        assert "written with another SECRET_KEY" in fresh.warnings
        yield fresh


def test_new_installation_takes_backup_without_asking(fresh: Installation) -> None:
    assert fresh.shell(SHOW) == "['ada', 'bob'] ['where is the zebrafish lab?']"
    assert fresh.shell(FILES) == LAB
    assert fresh.shell(WAITING) == "[b'a transcript']"


def test_ledger_of_another_installation_erases_again(
    installation: Installation, fresh: Installation, tmp_path: Path
) -> None:
    ledger = tmp_path / "erasures"
    ledger.write_text(installation.run("erasures"))
    assert "Erased again: bob." in fresh.run("erasures", "--apply", str(ledger), "--yes")
    assert fresh.shell(SHOW).startswith("['ada']")
    ledger.write_text("bob")
    assert "is not the output" in fresh.run("erasures", "--apply", str(ledger), ok=False)


def test_scheduled_backups_keep_newest(installation: Installation, tmp_path: Path) -> None:
    for name in ("convmemory-20250101T000000.zip", "convmemory-20250102T000000.zip", "other.zip"):
        (tmp_path / name).write_bytes(b"")
    abandoned = tmp_path / f"convmemory-20250102T000000.zip.1{DRAFT_SUFFIX}"
    abandoned.touch()
    os.utime(abandoned, (0, 0))
    refused = installation.run("backup", "--to", str(tmp_path), "--keep", "2", ok=False)
    assert f"Will be deleted: {tmp_path}/convmemory-20250101T000000.zip" in refused
    assert "The backup is there; no older one was deleted. There is no terminal to ask on: --yes" in refused
    assert installation.query(LAST_ENTRIES)[-1] == ("exported", "backup")
    assert len(list(tmp_path.glob("convmemory-*.zip"))) == 3
    assert "verified" in installation.run("backup", "--to", str(tmp_path), "--keep", "2", "--yes")
    earlier, newest, other = sorted(path.name for path in tmp_path.iterdir())
    assert (earlier.startswith("convmemory-2025"), other) == (False, "other.zip")
    assert backup_module.verify(tmp_path / newest)["rows"]["auth_user"] == 1
    assert installation.query(LAST_ENTRIES)[-1] == ("exported", "backup")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with running_s3_server():
        yield Bucket(f"s3://{BUCKET}/site")


def test_bucket_keeps_newest_backups_and_gives_them_back(
    installation: Installation, fresh: Installation, bucket: Bucket
) -> None:
    for name in ("site/convmemory-20250101T000000.zip", "site/convmemory-20250102T000000.zip", "site/x.zip", "other/y"):
        client().put_object(Bucket=BUCKET, Key=name, Body=b"")
    said = installation.run("backup", "--to", str(bucket), "--keep", "2", "--yes")
    older, newest = sorted(bucket.backups())
    assert (older, f"verified: {bucket}/{newest}\n" in said) == ("convmemory-20250102T000000.zip", True)
    left = {one["Key"] for one in client().list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert left == {f"site/{older}", f"site/{newest}", "site/x.zip", "other/y"}
    assert "damaged or no backup" in fresh.run("restore", f"{bucket}/{older}", ok=False)
    assert "(404)" in fresh.run("restore", f"{bucket}/convmemory-19990101T000000.zip", ok=False)
    assert "Restored" in fresh.run("restore", f"{bucket}/{newest}", "--yes")
    assert "ada" in fresh.shell(SHOW)
    assert fresh.shell(FILES) == LAB


def test_backup_in_bucket_is_whole_or_absent(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_places, "PART_BYTES", 5 * 1024**2)
    content = os.urandom(12 * 1024**2)
    place = Bucket(f"s3://{BUCKET}/parts")
    with place.new_archive("convmemory-1.zip") as archive:
        archive.writestr("a", content)
        assert place.backups() == {}, "it is not complete"
    with place.opened("convmemory-1.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a") == content
    with pytest.raises(RuntimeError, match="dump failed"), place.new_archive("convmemory-2.zip") as archive:
        raise RuntimeError("the dump failed")
    client().create_multipart_upload(Bucket=BUCKET, Key="parts/convmemory-3.zip")  # of a killed run
    for age, left in ((timedelta(days=40_000), 1), (timedelta(days=1), 0)):  # moto dates all uploads to 2010
        monkeypatch.setattr(backup_places, "ABANDONED", age)
        place.drop_drafts()
        assert len(client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])) == left
    assert list(place.backups()) == ["convmemory-1.zip"]
    whole = client().get_object(Bucket=BUCKET, Key="parts/convmemory-1.zip")["Body"].read()
    client().put_object(Bucket=BUCKET, Key="parts/convmemory-1.zip", Body=whole[:-100_000])
    with place.opened("convmemory-1.zip") as file, pytest.raises(InvalidInput, match="is damaged or no backup"):
        backup_module.verify(file, name="it")
    with pytest.raises(backup_module.BackupFailed, match="NoSuchBucket"):
        Bucket("s3://no-such-bucket").backups()


def test_restore_repairs_restores_and_removes_files(installation: Installation, backup: Path) -> None:
    newer = Path(installation.shell(ADD))
    [lab] = [
        path for path in (installation.folder / "media" / "documents").rglob("*") if path.is_file() and path != newer
    ]
    lab.write_bytes(b"damaged")
    [upload] = [path for path in (installation.folder / "media" / "uploads").rglob("*") if path.is_file()]
    upload.unlink()

    installation.run("restore", str(backup), "--yes")

    assert installation.shell(FILES) == LAB
    assert installation.shell(UPLOADS) == "['chat.jsonl', b'a transcript']"
    assert not newer.exists()
    assert stat.S_IMODE(lab.stat().st_mode) == 0o600


def damaged(backup: Path, target: Path) -> Path:
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 0xFF
    target.write_bytes(content)
    return target


def newer(backup: Path, target: Path) -> Path:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        manifest["migrations"].append(["memory", "0999_from_the_future"])
        new.writestr("dump.pgc", old.read("dump.pgc"))
        new.writestr("manifest.json", json.dumps(manifest))
    return target


def altered(backup: Path, target: Path) -> Path:
    """A whole archive, with another dump than the manifest says."""
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry) + b" " * (entry == "dump.pgc"))
    return target


def lying(backup: Path, target: Path) -> Path:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        manifest["rows"]["auth_user"] += 1
        new.writestr("dump.pgc", old.read("dump.pgc"))
        new.writestr("manifest.json", json.dumps(manifest))
    return target


def with_a_file(target: Path, backup: Path, name: str, content: bytes) -> Path:
    """The backup with one more file, or with another one of that name."""
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
        new.writestr(name, content)
    return target


def outside(backup: Path, target: Path) -> Path:
    return with_a_file(target, backup, f"files/documents/1/../../../{target.stem}", b"harm")


def swapped(backup: Path, target: Path) -> Path:
    return with_a_file(target, backup, f"files/documents/1/ab/{'ab' * 32}", b"harm")


def text_file(backup: Path, target: Path) -> Path:
    target.write_text("not a backup")
    return target


def test_command_says_why_backup_is_refused(installation: Installation, backup: Path, tmp_path: Path) -> None:
    path = damaged(backup, tmp_path / "damaged.zip")
    assert "damaged" in installation.run("restore", str(path), "--yes", ok=False)


def test_refused_backup_changes_nothing(here: Installation, backup: Path, tmp_path: Path) -> None:
    for make, reason in (
        (damaged, "damaged"),
        (altered, "checksum"),
        (newer, "newer version"),
        (lying, "do not hold the rows"),
        (text_file, "no backup"),
        (outside, "which is the file of no document"),
        (swapped, "is not whole"),
    ):
        path = make(backup, tmp_path / f"{make.__name__}.zip")
        refused = pytest.raises((InvalidInput, backup_module.BackupFailed), match=reason)
        with unchanged(here), refused:
            restoring.restore(path=path, confirm=agree)


TAMPERED = {  # what makes it, what undoes it, what the refusal names
    "a trigger": (
        (
            "CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS "
            "$f$BEGIN COPY (SELECT 1) TO PROGRAM 'touch {harm}'; RETURN NEW; END$f$; "
            "CREATE TRIGGER evil BEFORE INSERT ON auth_user FOR EACH ROW EXECUTE FUNCTION evil()"
        ),
        "DROP FUNCTION evil CASCADE",
        "FUNCTION evil()",
    ),
    "an index that calls a function": (
        (
            "CREATE FUNCTION evil(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1'; "
            "CREATE INDEX evil ON auth_user (evil(username))"
        ),
        "DROP FUNCTION evil CASCADE",
        "FUNCTION evil(text)",
    ),
    "an event trigger": (
        (
            "CREATE FUNCTION evil() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; "
            "CREATE EVENT TRIGGER evil ON sql_drop EXECUTE FUNCTION evil()"
        ),
        "DROP EVENT TRIGGER evil; DROP FUNCTION evil",
        "FUNCTION evil()",
    ),
    "a rule": (
        "CREATE RULE evil AS ON INSERT TO auth_group DO ALSO DELETE FROM auth_user",
        "DROP RULE evil ON auth_group",
        "RULE auth_group evil",
    ),
    "a view": ("CREATE VIEW evil AS SELECT pg_read_file('PG_VERSION')", "DROP VIEW evil", "VIEW evil"),
    "another schema": ("CREATE SCHEMA evil CREATE TABLE auth_user (id int)", "DROP SCHEMA evil CASCADE", "SCHEMA evil"),
    "a default": (
        "ALTER TABLE auth_group ALTER name SET DEFAULT query_to_xml('SELECT 1', true, true, '')::text",
        "ALTER TABLE auth_group ALTER name DROP DEFAULT",
        "call of query_to_xml",
    ),
    "a check": (
        "ALTER TABLE auth_group ADD CHECK (pg_read_file('PG_VERSION') <> name)",
        "ALTER TABLE auth_group DROP CONSTRAINT auth_group_name_check",
        "call of pg_read_file",
    ),
}


@pytest.fixture
def here(installation: Installation, monkeypatch: pytest.MonkeyPatch, settings: pytest_django.Settings) -> Installation:
    """The installation, for backups and restores in this process."""
    settings.MEDIA_ROOT = installation.folder / "media"
    for module in (backup_module, restoring):
        monkeypatch.setattr(module, "embedded_target", lambda: installation.target)
    return installation


@contextmanager
def unchanged(installation: Installation) -> Iterator[None]:
    state = "SELECT oid::text FROM pg_database WHERE datname = 'convmemory' UNION ALL SELECT username FROM auth_user"
    before = installation.query(state)
    yield
    assert installation.query(state) == before
    databases = installation.query("SELECT datname FROM pg_database ORDER BY 1", "postgres")
    assert [name for (name,) in databases] == ["convmemory", "postgres", "template0", "template1"]
    assert installation.query("SELECT 1 FROM pg_roles WHERE rolname = 'convmemory_restore'") == []


@pytest.mark.parametrize("name", TAMPERED)
def test_backup_with_anything_that_could_run_code_is_refused(here: Installation, tmp_path: Path, name: str) -> None:
    make, undo, refusal = TAMPERED[name]
    harm, path = tmp_path / "harm", tmp_path / "evil.zip"
    with unchanged(here):
        here.query(make.replace("{harm}", str(harm)))
        try:
            backup_module.back_up(path=path)
        finally:
            here.query(undo)
        harm.unlink(missing_ok=True)
        with pytest.raises(InvalidInput, match=re.escape(f"never stores: {refusal}")):
            restoring.restore(path=path, confirm=agree)
    assert not harm.exists()


def test_disguised_dump_entry_runs_without_rights(here: Installation, backup: Path, tmp_path: Path) -> None:
    """The list of entries calls it an index; what it says is a command of the operating system."""
    harm, path = Path("/tmp") / f"harm-{os.getpid()}", tmp_path / "evil.zip"
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        dump, manifest = old.read("dump.pgc"), json.loads(old.read("manifest.json"))
        place = dump.index(b"CREATE INDEX ")
        end = dump.index(b";", place)
        command = f"COPY (SELECT 1) TO PROGRAM 'touch {harm}'".encode()
        dump = dump[:place] + command.ljust(end - place) + dump[end:]
        assert len(dump) == manifest["dump"]["size"]
        manifest["dump"]["sha256"] = hashlib.sha256(dump).hexdigest()
        new.writestr("dump.pgc", dump)
        new.writestr("manifest.json", json.dumps(manifest))
    with (
        unchanged(here),
        pytest.raises(backup_module.BackupFailed, match="permission denied to COPY to or from an ext"),
    ):
        restoring.restore(path=path, confirm=agree)
    assert not harm.exists()


def test_restored_tables_belong_to_schema_owner(here: Installation, backup: Path) -> None:
    restoring.restore(path=backup, confirm=agree)
    owners = here.query(
        "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace UNION "
        "SELECT datdba::regrole::text FROM pg_database WHERE datname = 'convmemory'"
    )
    assert owners == [("postgres",)]


def test_files_and_folders_are_their_owner_s_alone(
    installation: Installation, fresh: Installation, tmp_path: Path
) -> None:
    umask = os.umask(0)
    try:
        installation.run("backup", str(tmp_path / "backup.zip"))
        installation.run("export_user", "ada", str(tmp_path / "ada.zip"))
    finally:
        os.umask(umask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.zip")}
    assert modes == {"backup.zip": 0o600, "ada.zip": 0o600}
    assert stat.S_IMODE(fresh.folder.stat().st_mode) in (0o700, 0o701)  # root's database account passes through
    data = fresh.folder / "postgres"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "server.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((fresh.folder / "secret_key").stat().st_mode) == 0o600
