"""The process that parses one upload under limits: `python -m convmemory.conversations.import_child`.

Arguments: the import's id, the worker's claim on it, a folder to unpack into, the owner's id, and the limits.
"""

from collections.abc import Sequence

from convmemory.core.child_limits import run_under_limits


def _work(arguments: Sequence[str]) -> None:
    import uuid
    from pathlib import Path

    import django

    django.setup()
    from convmemory.conversations.import_work import work
    from convmemory.core.acting import acting_for

    import_id, run, folder, owner_id = arguments
    with acting_for(int(owner_id)):
        work(import_id=int(import_id), run=uuid.UUID(run), folder=Path(folder))


if __name__ == "__main__":
    run_under_limits(_work)
