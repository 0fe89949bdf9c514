"""The push client as a process of its own against the real server, killed in the middle of its batches."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Membership
from convmemory.accounts.spaces import create_space
from convmemory.conversations.importing.models import Import, KeptUpload
from convmemory.conversations.models import Conversation, Message
from tests.factories import make_user
from tests.support.importing import let_children_in
from tests.support.patience import wait_until
from tests.support.site import running_site
from tests.support.worker import running_worker
from tests.unit.importers.helpers import user_line, write_lines

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FILES, BATCH = 50, 10
CLIENT = f"""
import sys
from convmemory.push import packing
from convmemory.push.__main__ import main

packing.MAX_FILES = {BATCH}
sys.exit(main())
"""


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> User:
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"
    let_children_in(monkeypatch)
    return make_user()


def client(home: Path, address: str, key: str, *options: str) -> "subprocess.Popen[bytes]":
    environment = {"PATH": os.environ["PATH"], "CONVMEMORY_KEY": key, "CONVMEMORY_SERVER": address}
    command = [sys.executable, "-c", CLIENT, *options, "--yes", "--home", str(home)]
    return subprocess.Popen(command, cwd=django_settings.BASE_DIR, env=environment)


def test_push_killed_midway_resumes_without_resending_and_fills_space(owner: User, tmp_path: Path) -> None:
    for number in range(FILES):
        name = f"{number:08}-0000-4000-8000-000000000000.jsonl"
        write_lines(tmp_path / ".claude/projects/-p" / name, [user_line(f"u{number}", f"question {number}")])
    key = create_key(person=owner)
    with running_site() as address, running_worker({}, tmp_path / "worker.log"):
        first = client(tmp_path, address, key)
        wait_until(lambda: Import.objects.filter(state="done").count() >= 2)
        first.kill()
        first.wait()
        arrived = set(Import.objects.values_list("pk", flat=True))
        assert BATCH * len(arrived) < FILES
        assert client(tmp_path, address, key).wait() == 0
        wait_until(lambda: not Import.objects.filter(state__in=["queued", "running"]).exists())
        # Only a key that writes to the space of a contributor sends files to it.
        account = create_space(person=make_user("mia"), name="Boat house")
        Membership.objects.create(archive=account, person=owner, role="contributor")
        write_lines(tmp_path / "shared" / "session.jsonl", [user_line("s", "Who has the oars?")])
        writing = create_key(person=owner, space_ids=[account.pk], writes_spaces=True)
        for other, code in ((key, 2), (create_key(person=owner, space_ids=None), 2), (writing, 0)):
            assert client(tmp_path, address, other, str(tmp_path / "shared"), "--space", "boat house").wait() == code
        shared = Conversation.objects.get(archive_id=account.pk)
        assert shared.messages.get().parts[0]["text"] == "Who has the oars?"
        assert Import.objects.filter(archive_id=account.pk).count() == 1
    # one that was killed while it sent leaves no import; one that the server had taken is not sent again
    own = Import.objects.filter(archive_id=owner.pk)
    assert own.count() == KeptUpload.objects.filter(archive_id=owner.pk).count() == FILES / BATCH
    assert arrived < set(own.values_list("pk", flat=True))
    assert (
        Conversation.objects.filter(archive_id=owner.pk).count()
        == Message.objects.filter(archive_id=owner.pk).count()
        == FILES
    )
    assert {row.report["total"]["unchanged"] for row in own if row.report} == {0}
