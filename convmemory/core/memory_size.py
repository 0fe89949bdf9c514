"""The memory of the machine, container or service in which this process runs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil


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
