"""The process that parses uploads, each in a forked child under limits, confined before it parses anything.

It runs as `python -m convmemory.conversations.importing.child`. Arguments of a child: the import's id, the worker's
claim on it, a folder to unpack into, and the owner's id.
"""

from collections.abc import Sequence

from convmemory.core.processes.child_limits import serve


def _prepare() -> None:
    import django

    django.setup()
    from django.db import connection
    from django.utils.translation import gettext

    import convmemory.conversations.importing.work  # noqa: F401 - loaded once, for all children

    connection.settings_dict["OPTIONS"].pop("pool", None)  # a pool's threads would not be confined
    connection.settings_dict |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}  # a child connects once
    gettext("")  # loads the messages, whose folder a confined child cannot read


def _work(arguments: Sequence[str]) -> None:
    import uuid
    from pathlib import Path

    from convmemory.conversations.importing.work import work
    from convmemory.core.acting import acting_for
    from convmemory.core.files.work_folders import work_inside

    import_id, run, folder, archive_id = arguments
    work_inside(Path(folder))
    with acting_for(int(archive_id)):
        work(import_id=int(import_id), run=uuid.UUID(run), folder=Path(folder), confined=True)


if __name__ == "__main__":
    serve(_prepare, _work)
