"""Files that others cannot read, from their first byte on, and that are whole or not there."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmemory.core.conf import secret_key
from convmemory.core.errors import SettingError
from convmemory.core.files.private_files import (
    DRAFT_SUFFIX,
    drop_drafts_of,
    has_digest,
    new_private_file,
    private_folder,
    written_whole,
)
from tests.support.full_disk import files_end_at

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    umask = os.umask(0)
    yield
    os.umask(umask)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_is_private_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "backup.partial"
    path.write_bytes(b"of a killed run")
    path.chmod(0o644)
    with new_private_file(path) as file:
        assert (mode(path), path.read_bytes()) == (0o600, b"")
        file.write(b"secret")
    assert path.read_bytes() == b"secret"


def test_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    (tmp_path / "backup.partial").symlink_to(tmp_path / "theirs")
    with new_private_file(tmp_path / "backup.partial") as file:
        file.write(b"secret")
    assert (tmp_path / "theirs").read_bytes() == b""


def test_folder_is_private_and_one_that_is_there_is_left(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "var")
    assert mode(tmp_path / "a" / "var") == 0o700
    (tmp_path / "a" / "var").chmod(0o750)
    private_folder(tmp_path / "a" / "var")
    assert mode(tmp_path / "a" / "var") == 0o750


def test_missing_parents_of_private_folder_are_private(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "var")
    assert mode(tmp_path / "a") == 0o700


def test_full_disk_leaves_no_file_and_same_write_succeeds_later(tmp_path: Path) -> None:
    path, content = tmp_path / "files" / "report", bytes(100_000)

    def write() -> None:
        with written_whole(path) as file:
            file.write(content)

    with files_end_at(40_000), pytest.raises(OSError, match="too large"):
        write()
    assert list(path.parent.iterdir()) == []
    write()
    assert (path.read_bytes(), mode(path)) == (content, 0o600)
    assert list(path.parent.iterdir()) == [path]


def test_failed_rewrite_keeps_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"earlier")
    with files_end_at(40_000), pytest.raises(OSError, match="too large"), written_whole(path) as file:
        file.write(bytes(100_000))
    assert path.read_bytes() == b"earlier"


def test_process_killed_before_rename_leaves_draft_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "report"
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from convmemory.core.files.private_files import written_whole\n"
        "with written_whole(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    [draft] = tmp_path.iterdir()
    assert draft.name.endswith(DRAFT_SUFFIX)
    drop_drafts_of(path)
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_kept_if_replacing_is_not_allowed(tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_bytes(b"first")
    with pytest.raises(FileExistsError), written_whole(target, replaces=False) as file:
        file.write(b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_digest_of_truncated_or_missing_file_does_not_match(tmp_path: Path) -> None:
    path, content = tmp_path / "file", b"whole content"
    digest = hashlib.sha256(content).hexdigest()
    assert not has_digest(path, digest)
    path.write_bytes(content)
    assert has_digest(path, digest)
    assert has_digest(path, digest, size=len(content))
    assert not has_digest(path, digest, size=3)
    path.write_bytes(content[:5])
    assert not has_digest(path, digest)


def test_secret_key_is_made_once_and_full_disk_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret_key"
    with files_end_at(10), pytest.raises(SettingError, match="too large"):
        secret_key(path)
    assert list(path.parent.iterdir()) == []
    key = secret_key(path)
    assert (len(key) > 50, mode(path), secret_key(path)) == (True, 0o600, key)
    path.write_text("")
    with pytest.raises(SettingError, match="put it back from a copy"):
        secret_key(path)


def test_lost_secret_key_of_a_database_is_refused_and_stays_missing(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").touch()
    with pytest.raises(SettingError, match=r"is missing.* put it back from a copy.* people have to sign in again"):
        secret_key(tmp_path / "secret_key")
    assert not (tmp_path / "secret_key").exists()


def test_data_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"The data folder .*/file/var cannot be used: Not a directory"):
        secret_key(tmp_path / "file" / "var" / "secret_key")
