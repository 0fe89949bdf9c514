"""Temporary folders: private, deleted with their work, and swept if the process that made them was killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convmemory.core.files.work_folders import drop_work_folders, is_temporary, sweep_work_folders, work_folder

ROOT = Path(__file__).parents[3]
HOLDER = """
import django, sys, time
django.setup()
from convmemory.core.files.work_folders import work_folder
with work_folder("import", archive_id=7, claim=3) as folder:
    (folder / "chat.jsonl").write_text("plain text")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def root(settings: Any, tmp_path: Path) -> Path:
    settings.TEMPORARY_FOLDER = tmp_path / "work"
    return tmp_path / "work"


@pytest.fixture
def holder(root: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that works in a folder, and the folder."""
    environment = os.environ | {"TEMPORARY_FOLDER": str(root), "DJANGO_SETTINGS_MODULE": "convmemory.settings"}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def make_older(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_work_folder_is_private_named_by_its_claim_and_deleted_afterwards(root: Path) -> None:
    with work_folder("import", archive_id=5, claim=12) as folder:
        assert folder.is_relative_to(root)
        assert folder.parent.name.startswith("import-5-12-")
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        assert is_temporary(folder / "chat.jsonl")
        (folder / "chat.jsonl").write_text("text")
    assert list(root.rglob("*-5-*")) == []


def test_folder_of_killed_process_is_swept_and_that_of_running_one_is_not(
    holder: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = holder
    make_older(folder.parent, 3_600)
    assert sweep_work_folders() == 0
    assert (folder / "chat.jsonl").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sweep_work_folders() == 1
    assert not folder.parent.exists()


def test_folder_that_is_being_made_is_not_swept(root: Path) -> None:
    with work_folder("import"):
        [host] = root.iterdir()
        (host / "import-1-1-new").mkdir()
        assert sweep_work_folders() == 0
        make_older(host / "import-1-1-new", 120)
        assert sweep_work_folders() == 1


def test_folder_of_another_machine_is_swept_when_no_work_takes_that_long(root: Path, settings: Any) -> None:
    folder = root / "elsewhere" / "document-1-2-x"
    folder.mkdir(parents=True)
    make_older(folder, 600)
    assert sweep_work_folders() == 0
    make_older(folder, max(settings.TASK_TIMEOUT_S, settings.IMPORT_TIMEOUT_S) + 600)
    assert sweep_work_folders() == 1


def test_folders_of_one_owner_are_dropped_and_others_are_kept() -> None:
    with work_folder("import", archive_id=5) as mine, work_folder("document", archive_id=55, claim=5) as other:
        assert drop_work_folders(5) == 1
        assert (mine.exists(), other.exists()) == (False, True)


@pytest.mark.slow
def test_child_process_makes_its_folders_inside_its_own(root: Path, tmp_path: Path) -> None:
    process_folder = tmp_path / "own"
    process_folder.mkdir()
    program = """
import django, sys, tempfile
django.setup()
from pathlib import Path
from convmemory.core.files.work_folders import work_folder, work_inside
work_inside(Path(sys.argv[1]))
with work_folder("unpacked", archive_id=5) as folder:
    print(folder.parent == Path(sys.argv[1]) == Path(tempfile.gettempdir()))
"""
    environment = os.environ | {"TEMPORARY_FOLDER": str(root), "DJANGO_SETTINGS_MODULE": "convmemory.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(process_folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
    assert list(process_folder.iterdir()) == []
    assert not root.exists()


def test_host_names_become_one_path_component(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "../a b")
    with work_folder("import") as folder:
        assert folder.parents[2] == root
        assert folder.parents[1].name == ".._a_b"
