"""One `manage.py up` per data folder: the lock, the record of its processes, and cleaning up after a killed one.

Writes `<VAR_DIR>/up.lock` (locked as long as the process lives, however it ends) and `<VAR_DIR>/up.json` (the URL, and
each process with its start time, so that a reused process id is not mistaken for it).
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from convmemory.core.errors import ConvMemoryError
from convmemory.core.private_files import private_folder, written_whole
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
        return cls(folder, lock_fd)

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
        with written_whole(self._record_path) as file:
            file.write(json.dumps({"pid": os.getpid(), "address": address, "children": marks}).encode())

    def release(self) -> None:
        self._record_path.unlink(missing_ok=True)
        os.close(self._lock_fd)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record
