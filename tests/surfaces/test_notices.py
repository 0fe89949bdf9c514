"""Mail about imports and archives that have ended: who gets it, how often, and what it says."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive, Mail, MailChoice
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.accounts.tasks import send_mail
from convmemory.conversations import tasks
from convmemory.conversations.importing import queue
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.importing.models import Import
from convmemory.core import acting
from convmemory.core.queue.retrying import MAIL
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy.exporting import request_archive
from convmemory.ops.tasks import write_own_archive
from tests.factories import add_member, caller_for, make_user
from tests.support.api import signed_in
from tests.support.importing import run_here
from tests.support.markup import flat
from tests.support.smtp_server import SITE, Mailbox, running_smtp_server

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "where is the ladder?"}\n{"role": "assistant", "content": "in the shed"}\n'
LONG_AGO = timedelta(minutes=6)


@pytest.fixture
def mailbox(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    monkeypatch.setattr(queue, "run_child", run_here)
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", str(tmp_path / "media")
    with running_smtp_server(settings) as mailbox:
        yield mailbox


@pytest.fixture
def ada(owner: User) -> User:
    owner.email = "ada@example.org"
    owner.save()
    return owner


def sent(mailbox: Mailbox) -> list[str]:
    """Return the subjects of the mail that a worker sends now."""
    before = len(mailbox.messages)
    with acting.without_owner():
        send_mail()
    return [str(message["Subject"]) for message in mailbox.messages[before:]]


def do_import(owner: User | Archive, content: bytes = LINES, *, waited: timedelta = LONG_AGO) -> Import:
    row = queue_import(caller=caller_for(owner), file=SimpleUploadedFile("the ladder.jsonl", content))
    Import.objects.filter(pk=row.pk).update(created_at=timezone.now() - waited)
    tasks.run(row.pk, archive_id=owner.pk)
    return row


def test_long_import_is_mailed_once_without_its_name(ada: User, mailbox: Mailbox) -> None:
    row = do_import(ada)
    tasks.run(row.pk, archive_id=ada.pk)
    assert sent(mailbox) == ["Your import at convmemory is finished"]
    assert sent(mailbox) == []
    assert mailbox.messages[0]["To"] == "ada@example.org"
    assert mailbox.link() == f"{SITE}{reverse('one-import', args=[row.pk])}"
    assert "ladder" not in mailbox.messages[0].as_string()
    assert not Mail.objects.exists()
    do_import(ada, b"\x00\x01 no transcript")
    assert sent(mailbox) == ["Your import at convmemory has failed"]


def test_import_into_space_is_mailed_to_member_who_sent_it(ada: User, mailbox: Mailbox) -> None:
    mia = make_user("mia")
    space = create_space(person=mia, name="Boat house")
    add_member(person=mia, space_id=space.pk, username=ada.username, role="contributor")
    with acting.acting_for(space.pk, person_id=ada.pk):
        row = do_import(space)
    assert sent(mailbox) == ["Your import at convmemory is finished"]
    assert mailbox.messages[0]["To"] == "ada@example.org"
    client = signed_in(ada)
    assert client.get(mailbox.link().removeprefix(SITE)).status_code == 200
    remove_member(person=mia, space_id=space.pk, member_id=ada.pk)
    Import.objects.filter(pk=row.pk).update(state=Import.State.QUEUED, file=row.file)
    tasks.run(row.pk, archive_id=space.pk)
    assert Import.objects.get(pk=row.pk).state == Import.State.FAILED  # its file is gone
    assert sent(mailbox) == []


def test_import_that_workers_lost_is_mailed_by_who_ends_it(ada: User, mailbox: Mailbox) -> None:
    queue_import(caller=Caller.of(ada), file=SimpleUploadedFile("chat.jsonl", LINES))
    long_ago = timezone.now() - LONG_AGO
    lost = {"state": Import.State.RUNNING, "run": uuid4(), "lease_until": long_ago, "created_at": long_ago}
    Import.objects.update(**lost, attempts=queue.MAX_ATTEMPTS)
    row = Import.objects.get()
    assert queue.release_lost() == 1
    assert sent(mailbox) == ["Your import at convmemory has failed"]
    assert not queue.give_back(row), "another has ended it"


def test_archive_that_took_long_is_mailed(ada: User, mailbox: Mailbox) -> None:
    row = request_archive(caller=Caller.of(ada))
    OwnArchive.objects.update(created_at=timezone.now() - LONG_AGO)
    write_own_archive(row.pk, archive_id=ada.pk)
    write_own_archive(row.pk, archive_id=ada.pk)
    assert sent(mailbox) == ["Your archive at convmemory is complete"]
    assert mailbox.link() == f"{SITE}/settings/data"


def test_choice_of_mail_is_kept_with_its_language(ada: User, mailbox: Mailbox) -> None:
    client = signed_in(ada)
    assert '"long" checked' in flat(client.get("/settings/account").content.decode())
    do_import(ada, waited=timedelta(0))
    assert sent(mailbox) == []
    assert client.post("/settings/account", {"notices": "all"}, HTTP_ACCEPT_LANGUAGE="de").status_code == 302
    assert MailChoice.objects.get().language == "de"
    do_import(ada, LINES * 2, waited=timedelta(0))
    assert len(sent(mailbox)) == 1
    client.post("/settings/account", {"notices": "none"})
    do_import(ada, LINES * 3)
    assert sent(mailbox) == []
    assert client.post("/settings/account", {"notices": "sometimes"}).status_code == 422
    assert MailChoice.objects.get().notices == "none"


def test_without_address_or_smtp_server_no_mail_is_stored_or_offered(
    ada: User, mailbox: Mailbox, settings: Settings
) -> None:
    client = signed_in(ada)
    User.objects.update(email="")
    assert 'name="notices"' not in client.get("/settings/account").content.decode()
    do_import(ada)
    User.objects.update(email="ada@example.org")
    settings.EMAIL_HOST = ""
    assert 'name="notices"' not in client.get("/settings/account").content.decode()
    do_import(ada, LINES * 2)
    assert not Mail.objects.exists()


def test_refused_notice_is_retried_up_to_limit_and_forgotten(ada: User, mailbox: Mailbox) -> None:
    mailbox.is_refusing = True
    do_import(ada)
    for _ in range(MAIL.max_attempts):
        assert Mail.objects.exists()
        sent(mailbox)
        Mail.objects.update(updated_at=timezone.now() - timedelta(hours=1))
    assert (mailbox.attempts, Mail.objects.exists()) == (MAIL.max_attempts, False)
