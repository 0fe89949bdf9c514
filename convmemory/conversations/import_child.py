"""The process that parses one upload, under limits: `python -m convmemory.conversations.import_child`.

Arguments: the import's id, the worker's claim on it, a folder to unpack into, megabytes, seconds, the worker's
process number.
"""

import os
import sys

from convmemory.core.background import is_background, step_back
from convmemory.core.child_limits import limit_this_process

EXIT_MEMORY = 70


def main() -> None:
    import_id, run, folder, memory_mb, timeout_s, parent_pid = sys.argv[1:]
    limit_this_process(memory_mb=int(memory_mb), timeout_s=int(timeout_s), parent_pid=int(parent_pid))
    if is_background():  # as its worker is; a new session starts without what was said of the worker's
        step_back()
    try:
        _work(int(import_id), run, folder)
    except MemoryError:
        os._exit(EXIT_MEMORY)  # nothing that could need memory is done any more


def _work(import_id: int, run: str, folder: str) -> None:
    import uuid
    from pathlib import Path

    import django

    django.setup()
    from convmemory.conversations.import_work import work

    work(import_id=import_id, run=uuid.UUID(run), folder=Path(folder))


if __name__ == "__main__":
    main()
