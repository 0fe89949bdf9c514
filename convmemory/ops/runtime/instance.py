"""One `manage.py up` per data folder: its lock, its first start, the programs it starts, and cleaning up.

Writes `<VAR_DIR>/up.lock` (locked as long as the process lives, however it ends) and `<VAR_DIR>/up.json` (the URL, and
each process with its start time, so that a reused process id is not mistaken for it).
"""

import contextlib
import fcntl
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from django.contrib.auth.models import User
from django.db import transaction

from convmemory.accounts.callers import Caller, acting_as
from convmemory.core import program
from convmemory.core.config import Config, config
from convmemory.core.encryption import key_fingerprint
from convmemory.core.errors import ConvMemoryError
from convmemory.core.files.private_files import private_folder, written_whole
from convmemory.core.web import stopping
from convmemory.ops.models import KeyFingerprint
from convmemory.ops.runtime.supervisor import kill_tree, session_members

TERMINATE_TIMEOUT_S = 3.0
# psutil derives the start time from the boot time, which moves when the clock is set.
START_TIME_TOLERANCE_S = 1.0


class AlreadyRunning(ConvMemoryError):
    """Another `up` runs on the same data; the message names its process and address."""


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process, distinguished by its start time from a later one with the same number."""

    pid: int
    create_time: float

    @classmethod
    def of(cls, pid: int) -> "ProcessMark":
        return cls(pid, psutil.Process(pid).create_time())

    def exists(self) -> bool:
        """Return whether this process exists, including as a zombie that its parent has not collected."""
        try:
            started = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        return bool(abs(started - self.create_time) < START_TIME_TOLERANCE_S)

    def left_behind(self) -> list[psutil.Process]:
        """Return the living processes of the session that it leads; none if its number now belongs to another."""
        if psutil.pid_exists(self.pid) and not self.exists():
            return []
        return session_members(self.pid)


class Instance:
    """The right to run on a data folder, from `acquire` to `release` or the end of the process."""

    def __init__(self, folder: Path, lock_fd: int) -> None:
        self._record_path = folder / "up.json"
        self._lock_fd = lock_fd

    @classmethod
    def acquire(cls, folder: Path) -> "Instance":
        """Take the lock of the folder. Raises: AlreadyRunning."""
        private_folder(folder)
        lock_fd = os.open(folder / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_fd)
            record = _read(folder / "up.json")
            raise AlreadyRunning(
                f"convmemory already runs on {folder}: process {record.get('pid', '(starting)')}, "
                f"{record.get('address', 'no address yet')}. Stop it first, or name another folder with CONVMEMORY_VAR."
            ) from None
        instance = cls(folder, lock_fd)
        # The record of a killed run names an address that may be another installation's now.
        instance._write({"children": _read(instance._record_path).get("children", {})})
        return instance

    def stop_leftovers(self) -> int:
        """End the processes of an earlier `up` that was killed; return their number."""
        marks = [ProcessMark(**mark) for mark in _read(self._record_path).get("children", {}).values()]
        leftovers = [process for mark in marks for process in mark.left_behind()]
        for mark in marks:
            if mark.exists():
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(mark.pid).terminate()
        _, stubborn = psutil.wait_procs(leftovers, timeout=TERMINATE_TIMEOUT_S)
        for process in stubborn:
            kill_tree(process.pid)
        psutil.wait_procs(stubborn, timeout=TERMINATE_TIMEOUT_S)
        return len(leftovers)

    def record(self, address: str, children: Mapping[str, int]) -> None:
        """Write the record of the running processes."""
        marks = {}
        for name, pid in children.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                marks[name] = asdict(ProcessMark.of(pid))
        self._write({"address": address, "children": marks})

    def _write(self, record: Mapping[str, Any]) -> None:
        with written_whole(self._record_path) as file:
            file.write(json.dumps({"pid": os.getpid(), **record}).encode())

    def release(self) -> None:
        self._record_path.unlink(missing_ok=True)
        os.close(self._lock_fd)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record


ADMIN_NAME = "admin"


# The account is created at once, so that its password can be shown. The worker's preparation loads the samples; a
# marker file under VAR_DIR records until then that they are missing, even after a crash.
def create_admin(var_folder: Path) -> str | None:
    """Create an administrator if there is no user; return the password, otherwise None."""
    with transaction.atomic():
        if User.objects.exists():
            return None
        if config.samples:
            _marker(var_folder).touch()
        password = secrets.token_urlsafe(12)
        User.objects.create_superuser(ADMIN_NAME, password=password)
        return password


def load_pending_samples(var_folder: Path) -> int:
    """Load the sample conversations if this installation still lacks them; return their number."""
    marker = _marker(var_folder)
    if not marker.exists():
        return 0
    from convmemory.conversations.samples_loader import load_samples

    owner = User.objects.filter(username=ADMIN_NAME).first()
    count = 0
    if owner:
        with acting_as(Caller.of(owner)) as caller:
            count = load_samples(caller)
    marker.unlink(missing_ok=True)
    return count


def _marker(var_folder: Path) -> Path:
    return var_folder / "samples.pending"


def remember_key() -> None:
    """Record the SECRET_KEY with which this database is used, unless one is recorded; `doctor` compares it."""
    if not KeyFingerprint.objects.exists():
        KeyFingerprint.objects.get_or_create(fingerprint=key_fingerprint())


KEEP_ALIVE_S = 5


def listening_address(host: str | None, port: int | None) -> tuple[str, int]:
    """Where to listen: the command's options, else `HOST` and `PORT`, else port 8000 of this machine alone."""
    return host or Config.host.read() or "127.0.0.1", Config.port.read() if port is None else port


def web_command(host: str, port: int) -> list[str]:
    """Return the command for uvicorn with `WEB_WORKERS` processes.

    It trusts `X-Forwarded-For` of configured proxies only, not of this machine as by default: any local process could
    claim any address. It gets no --limit-concurrency, which counts idle connections: `http_limits` limits connections
    and requests itself.
    """
    command = [sys.executable, "-m", "uvicorn", "convmemory.asgi:application", "--host", host, "--port", str(port)]
    if proxies := config.forwarded_allow_ips:
        command += ["--proxy-headers", "--forwarded-allow-ips", ",".join(proxies)]
    else:
        command += ["--no-proxy-headers"]
    command += ["--no-access-log", "--timeout-graceful-shutdown", str(stopping.graceful_timeout_s())]
    command += ["--http", "convmemory.http_limits.connections:GuardedConnection", "--ws", "none"]
    command += ["--timeout-keep-alive", str(KEEP_ALIVE_S)]
    command += ["--app-dir", str(config.base_dir)]
    if (workers := Config.web_workers.read()) > 1:
        command += ["--workers", str(workers)]
    return command


def worker_command() -> list[str]:
    return [*program.command(), "worker"]


def backup_command() -> list[str]:
    command = [*program.command(), "backup", "--to", config.backup_folder]
    return [*command, "--every", str(config.backup_every_h), "--keep", str(config.backup_keep), "--yes"]
