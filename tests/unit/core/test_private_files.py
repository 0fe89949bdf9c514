"""Files that others cannot read, from their first byte on."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmemory.core.private_files import new_private_file, private_folder


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    umask = os.umask(0)
    yield
    os.umask(umask)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_private_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "backup.partial"
    path.write_bytes(b"of a killed run")
    path.chmod(0o644)
    with new_private_file(path) as file:
        assert (mode(path), path.read_bytes()) == (0o600, b"")
        file.write(b"secret")
    assert path.read_bytes() == b"secret"


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    (tmp_path / "backup.partial").symlink_to(tmp_path / "theirs")
    with new_private_file(tmp_path / "backup.partial") as file:
        file.write(b"secret")
    assert (tmp_path / "theirs").read_bytes() == b""


def test_a_folder_is_private_and_one_that_is_there_is_left(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "var")
    assert mode(tmp_path / "a" / "var") == 0o700
    (tmp_path / "a" / "var").chmod(0o750)
    private_folder(tmp_path / "a" / "var")
    assert mode(tmp_path / "a" / "var") == 0o750
