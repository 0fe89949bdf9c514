"""Free space on the disk of the data folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from convmemory.core.config import config
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity

GIB = 1024**3
# An index build and a reembed need room in addition to the existing data.
SHORT_BYTES = 5 * GIB
FULL_BYTES = 1 * GIB


def facts() -> Iterator[Fact]:
    usage = shutil.disk_usage(_folder())
    yield str(_folder()), f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f}"


def check_free_space() -> Iterator[Finding]:
    free = shutil.disk_usage(_folder()).free
    if free < SHORT_BYTES:
        yield Finding(
            "disk.short",
            Severity.ERROR if free < FULL_BYTES else Severity.WARNING,
            f"{free / GIB:.1f} GiB are free where {_folder()} lies; PostgreSQL stops when there are none.",
            "Free some space, run `manage.py reembed --prune`, or move the folder (CONVMEMORY_VAR, DATABASE_URL).",
        )


def _folder() -> Path:
    return Path(config.var_dir)


AREA = Area("disk", facts, (check_free_space,))
