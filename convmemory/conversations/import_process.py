"""Runs one import in a child process of the worker, and kills it when its time is up or its claim is lost."""

import os

from convmemory.conversations import import_queue
from convmemory.conversations.import_models import Import
from convmemory.conversations.import_storage import upload_storage
from convmemory.core import child_process
from convmemory.core.child_process import ChildLimits, Ending
from convmemory.core.config import config
from convmemory.core.work_folders import work_folder


def run_import(*, owner_id: int, import_id: int) -> str | None:
    """Import a waiting upload of the owner; returns its state afterwards. None if it cannot be claimed now."""
    row = import_queue.claim(owner_id=owner_id, import_id=import_id)
    if row is None:
        return None
    with work_folder("import", owner_id=row.owner_id, claim=row.pk) as folder:
        ending = run_child(row, str(folder))
    _conclude(row, ending)
    state = str(Import.objects.filter(pk=import_id).values_list("state", flat=True).first() or "gone")
    if state not in (Import.State.QUEUED, Import.State.RUNNING):
        upload_storage().delete(str(row.file.name))  # a killed child has not deleted it
    return state


def run_child(row: Import, folder: str) -> Ending:
    """Run a separate process on the claimed import until it ends or is ended."""
    return child_process.run_forked_child(
        "convmemory.conversations.import_child",
        [str(row.pk), str(row.run), folder, str(row.owner_id)],
        limits=ChildLimits(memory_mb=config.import_memory_mb, timeout_s=config.import_timeout_s),
        environment=os.environ | {"DJANGO_SETTINGS_MODULE": "convmemory.settings"},
        is_wanted=lambda: import_queue.renew(row),
    )


def _conclude(row: Import, ending: Ending) -> None:
    what_to_do = "What was read is stored. Upload it in parts, or use `manage.py import_conversations` on the server."
    if ending is Ending.OUT_OF_TIME:
        limit = f"{config.import_timeout_s} s (IMPORT_TIMEOUT_S)"
        import_queue.fail(row, Import.Failure.TIME, f"The import took longer than {limit}. {what_to_do}")
    elif ending is Ending.OUT_OF_MEMORY:
        limit = f"{config.import_memory_mb} MB (IMPORT_MEMORY_MB)"
        import_queue.fail(row, Import.Failure.MEMORY, f"The import needs more memory than {limit}. {what_to_do}")
    elif ending in (Ending.CRASHED, Ending.DISK_FULL):
        import_queue.give_back(row)
