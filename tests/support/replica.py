"""A streaming replica of a running server, made by `pg_basebackup` and started on the same machine."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection

from convmemory.core.postgres import configuration, embedded, server
from convmemory.core.postgres import server as programs
from tests.conftest import FAST_OPTIONS
from tests.support.installation import wait_until

CAUGHT_UP_S = 60


@dataclass(frozen=True, slots=True)
class StreamingReplica:
    """A replica in a folder of its own."""

    folder: Path
    database: str
    primary: Mapping[str, Any]  # how a superuser reaches it
    options: Mapping[str, str]  # of the replica's server

    @property
    def host(self) -> str:
        return str(server.socket_dir(self.folder, programs.account_of(self.folder)))

    @property
    def url(self) -> str:
        """Its address, for `DATABASE_REPLICA_URLS`; who logs in is as for the primary."""
        return f"postgres://{quote(self.host, safe='')}:{configuration.PORT}/{self.database}"

    def start(self) -> None:
        server.start(self.folder, self.options)

    def kill(self) -> None:
        """As a machine does that loses its power."""
        server.stop(self.folder, timeout_s=0)

    def ask(self, statement: str) -> object:
        with psycopg.connect(host=self.host, user=configuration.SUPERUSER, dbname=self.database) as link:
            row = link.execute(statement.encode()).fetchone()
        return row[0] if row else None

    def pause(self) -> None:
        """It goes on receiving the log, and applies nothing of it."""
        self.ask("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.ask("SELECT pg_get_wal_replay_pause_state()") == "paused", "the pause", CAUGHT_UP_S)

    def resume(self) -> None:
        self.ask("SELECT pg_wal_replay_resume()")
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until it has everything that the primary has now."""
        with psycopg.connect(**self.primary, dbname=self.database) as link:
            row = link.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row
        is_there = f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'"
        wait_until(lambda: self.ask(is_there), "the replica to catch up", CAUGHT_UP_S, 0.02)


def _primary() -> dict[str, Any]:
    folder = connection.settings_dict["EMBEDDED_PATH"]
    return {
        "host": str(embedded.join(folder, FAST_OPTIONS)),
        "port": str(configuration.PORT),
        "user": configuration.SUPERUSER,
    }


@contextmanager
def streaming_replica(folder: Path) -> Iterator[StreamingReplica]:
    """A replica of the server of the tests' database, stopped at the end."""
    if not connection.settings_dict["EMBEDDED_PATH"]:
        pytest.skip("There is no copying of an external server from here.")
    with replica_of(_primary(), str(connection.settings_dict["NAME"]), folder, FAST_OPTIONS) as replica:
        yield replica


@contextmanager
def replica_of(
    primary: Mapping[str, Any], database: str, folder: Path, options: Mapping[str, str]
) -> Iterator[StreamingReplica]:
    """A replica of a running server on this machine, stopped at the end."""
    account = programs.account_of(folder)
    folder.mkdir(mode=0o700)
    if account:
        programs.open_path_to(folder)
        os.chown(folder, account.uid, account.gid)
    command = ["pg_basebackup", "-h", primary["host"], "-p", primary["port"], "-U", primary["user"], "-D", str(folder)]
    done = programs.run_program(
        [*command, "--write-recovery-conf", "--checkpoint=fast"], folder=folder, account=account
    )
    assert done.returncode == 0, done.stdout
    replica = StreamingReplica(folder, database, primary, options)
    try:
        replica.start()
        replica.catch_up()
        yield replica
    finally:
        server.stop(folder)
