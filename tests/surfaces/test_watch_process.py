"""`manage.py watch` and a worker as processes of their own: what an agent appends to a transcript is found."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import AuditEntry
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Message
from search.searching import SearchQuery, search
from tests.factories import make_user
from tests.support.importing import let_children_in
from tests.support.patience import wait_until
from tests.support.web_process import database_environment
from tests.support.worker import running_worker
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SESSION = ".claude/projects/-bakery/0c5e2b7a-0000-4000-8000-00000000000a.jsonl"


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch, settings: Any) -> User:
    let_children_in(monkeypatch)
    return make_user()


@contextmanager
def watching(owner: User, home: Path) -> Iterator[None]:
    command = [sys.executable, "manage.py", "watch", "--user", owner.username, "--home", str(home), "--yes"]
    environment = {**os.environ, **database_environment(), "CLAUDE_CONFIG_DIR": "", "XDG_DATA_HOME": ""}
    process = subprocess.Popen(command, cwd=django_settings.BASE_DIR, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.essential
def test_line_that_is_appended_is_found(owner: User, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / SESSION, [user_line("u1", "How long does rye rise?"), assistant_line("a1", "Overnight.")]
    )
    with running_worker({}, tmp_path / "worker.log"), watching(owner, tmp_path):
        wait_until(lambda: Message.objects.count() == 2)
        more = write_lines(
            tmp_path / "more", [user_line("u2", "Which zebrafish tank?"), assistant_line("a2", "The left one.")]
        )
        with path.open("ab") as file:
            file.write(more.read_bytes())
        wait_until(lambda: any(hit.number == 1 for hit in found(owner, "zebrafish tank")))
    entry = AuditEntry.objects.get(about_id=owner.pk, action="changed")
    assert entry.what == f"import {Import.objects.get().pk}"


def found(owner: User, text: str) -> Any:
    return search(caller=Caller.of(owner), query=SearchQuery(text=text)).hits
