"""An external database whose owner is no superuser: as it is, and after `manage.py setup_roles`."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection

from convmemory.core.postgres import configuration, embedded, server
from tests.conftest import FAST_OPTIONS
from tests.support.forked_commands import ForkedCommands

pytestmark = pytest.mark.slow

NAME = f"external_{os.getpid()}"
TALK = '{"role": "user", "content": "where is the zebrafish lab?"}\n{"role": "assistant", "content": "In Lima."}\n'
COUNT = """
from django.contrib.auth.models import User
from convmemory.accounts.keys import caller_of_key
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for, without_owner
with without_owner():
    ada = caller_of_key({key!r}, writes=True)
    seen = [Conversation.objects.count()]
with acting_for(ada.archive_id):
    seen.append(Conversation.objects.count())
with acting_for(ada.archive_id + 1):
    seen.append(Conversation.objects.count())
print(seen)
"""


class External:
    """A database of the tests' server, used by its address like an operator's own database."""

    def __init__(self, folder: Path, host: str, commands: ForkedCommands, name: str = NAME) -> None:
        self.folder, self.host, self.commands, self.name = folder, host, commands, name
        self.settings = {"DATABASE_URL": f"postgres://{NAME}@{quote(host, safe='')}:{configuration.PORT}/{name}"}

    def as_superuser(self, statements: str, database: str = "") -> None:
        database = database or self.name
        with psycopg.connect(host=self.host, user=configuration.SUPERUSER, dbname=database, autocommit=True) as link:
            link.execute(statements.encode())

    @contextmanager
    def created(self) -> Iterator[None]:
        """Have the database, empty but for the extension, for the block."""
        try:
            self.as_superuser(f"CREATE DATABASE {self.name} OWNER {NAME}", "postgres")
            self.as_superuser("CREATE EXTENSION vector")
            yield
        finally:
            self.drop()

    def drop(self) -> None:
        self.as_superuser(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)", "postgres")

    def take_tables(self, of: str) -> None:
        """Become a copy of another database."""
        self.drop()
        self.as_superuser(f"CREATE DATABASE {self.name} TEMPLATE {of} OWNER {NAME}", "postgres")

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,), given: str = "") -> str:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
        environment = outside | {"CONVMEMORY_VAR": str(self.folder / "var")} | self.settings
        done = self.commands.run(*arguments, environment=environment, given=given)
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout or done.stderr

    def findings(self) -> set[str]:
        report = json.loads(self.run("doctor", "--json", codes=(0, 1, 2)))
        return {finding["id"] for finding in report["findings"] if finding["id"].startswith("database.")}


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """The address of a server with a role that is no superuser."""
    if not connection.settings_dict["EMBEDDED_PATH"]:
        pytest.skip("Roles and databases are made on the tests' own server.")
    host = str(embedded.join(connection.settings_dict["EMBEDDED_PATH"], FAST_OPTIONS))
    with psycopg.connect(host=host, user=configuration.SUPERUSER, dbname="postgres", autocommit=True) as link:
        link.execute(f"CREATE ROLE {NAME} LOGIN NOSUPERUSER".encode())
        yield host
        link.execute(f"DROP ROLE {NAME}".encode())


@pytest.fixture(scope="module")
def migrated(host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a database whose tables that role has made: `migrate` takes ten seconds, a copy none."""
    with closing(ForkedCommands()) as commands:
        made = External(tmp_path_factory.mktemp("migrated"), host, commands, f"{NAME}_migrated")
        with made.created():
            made.run("migrate", "--verbosity", "0")
            yield made.name


@pytest.fixture
def external(host: str, tmp_path: Path) -> Iterator[External]:
    with closing(ForkedCommands()) as commands:
        external = External(tmp_path, host, commands)
        with external.created():
            yield external


