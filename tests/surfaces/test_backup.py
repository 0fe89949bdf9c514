"""Backup and restore as a person runs them: the real commands on a data folder of their own."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from convmemory.core import embedded
from convmemory.core.postgres import server
from tests.conftest import FAST_OPTIONS

FILL = """
from django.contrib.auth.models import User
from tests.factories import exchange, make_conversation
from search.adapters.conversations import index_conversation
ada = User.objects.create_user("ada", password="correct horse")
conversation = make_conversation(ada, exchange(("where is the zebrafish lab?", "In Lima.")), title="Fish")
print(index_conversation(conversation_id=conversation.pk).passages_computed)
"""
CHANGE = 'from django.contrib.auth.models import User; User.objects.create_user("eve")'
SHOW = """
from django.contrib.auth.models import User
from search.retrieval import SearchQuery, search
names = sorted(User.objects.values_list("username", flat=True))
hits = search(caller=User.objects.filter(username="ada").first(), query=SearchQuery(text="zebrafish")).hits
print(names, [hit.passage for hit in hits])
"""


class Installation:
    """A data folder with an embedded database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, ok: bool = True) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_URL")}
        environment |= {"CONVMEMORY_VAR": str(self.folder), "EMBEDDING_THREADS": "1"}
        result = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (result.returncode == 0) == ok, result.stdout + result.stderr
        return result.stdout if ok else result.stderr

    def shell(self, code: str) -> str:
        return self.run("shell", "--no-imports", "-c", code).strip().splitlines()[-1]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("backup") / "var")
    embedded.join(installation.folder / "postgres", FAST_OPTIONS)  # one server for all the commands
    installation.run("migrate", "--verbosity", "0")
    assert installation.shell(FILL) == "2"
    yield installation
    server.stop(installation.folder / "postgres")


@pytest.fixture(scope="module")
def backup(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "monday.zip"
    assert "rows" in installation.run("backup", str(path))
    assert "exists already" in installation.run("backup", str(path), ok=False)
    return path


def test_a_restore_gives_back_rows_vectors_and_hits(installation: Installation, backup: Path) -> None:
    before = installation.shell(SHOW)
    assert before == "['ada'] ['where is the zebrafish lab?']"
    installation.run("shell", "--no-imports", "-c", CHANGE)
    assert "--force" in installation.run("restore", str(backup), ok=False)
    assert installation.shell(SHOW).startswith("['ada', 'eve']")

    installation.run("restore", str(backup), "--force")

    assert installation.shell(SHOW) == before


def test_a_new_installation_takes_the_backup_without_force(backup: Path, tmp_path: Path) -> None:
    fresh = Installation(tmp_path / "var")
    fresh.run("restore", str(backup))
    assert fresh.shell(SHOW) == "['ada'] ['where is the zebrafish lab?']"


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


def lying(backup: Path, target: Path) -> Path:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        manifest["rows"]["auth_user"] += 1
        new.writestr("dump.pgc", old.read("dump.pgc"))
        new.writestr("manifest.json", json.dumps(manifest))
    return target


def text_file(backup: Path, target: Path) -> Path:
    target.write_text("not a backup")
    return target


def test_what_cannot_be_restored_changes_nothing(installation: Installation, backup: Path, tmp_path: Path) -> None:
    before = installation.shell(SHOW)
    for make, reason in (
        (damaged, "damaged"), (newer, "newer version"), (lying, "do not hold the rows"), (text_file, "no backup"),
    ):  # fmt: skip
        path = make(backup, tmp_path / f"{make.__name__}.zip")
        assert reason in installation.run("restore", str(path), "--force", ok=False)
    assert installation.shell(SHOW) == before
