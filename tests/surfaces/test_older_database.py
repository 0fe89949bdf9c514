"""The data folder of an earlier commit: it is backed up and upgraded.

That of an even earlier commit, or of a later one, is refused as it is.
"""

import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import convmemory
from convmemory.core.postgres import embedded, server
from convmemory.ops.privacy.backup import verify
from tests.conftest import FAST_OPTIONS
from tests.integration.ops.test_upgrades import Rows
from tests.support.fleet import free_port
from tests.support.forked_commands import ForkedCommands
from tests.support.prepared_folder import copy_prepared_folder
from tests.support.run_database import ROOT
from tests.surfaces.test_backup import Installation

pytestmark = pytest.mark.slow

DUMP = Path(__file__).parents[1] / "fixtures" / "upgrades" / "5e9aed6e.sql.xz"
MAKE_OLDER = "DELETE FROM django_migrations WHERE app = 'accounts' AND name = '0016_keys_write_to_spaces'"
UPDATE = """
from convmemory.ops.management.commands.up import Command
Command()._update_database()
"""
FAILING_UPDATE = """
from django.core.management.commands import migrate
from convmemory.ops.management.commands.up import Command
def fail(self, *args, **options):
    raise SystemExit("stopped between backup and migrations")
migrate.Command.handle = fail
Command()._update_database()
"""
NEWER = "INSERT INTO django_migrations (app, name, applied) VALUES ('search', '0999_engine_of_tomorrow', now())"
SHOW = """
from django.contrib.auth.models import User
from convmemory.accounts.callers import Caller
from search.searching import SearchQuery, search
ada = User.objects.get(username="ada")
print([hit.passage for hit in search(caller=Caller.of(ada), query=SearchQuery(text="zebrafish")).hits])
"""
END = "The database is that of"
STEPS_A_START = 4
"""Of the update, before it is killed: a start costs two seconds of processor time."""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A data folder with a running server, and one process that has loaded the program for all its commands."""
    with closing(ForkedCommands()) as commands:
        folder = tmp_path_factory.mktemp("older") / "var"  # short: a socket's path has 107 bytes
        copy_prepared_folder(folder / "postgres")
        embedded.join(folder / "postgres", FAST_OPTIONS)
        yield Installation(folder, commands)
        server.stop(folder / "postgres")


@pytest.fixture
def installation(shared: Installation) -> Installation:
    """The data folder as commit 5e9aed6e left it."""
    for path in shared.folder.iterdir():
        if path.is_dir() and path.name != "postgres":
            shutil.rmtree(path)
        elif path.name == "version":
            path.unlink()
    for statement in ("DROP DATABASE convmemory WITH (FORCE)", "CREATE DATABASE convmemory"):
        shared.query(statement, database="postgres")
    shared.query(lzma.decompress(DUMP.read_bytes()).decode())
    return shared


def contents(installation: Installation) -> dict[str, list[tuple[Any, ...]]]:
    tables = [name for (name,) in installation.query(TABLES)]
    return {name: sorted(installation.query(f"SELECT to_jsonb(t)::text FROM {name} AS t")) for name in tables}


def up_until(installation: Installation, is_reached: Callable[[str], object]) -> str:
    """Start `manage.py up`, kill it as soon as its output is as far as that, and return the output."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
    ours = {"CONVMEMORY_VAR": str(installation.folder), "PORT": str(free_port()), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=outside | ours, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    output = ""
    with process:
        assert process.stdout
        while not is_reached(output):
            part = os.read(process.stdout.fileno(), 65_536).decode()
            assert part, output
            output += part
        os.killpg(process.pid, signal.SIGKILL)
    return output


def steps_after(output: str, begun: Sequence[str]) -> list[str]:
    """Return the steps of the update that the output shows and `begun` lacks: migrations that start, and the end."""
    steps = re.findall(rf"Applying (\S+?)\.\.\.|({END})", output)
    return [one or other for one, other in steps if (one or other) not in begun]


def test_update_killed_at_many_steps_is_finished_by_next_start_and_its_backup_upgraded(
    installation: Installation,
) -> None:
    def rows() -> Rows:
        return {table: [json.loads(row) for (row,) in stored] for table, stored in contents(installation).items()}

    version = installation.folder / "version"
    version.write_text("0.1.0\n")
    os.utime(version, (1, 1))
    before = rows()
    for line in ("Starting the database", "Updating from 0.1.0", "To go back, install 0.1.0"):
        up_until(installation, partial(re.search, line))
        assert rows() == before
    begun: list[str] = []

    def is_far_enough(output: str) -> bool:
        steps = steps_after(output, begun)
        return len(steps) >= STEPS_A_START or END in steps

    while END not in begun:
        begun += steps_after(up_until(installation, is_far_enough), begun)
    assert len(begun) > 10
    (backup,) = (installation.folder / "before-updates").glob("convmemory-*.zip")
    assert ["accounts", "0002_archives"] not in verify(backup)["migrations"]
    output = up_until(installation, lambda output: "Application startup complete." in output)
    assert "Updating" not in output
    assert version.read_text() == f"{convmemory.__version__}\n"
    assert "Forty tanks of zebrafish." in installation.shell(SHOW)
    installation.run("restore", str(backup), "--yes")
    assert "Forty tanks of zebrafish." in installation.shell(SHOW)


def test_older_database_and_its_backup_are_refused_and_it_is_kept(installation: Installation, tmp_path: Path) -> None:
    installation.query(MAKE_OLDER)
    before = contents(installation)
    for command in ("up", "migrate"):
        said = installation.run(command, ok=False)
        assert "accounts.0016_keys_write_to_spaces is not applied. Start commit 5e9aed6e with it once" in said
        assert contents(installation) == before
    assert not (installation.folder / "before-updates").exists()
    backup = tmp_path / "older.zip"
    installation.run("backup", str(backup))  # without an entry in the audit log, which an earlier version may not have
    said = installation.run("restore", str(backup), "--yes", ok=False)
    assert "without the migration accounts.0016_keys_write_to_spaces): restore it with commit 5e9aed6e" in said
    assert contents(installation) == before


def test_backups_before_updates_are_kept_until_the_last_update_has_served_for_a_day(installation: Installation) -> None:
    backups, earlier = (
        installation.folder / "before-updates",
        {f"convmemory-2025010{day}T000000.zip" for day in "12345"},
    )
    backups.mkdir()
    for name in earlier:
        (backups / name).write_bytes(b"")
        os.utime(backups / name, (1, 1))
    (installation.folder / "version").write_text("0.1.0\n")
    for _ in range(2):
        installation.run("shell", "--no-imports", "-c", FAILING_UPDATE, ok=False)
    (first,) = set(backups.glob("convmemory-*.zip")) - {backups / name for name in earlier}
    (backups / "convmemory-20250106T000000.zip.1.partial").touch()
    os.utime(backups / "convmemory-20250106T000000.zip.1.partial", (1, 1))
    output = installation.run("shell", "--no-imports", "-c", UPDATE)
    assert f"Backup of an earlier attempt at this update: {first}" in output
    assert f"To go back, install 0.1.0 again, then run `manage.py restore {first}` and `manage.py up`." in output
    assert {path.name for path in backups.iterdir()} == {*earlier, first.name}
    os.utime(first, (2, 2))
    installation.run("shell", "--no-imports", "-c", UPDATE)
    assert {path.name for path in backups.iterdir()} == {*sorted(earlier)[-2:], first.name}


def test_database_of_newer_version_is_refused_and_its_own_backup_restored(
    installation: Installation, tmp_path: Path
) -> None:
    installation.run("shell", "--no-imports", "-c", UPDATE)
    backup = tmp_path / "before.zip"
    installation.run("backup", str(backup))
    installation.query(NEWER)
    for command in ("up", "migrate", "worker"):
        output = installation.run(command, ok=False)
        assert "A newer version upgraded this database: search.0999_engine_of_tomorrow is unknown" in output, command
    assert (installation.folder / "version").read_text() == f"{convmemory.__version__}\n"
    installation.run("restore", str(backup), "--yes")
    assert "Forty tanks of zebrafish." in installation.shell(SHOW)
