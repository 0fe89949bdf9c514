"""A data folder with a migrated database, made once per machine and schema, for tests that start a server of their own.

`initdb` and `migrate` take seconds, copying what they made does not. `tests/surfaces/test_up.py` alone starts from an
empty folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convmemory.core.postgres import embedded, server
from tests.support.run_database import ROOT, digest_of_schema

PREPARED = ROOT / "var" / "test" / "prepared"
DATA = "postgres"
UNSAFE_AND_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
MAKERS = ("convmemory/core/postgres/embedded.py", "convmemory/core/postgres", "convmemory/core/postgres/logins.py")


def copy_prepared_folder(folder: Path) -> None:
    """Put a migrated database without rows on `folder`, as a server leaves it that was stopped."""
    source = _prepared_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-pR", str(source), str(folder)], check=True)  # with its owner, whom root's server needs
    write_key(folder.parent)


def write_key(var_folder: Path) -> None:
    """Write the key without which a database in this folder is refused, as a lost key would be."""
    (var_folder / "secret_key").write_text("the key of a database that tests have copied", encoding="ascii")


def _prepared_folder() -> Path:
    home = PREPARED / _digest()
    with _lock():
        if not home.exists():
            for outdated in PREPARED.iterdir():
                shutil.rmtree(outdated)
            draft = home.with_suffix(".new")
            _make(draft)
            draft.rename(home)
    return home / DATA


@contextmanager
def _lock() -> Iterator[None]:
    PREPARED.mkdir(parents=True, exist_ok=True)
    with PREPARED.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(draft: Path) -> None:
    embedded.join(draft / DATA, UNSAFE_AND_FAST)
    write_key(draft)
    try:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=ROOT, env=outside | {"CONVMEMORY_VAR": str(draft)}, check=True,
        )  # fmt: skip
    finally:
        server.stop(draft / DATA)
    (draft / DATA / server.LOG).unlink()


def _digest() -> str:
    """Return a digest of what decides on the tables and on how a data folder is made."""
    digest = hashlib.sha256(digest_of_schema().encode())
    for place in MAKERS:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
