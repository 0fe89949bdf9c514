"""One embedded PostgreSQL for each data folder, shared by every process that asks for it.

A process that uses the server holds a shared lock on `<folder>.users` until it ends. The kernel releases that lock
however the process ends, and forked children share it with their parent. The last process to leave stops the server. An
exclusive lock on `<folder>.lock` serialises starting, joining and stopping.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.files.private_files import private_folder
from convmemory.core.postgres import configuration, layout, server
from convmemory.core.sql import load_sql

DATABASE = "convmemory"
DEFINER_FUNCTIONS = "create_definer_functions"
ROW_SECURITY = (DEFINER_FUNCTIONS, "apply_policies", "grant_rights", "mark_leakproof")
"""Statements in their order: policies call the functions."""
LOCK_TIMEOUT_S = 330
LEAVE_PRIORITY = -10  # below 0: after the children that multiprocessing waits for have ended


@dataclass(slots=True)
class _Membership:
    users_fd: int
    socket_dir: Path


_memberships: dict[Path, _Membership] = {}
_memberships_lock = threading.RLock()


def join(folder: Path, options: Mapping[str, str] | None = None) -> Path:
    """Ensure that the server on `folder` runs as long as this process lives; returns the folder of its socket.

    `options` are server settings, which take effect only if this call starts the server. Raises: DatabaseUnavailable.
    """
    folder = folder.resolve()
    with _memberships_lock:
        if (existing := _memberships.get(folder)) is not None:
            return existing.socket_dir
        with _readable(folder), _start_lock(folder):
            users_fd = os.open(_sibling(folder, "users"), os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(users_fd, fcntl.LOCK_SH)
            membership = _memberships[folder] = _Membership(users_fd, folder)
            Finalize(None, leave, exitpriority=LEAVE_PRIORITY)
            try:
                membership.socket_dir = _ensure_running(folder, options or {})
                _ensure_database(membership.socket_dir)
            except BaseException:
                _give_up(folder)
                raise
        return membership.socket_dir


def revive(folder: Path, options: Mapping[str, str] | None = None) -> bool:
    """Restart the server if it died while in use; returns whether it had."""
    folder = folder.resolve()
    if (running := server.find(folder)) and running.ready:
        return False
    if folder not in _memberships:
        join(folder, options)
        return True
    with _readable(folder), _start_lock(folder):
        _memberships[folder].socket_dir = _ensure_running(folder, options or {})
    return True


def leave(*, timeout_s: int = server.STOP_TIMEOUT_S, patience_s: float = 0.0) -> None:
    """Stop using every server that this process uses; a server without other users is stopped.

    `patience_s` is how long to wait for other users to leave, for a caller that has just ended them.
    """
    with _memberships_lock:
        for folder in list(_memberships):
            # A folder that was deleted has no lock file to open; PostgreSQL ends itself when it notices.
            with contextlib.suppress(FileNotFoundError), _start_lock(folder):
                _give_up(folder, timeout_s=timeout_s, patience_s=patience_s)


def _give_up(folder: Path, *, timeout_s: int = server.STOP_TIMEOUT_S, patience_s: float = 0.0) -> None:
    # Closed, not unlocked: unlocking would also take the lock away from forked children.
    os.close(_memberships.pop(folder).users_fd)
    with _locked(_sibling(folder, "users"), patience_s) as alone:
        if alone:
            server.stop(folder, timeout_s=timeout_s)


def _ensure_running(folder: Path, options: Mapping[str, str]) -> Path:
    running = server.wait_until_settled(folder) or server.start(folder, options)
    return running.socket_dir


def _ensure_database(socket_dir: Path) -> None:
    try:
        _connect(socket_dir, DATABASE).close()
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise DatabaseUnavailable(f"The embedded PostgreSQL runs but does not answer: {error}") from error
        with _connect(socket_dir, "postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    # Create roles and policies in a folder of a version without them, before any process logs in with a role.
    with _connect(socket_dir, DATABASE) as connection:
        if not _answer(connection, "roles_are_there"):
            connection.execute(sql.SQL(load_sql("convmemory.core", "create_roles")))
            if _answer(connection, "is_migrated"):
                apply_policies(connection)


def apply_policies(connection: psycopg.Connection) -> None:
    """Create the policies, the functions that bypass them, and the rights of the roles, as far as their tables exist.

    Requires the owner of the tables. The functions are created once, after all the tables that they read; the rest is
    created in each owner group.
    """
    distribution = layout.layout_of(connection) if layout.is_noted(connection) else layout.note_layout(connection)
    is_migrated = _answer(connection, "is_migrated")
    with connection.transaction():
        before = _answer(connection, "search_path")
        for path in distribution.paths:
            _choose_path(connection, path)
            for step in ROW_SECURITY:
                if step != DEFINER_FUNCTIONS or (is_migrated and path == distribution.home_path):
                    connection.execute(sql.SQL(load_sql("convmemory.core", step)))
        if distribution.groups:
            connection.execute(sql.SQL(load_sql("convmemory.core.postgres", "grant_over_all")))
        _choose_path(connection, before)


def _choose_path(connection: psycopg.Connection, path: str) -> None:
    connection.execute(load_sql("convmemory.core", "choose_path").encode(), [path])


def _answer(connection: psycopg.Connection, question: str) -> Any:
    row = connection.execute(sql.SQL(load_sql("convmemory.core", question))).fetchone()
    return row[0] if row else None


def _connect(socket_dir: Path, database: str) -> psycopg.Connection:
    return psycopg.connect(
        host=str(socket_dir),
        port=configuration.PORT,
        user=configuration.SUPERUSER,
        dbname=database,
        connect_timeout=30,
        autocommit=True,
    )


def _sibling(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        private_folder(folder.parent)
        yield
    except OSError as error:
        raise DatabaseUnavailable(
            f"The embedded database on {folder} cannot be used: {error.strerror} ({error.filename}). Run this command "
            "as the user who made the folder, choose another with CONVMEMORY_VAR, or set DATABASE_URL."
        ) from error


@contextlib.contextmanager
def _start_lock(folder: Path) -> Iterator[None]:
    with _locked(_sibling(folder, "lock"), LOCK_TIMEOUT_S) as locked:
        if not locked:
            raise DatabaseUnavailable(f"Another process has been starting the database on {folder} for minutes.")
        yield


@contextlib.contextmanager
def _locked(path: Path, patience_s: float) -> Iterator[bool]:
    """Yield whether the exclusive lock on `path` was obtained within `patience_s`; the block holds it until it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience_s
    try:
        while not (locked := _try_lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield locked
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
