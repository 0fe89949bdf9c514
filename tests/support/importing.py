"""Imports in tests: run in the test's own process and transaction, or by a worker's task with a real child process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from asgiref.sync import sync_to_async

from convmemory.accounts import async_authentication
from convmemory.conversations import tasks
from convmemory.conversations.importing import api, queue
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.work import work
from convmemory.core.config import config
from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import Ending
from tests.support.forked_commands import without_name_of_test
from tests.support.web_process import database_environment

T = TypeVar("T")


def run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import an upload as soon as it is enqueued, before it is answered, and keep its route in the test's thread."""

    def enqueue_for(archive_id: int, func: str, *args: Any, **options: Any) -> bool:
        if func == tasks.RUN:
            tasks.run(*args, archive_id=archive_id)
        return func == tasks.RUN

    async def in_this_thread(function: Callable[..., T], *args: Any, **values: Any) -> T:
        return await sync_to_async(function)(*args, **values)

    monkeypatch.setattr(tasks, "enqueue_for", enqueue_for)
    monkeypatch.setattr(queue, "run_child", run_here)
    monkeypatch.setattr(api, "in_thread", in_this_thread)
    monkeypatch.setattr(async_authentication, "first_in_thread", in_this_thread)


def run_here(row: Import, folder: str) -> Ending:
    """Stands for the child process."""
    assert row.run
    work(import_id=row.pk, run=row.run, folder=Path(folder))
    return Ending.DONE


def let_children_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes that this test starts use its database and its folder of uploads.

    Those of imports are forked by a process that has loaded the program; tests with the same folders share it.
    """
    run_forked_child = child_process.run_forked_child

    def run_without_name_of_test(*arguments: Any, environment: dict[str, str], **values: Any) -> Ending:
        return run_forked_child(*arguments, environment=without_name_of_test(environment), **values)

    monkeypatch.setattr(child_process, "run_forked_child", run_without_name_of_test)
    for name, value in database_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("IMPORT_FOLDER", str(config.import_folder))
    monkeypatch.setenv("MEDIA_ROOT", str(config.media_root))
    monkeypatch.setenv("TEMPORARY_FOLDER", str(config.temporary_folder))
    monkeypatch.setenv("SECRET_KEY", config.secret_key)


def uploads() -> list[str]:
    """The names of the files in the folder of uploads, with the folders of their owners."""
    folder = config.import_folder
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
