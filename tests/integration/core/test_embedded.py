"""The embedded PostgreSQL, shared by real processes that come, go and are killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from convmemory.core.postgres import server
from tests.support.prepared_folder import copy_prepared_folder, write_key

pytestmark = pytest.mark.slow

USER = """
import json, sys
from pathlib import Path
import psycopg
from convmemory.core.postgres import embedded
from convmemory.core.postgres import configuration
socket_dir = embedded.join(Path(sys.argv[1]), {"fsync": "off"})
with psycopg.connect(host=str(socket_dir), port=configuration.PORT, user="postgres", dbname="convmemory") as connection:
    started = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()[0]
    vector = connection.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'").fetchone()[0]
print(json.dumps({"started": started, "vector": vector}), flush=True)
sys.stdin.read()
"""


class ServerUser:
    """A process that uses the server until it is told to end."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-W", "error", "-c", USER, str(folder)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def facts(self) -> dict[str, str | int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        facts: dict[str, str | int] = json.loads(line)
        return facts

    def end(self) -> None:
        _, errors = self.process.communicate("")
        assert (self.process.returncode, errors) == (0, "")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("house") / "a folder, with 'signs'" / "postgres"
    yield folder
    if running := server.find(folder):
        os.kill(running.pid, signal.SIGQUIT)


def test_processes_that_start_together_share_one_server_and_last_stops_it(folder: Path) -> None:
    users = [ServerUser(folder) for _ in range(4)]
    facts = [user.facts() for user in users]

    assert len({fact["started"] for fact in facts}) == 1
    assert facts[0]["vector"] == 1
    for user in users[1:]:
        user.end()
    assert server.find(folder)
    users[0].end()
    assert server.find(folder) is None


def test_killed_user_keeps_server_neither_from_running_nor_from_being_stopped(folder: Path) -> None:
    killed = ServerUser(folder)
    started = killed.facts()["started"]
    killed.kill()

    assert server.find(folder)
    successor = ServerUser(folder)
    assert successor.facts()["started"] == started
    successor.end()
    assert server.find(folder) is None


@pytest.mark.essential
def test_killed_server_starts_again(folder: Path) -> None:
    first = ServerUser(folder)
    started = first.facts()["started"]
    running = server.find(folder)
    assert running
    psutil.Process(running.pid).kill()

    second = ServerUser(folder)
    assert second.facts()["started"] != started
    first.end()
    second.end()
    assert server.find(folder) is None


def test_command_on_new_data_folder_names_installation_that_runs(folder: Path, tmp_path: Path) -> None:
    user = ServerUser(folder)
    user.facts()
    write_key(folder.parent)
    for var, command, is_named in ((tmp_path, "help", True), (tmp_path, "up", False), (folder.parent, "help", False)):
        environment = os.environ | {"CONVMEMORY_VAR": str(var)}
        line = [sys.executable, "manage.py", command, "--help"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        assert (f"This uses the data folder {var}, where nothing is stored yet." in done.stderr) == is_named
    user.end()


def test_left_pid_file_with_number_of_living_process_does_not_matter(folder: Path) -> None:
    (folder / "postmaster.pid").write_text(f"{os.getpid()}\n{folder}\n1700000000\n5432\n{folder}\n\n  1 2\nready\n")
    assert server.find(folder) is None

    user = ServerUser(folder)
    assert user.facts()["vector"] == 1
    user.end()


def test_path_too_long_for_socket_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120) / "postgres"
    copy_prepared_folder(folder)
    user = ServerUser(folder)

    assert user.facts()["vector"] == 1
    user.end()


@pytest.mark.parametrize("damaged", ["global/pg_control", "pg_wal/*"])
def test_damaged_database_is_refused_with_the_last_backup(tmp_path: Path, damaged: str) -> None:
    folder = tmp_path / "postgres"
    copy_prepared_folder(folder)
    for path in folder.glob(damaged):
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))
    backup = tmp_path / "backups" / "convmemory-20260101T000000.zip"
    backup.parent.mkdir()
    backup.touch()
    user = ServerUser(folder)
    _, errors = user.process.communicate("")
    assert "Its files are damaged; check the disk. Then restore the last backup:" in errors
    assert f"mv {folder} {folder}.damaged\n  manage.py restore {backup} --yes\n" in errors
    assert "PANIC" not in errors


def test_folder_of_another_version_is_refused_with_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("16\n")
    user = ServerUser(folder)

    _, errors = user.process.communicate("")
    assert "DatabaseUnavailable" in errors
    assert "was made by PostgreSQL 16, this is 18" in errors
