"""The configuration files of the embedded PostgreSQL, rewritten at each start."""

import contextlib
import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil

SUPERUSER = "postgres"
PORT = 5432  # names the socket file; no port is opened
MIN_SHARED_MEMORY_FOLDER = 512 * 1024 * 1024
BUFFER_SHARE = 1 / 8  # of the memory for PostgreSQL's cache; the kernel's cache and the processes get the rest
LEAST_BUFFERS_MB, MOST_BUFFERS_MB = 256, 8192  # more takes long to allocate at start
ACCESS_MAP = "convmemory"
STATISTICS = {"autovacuum_analyze_scale_factor": "0.005", "autovacuum_analyze_threshold": "1000"}
"""Renews the planner's statistics when a two-hundredth of a table has changed; PostgreSQL waits for a tenth.

The planner takes an owner whom the statistics do not know for one with hardly any rows. In a database of 1.6 million
passages an archive of 67,840 was unknown after its import, and a search of it read them all once for each turn."""
DISCREET = {
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
"""Keeps texts of people out of the server's log: an error's message can quote a value, its detail a whole row, and the
report of a crashed process its statement with values. The client still gets the error."""


def write_configuration(folder: Path, sockets: Path, options: Mapping[str, str]) -> None:
    directory = str(sockets).replace('"', '""')
    memory_mb = memory_size() // 1024**2
    buffers_mb = min(max(LEAST_BUFFERS_MB, int(memory_mb * BUFFER_SHARE)), MOST_BUFFERS_MB)
    tuning = {
        "shared_buffers": f"{buffers_mb}MB",
        "work_mem": "32MB",
        "maintenance_work_mem": "256MB",
        "effective_cache_size": f"{max(512, memory_mb // 2)}MB",
        "max_wal_size": "2GB",
        "random_page_cost": "1.1",
        "jit": "off",
        "max_parallel_workers_per_gather": str(
            max(1, (os.cpu_count() or 2) // 2)
        ),  # two parallel searches would leave no core free
        "max_connections": str(max(60, 40 + 2 * (os.cpu_count() or 1))),
        "fsync": "on",
        "synchronous_commit": "on",
        "log_checkpoints": "off",
        "lc_messages": "C",
    }
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")  # noqa: S108
        if room.f_frsize * room.f_blocks < MIN_SHARED_MEMORY_FOLDER:
            tuning["dynamic_shared_memory_type"] = "sysv"  # 64 MB in a container cannot hold an index build
    values = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": f'"{directory}"',
        **tuning,
        **STATISTICS,
        **DISCREET,
        **options,
    }
    lines = ["{} = '{}'".format(name, value.replace("'", "''")) for name, value in values.items()]
    path = folder / "convmemory.conf"
    path.write_text("\n".join(["# Written by convmemory at each start.", *lines, ""]), encoding="utf-8")
    path.chmod(0o644)  # inside a folder that is closed to others


def write_access(folder: Path) -> None:
    """Let the folder's owner and root log in with every role, authenticated by the kernel without a password.

    Separate system users per role would gain nothing: any process of these users could read the data without the
    server. The log-ins of the program stay separate because a connection cannot switch to another role.
    """
    names = set()
    for user_id in (folder.stat().st_uid, os.geteuid(), 0):
        with contextlib.suppress(KeyError):  # not every container names its root
            names.add(pwd.getpwuid(user_id).pw_name)
    written = "# Written by convmemory at each start.\n"
    lines = [f'{ACCESS_MAP} "{name}" all\n' for name in sorted(names)]
    access = [f"local all all peer map={ACCESS_MAP}\n", f"local replication {SUPERUSER} peer map={ACCESS_MAP}\n"]
    for name, text in (("pg_ident.conf", "".join(lines)), ("pg_hba.conf", "".join(access))):
        (folder / name).write_text(written + text, encoding="utf-8")


def was_discreet(folder: Path) -> bool:
    """Return whether the server last ran with `DISCREET`; versions without it logged statements with their values."""
    with contextlib.suppress(FileNotFoundError):
        return "log_error_verbosity" in (folder / "convmemory.conf").read_text(encoding="utf-8")
    return False


def memory_size(root: Path = Path("/")) -> int:
    """Return the usable bytes of memory: the machine's, or the lowest limit on this process's control groups.

    `root` is the folder of `proc` and `sys`.
    Source: proc(5) and the kernel's documentation of both versions of cgroups.
    """
    sizes = [psutil.virtual_memory().total]
    for path in _limit_files(root):
        with suppress(OSError, ValueError):  # not every group has a limit, or can be seen; without one it says "max"
            sizes.append(int(path.read_text(encoding="ascii")))
    return min(sizes)


def _limit_files(root: Path) -> Iterator[Path]:
    """Yield the files with the limits of this process's control group and of its parents."""
    groups = root / "proc/self/cgroup"
    lines = groups.read_text(encoding="utf-8").splitlines() if groups.exists() else []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        path = PurePosixPath(group).relative_to("/")
        yield from (folder / part / name for part in (path, *path.parents))