def test_external_database_works_before_and_after_setup_roles(
    external: External, migrated: str, tmp_path: Path
) -> None:
    for command in ("import_conversations talk.jsonl --user ada", "mcp --user ada", "worker", "reembed", "setup_roles"):
        said = external.run(*command.split(), codes=(1,))
        assert (
            said.removeprefix("CommandError: ")
            == "The database lacks tables of this version: run `manage.py migrate`.\n"
        )
    external.take_tables(migrated)
    key = external.run("create_api_key", "ada", "--create").split()[-1]
    talk = tmp_path / "talk.jsonl"
    talk.write_text(TALK)
    external.run("import_conversations", str(talk), "--user", "ada")
    code = COUNT.format(key=key)
    assert external.run("shell", "--no-imports", "-c", code).strip() == "[1, 1, 1]"  # only its filters stand
    assert external.findings() == {"database.one-login"}

    script, _, urls = external.run("setup_roles").partition("/* Set for")
    external.as_superuser(script)
    external.settings |= dict(line.split("=", 1) for line in urls.splitlines() if line.startswith("DATABASE_"))
    assert external.run("shell", "--no-imports", "-c", code).strip() == "[0, 1, 0]"
    assert external.findings() == set()
    external.run("migrate", "--verbosity", "0")
    assert "Set for" not in external.run("setup_roles"), "the settings hold the passwords"


def test_migrate_without_right_to_create_extension_says_what_to_run(external: External) -> None:
    external.as_superuser(f"DROP EXTENSION vector; ALTER DATABASE {NAME} OWNER TO {configuration.SUPERUSER}")
    external.as_superuser(f"GRANT CREATE ON SCHEMA public TO {NAME}")
    said = external.run("migrate", "--verbosity", "0", codes=(1,))
    assert said.splitlines()[-1] == (
        "CommandError: The database user may not create the extension pgvector. "
        "As a superuser run in this database: CREATE EXTENSION vector"
    )


LEAVE_UPLOAD = """
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.imports import queue_import
from convmemory.ops.runtime.instance import remember_key
queue_import(caller=Caller.of(User.objects.get(username="ada")), file=SimpleUploadedFile("late.jsonl", {late!r}))
remember_key()
"""
IMPORT_LEFT = """
from django.contrib.auth.models import User
from convmemory.conversations import tasks
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation
from convmemory.core.acting import maintenance
with maintenance():
    for row in Import.objects.filter(state="queued"):
        tasks.run(row.pk, archive_id=row.archive_id)
    print([user.username for user in User.objects.all()], Conversation.objects.count())
"""


def test_documented_backup_and_restore_keep_erasure_and_waiting_upload(
    external: External, migrated: str, tmp_path: Path
) -> None:
    """Follows docs/deployment.md, with the programs of the tests' server and files in a folder."""
    external.take_tables(migrated)
    (tmp_path / "talk.jsonl").write_text(TALK)
    for name in ("ada", "bob"):
        external.run("create_user", name, given="a quick brown fox\n")
        external.run("import_conversations", str(tmp_path / "talk.jsonl"), "--user", name)
    late = TALK.replace("zebrafish", "quagga").encode()
    external.run("shell", "--no-imports", "-c", LEAVE_UPLOAD.format(late=late))

    address = ["--host", external.host, "--port", str(configuration.PORT), "--username", NAME]
    dump, files = str(tmp_path / "convmemory.dump"), str(tmp_path / "files.tar.gz")
    subprocess.run([server.binary("pg_dump"), *address, "--format", "custom", "--file", dump, NAME], check=True)
    (external.folder / "var" / "media").mkdir(exist_ok=True)
    tar = ["tar", "--gzip", "--directory", str(external.folder / "var"), "--file", files]
    subprocess.run([*tar, "--create", "media", "imports"], check=True)
    external.run("erase_user", "bob", "--yes")
    (tmp_path / "ledger").write_text(external.run("erasures"))

    external.drop()
    external.as_superuser(f"CREATE DATABASE {NAME} OWNER {NAME}", "postgres")
    external.as_superuser("CREATE EXTENSION vector")
    shutil.rmtree(external.folder / "var" / "imports")
    how = ["--no-owner", "--no-privileges", "--no-comments", "--exit-on-error"]
    subprocess.run([server.binary("pg_restore"), *address, "--dbname", NAME, *how, dump], check=True)
    subprocess.run([*tar, "--extract"], check=True)
    external.run("migrate", "--verbosity", "0")
    assert external.run("erasures", "--apply", str(tmp_path / "ledger"), "--yes").strip() == "Erased again: bob."
    assert external.run("shell", "--no-imports", "-c", IMPORT_LEFT).strip() == "['ada'] 2"
    external.settings["SECRET_KEY"] = "another key" * 5
    assert "settings.other-key" in external.run("doctor", "--quiet", codes=(2,))
