"""Legal holds: no deletion passes while one is in force, and staff set and lift them with a reason."""

import re
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.auditing import Action
from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import AuditEntry, LegalHold
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations import curating
from convmemory.conversations.importing.links import remove_messages, request_undo
from convmemory.conversations.importing.models import Import, ImportedConversation
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.errors import OnLegalHold
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.ops.models import Erasure
from convmemory.ops.privacy.erasing import erase_again, unfinished
from convmemory.retention import trash
from tests.factories import add_member, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.documents import GUIDE, replace, upload

pytestmark = pytest.mark.django_db

HOLDS = "/admin/accounts/legalhold/"


@pytest.fixture
def owner() -> User:
    return make_user("nora")


def talk(owner: User) -> Conversation:
    return make_conversation(owner, exchange(("Is the dam sound?", "It was inspected in May.")), title="Dam")


def hold(owner: User, conversation: Conversation | None = None) -> LegalHold:
    return LegalHold.objects.create(
        archive_id=owner.pk, conversation_id=conversation.pk if conversation else None, reason="a claim"
    )


@pytest.mark.parametrize("trash_days", [30, 0])
def test_held_conversation_is_not_deleted_and_others_are(owner: User, settings: Settings, trash_days: int) -> None:
    settings.TRASH_DAYS = trash_days
    held, free = talk(owner), talk(owner)
    hold(owner, held)
    job = Import.objects.create(archive_id=owner.pk, size=1, state=Import.State.DONE)
    ImportedConversation.objects.create(archive_id=owner.pk, import_job=job, conversation=held, file="a", created=True)
    message = held.messages.earliest("pk").pk
    deletions: list[Any] = [
        lambda: ingest.delete_conversation(caller=Caller.of(owner), conversation_id=held.pk),
        lambda: ingest.delete_for_good(caller=Caller.of(owner), conversation_id=held.pk),
        lambda: curating.delete_all(caller=Caller.of(owner), conversation_ids=[free.pk, held.pk]),
        lambda: request_undo(caller=Caller.of(owner), import_id=job.pk),
        lambda: remove_messages(caller=Caller.of(owner), conversation_id=held.pk, ids=(message, message)),
    ]
    for deletion in deletions:
        with pytest.raises(OnLegalHold, match=f"Conversation {held.pk} is on legal hold"):
            deletion()
    assert set(Conversation.objects.values_list("pk", flat=True)) == {held.pk, free.pk}
    assert held.messages.count() == 2
    ingest.append_messages(caller=Caller.of(owner), conversation_id=held.pk, drafts=[user_says("And now?")])
    assert held.messages.count() == 3
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=free.pk)
    assert Conversation.objects.get().pk == held.pk
    api = Client(headers={"Authorization": f"Bearer {create_key(person=owner)}"})
    refused = api.delete(f"/api/v1/conversations/{held.pk}")
    assert (refused.status_code, "legal hold" in refused.json()["detail"]) == (409, True)
    LegalHold.objects.update(lifted_at=timezone.now())
    assert api.delete(f"/api/v1/conversations/{held.pk}").status_code == 204


def test_trash_keeps_what_is_held_until_the_hold_is_lifted(owner: User) -> None:
    held, document = talk(owner), upload(owner, GUIDE)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=held.pk)
    library.delete_document(caller=Caller.of(owner), document_id=document.pk)
    of_conversation = hold(owner, held)
    with pytest.raises(OnLegalHold):
        trash.delete_now(caller=Caller.of(owner), kind="conversation", object_id=held.pk)
    assert trash.empty(caller=Caller.of(owner)) == 1
    of_account = hold(owner)
    for refused in (
        lambda: trash.empty(caller=Caller.of(owner)),
        lambda: library.delete_for_good(caller=Caller.of(owner), document_id=document.pk),
    ):
        with pytest.raises(OnLegalHold, match="This archive is on legal hold"):
            refused()
    Conversation.with_trash.update(trashed_at=timezone.now() - timedelta(days=31))
    assert trash.owners_with_due(limit=10) == []
    assert trash.delete_due(caller=Caller.of(owner), deadline=time.monotonic() + 60)
    assert (Conversation.with_trash.count(), Document.with_trash.count()) == (1, 1)
    of_account.delete()
    assert trash.delete_due(caller=Caller.of(owner), deadline=time.monotonic() + 60)
    assert (Conversation.with_trash.count(), Document.with_trash.count()) == (1, 0)
    of_conversation.delete()
    assert trash.owners_with_due(limit=10) == [owner.pk]
    assert trash.delete_due(caller=Caller.of(owner), deadline=time.monotonic() + 60)
    assert not Conversation.with_trash.exists()


def test_held_documents_are_neither_deleted_nor_replaced(owner: User) -> None:
    document = upload(owner, GUIDE)
    hold(owner)
    with pytest.raises(OnLegalHold):
        library.delete_document(caller=Caller.of(owner), document_id=document.pk)
    with pytest.raises(OnLegalHold, match="no document of it can be replaced"):
        replace(owner, document, "# Another guide\n\nWithout tomatoes.\n")
    assert Document.objects.get().digest == document.digest


def test_held_person_is_not_erased(owner: User) -> None:
    of_conversation = hold(owner, talk(owner))
    with pytest.raises(CommandError, match="is on legal hold"):
        call_command("erase_user", owner.username, "--yes", stdout=StringIO())
    browser = signed_in(owner)
    for refused in (
        browser.get("/settings/account/delete"),
        browser.post("/settings/account/delete", {"confirmation": "correct horse"}),
    ):
        assert (refused.status_code, "is on legal hold" in refused.content.decode()) == (409, True)
    owner.refresh_from_db()
    assert owner.is_active
    begun = Erasure.objects.create(user=owner)
    Erasure.objects.filter(pk=begun.pk).update(requested_at=timezone.now() - timedelta(hours=1))
    assert unfinished() == []
    of_conversation.delete()
    assert unfinished() == [owner.pk]


def test_restored_hold_does_not_keep_erased_person(owner: User) -> None:
    hold(owner)
    assert erase_again([(owner.pk, owner.date_joined)]) == ["nora"]
    assert not User.objects.filter(username="nora").exists()


def test_staff_set_and_lift_holds_with_reasons(owner: User) -> None:
    found, foreign = talk(owner), talk(make_user())
    staff = User.objects.create_user("steve", password="x", is_staff=True)
    admin = signed_in(staff)
    assert admin.get(HOLDS).status_code == 403
    names = ["view_legalhold", "add_legalhold", "change_legalhold", "delete_conversation"]
    staff.user_permissions.add(*Permission.objects.filter(codename__in=names))
    AuditEntry.objects.all().delete()
    values = {"archive": owner.pk, "conversation_id": found.pk, "reason": "claim 7 of the insurer"}
    for wrong in ({"conversation_id": foreign.pk}, {"reason": ""}):
        assert "errorlist" in admin.post(f"{HOLDS}add/", values | wrong).content.decode()
    admin.post(f"{HOLDS}add/", values)
    admin.post(f"{HOLDS}add/", {"archive": owner.pk, "conversation_id": "", "reason": "claim 8"})
    one, other = LegalHold.objects.order_by("pk")
    chosen = {"action": "delete_chosen", "_selected_action": found.pk, "post": "1"}
    assert admin.post("/admin/conversations/conversation/", chosen).status_code == 409
    assert "errorlist" in admin.post(f"{HOLDS}{one.pk}/change/", {"lift_reason": ""}).content.decode()
    for each in (one, other):
        admin.post(f"{HOLDS}{each.pk}/change/", {"lift_reason": "settled", "archive": staff.pk, "reason": "another"})
        each.refresh_from_db()
        assert (each.archive_id, each.lift_reason, each.lifted_at is None) == (owner.pk, "settled", False)
        assert admin.post(f"{HOLDS}{each.pk}/change/", {"lift_reason": "again"}).status_code == 403
        assert admin.post(f"{HOLDS}{each.pk}/delete/", {"post": "yes"}).status_code == 403
    assert one.reason == "claim 7 of the insurer"
    entries = AuditEntry.objects.exclude(action__in=(Action.MADE, Action.CHANGED)).order_by("pk")
    assert list(entries.values_list("action", "surface", "person__username", "about__person__username", "what")) == [
        ("held", "admin", "steve", "nora", f"conversation {found.pk}"),
        ("held", "admin", "steve", "nora", f"account {owner.pk}"),
        ("released", "admin", "steve", "nora", f"conversation {found.pk}"),
        ("released", "admin", "steve", "nora", f"account {owner.pk}"),
    ]


def test_hold_on_person_names_their_spaces_which_staff_hold_by_one_action(owner: User) -> None:
    ben = make_user("ben")
    house, shed, mine = (create_space(person=ben, name=name) for name in ("House", "Shed", "Mine"))
    for space in (house, shed):
        add_member(person=ben, space_id=space.pk, username=owner.username, role="contributor")
    remove_member(person=ben, space_id=shed.pk, member_id=owner.pk)
    own = create_space(person=owner, name="Own")
    written = make_conversation(house, exchange(("Is the dam sound?", "No.")))
    of_person, of_conversation = hold(owner), hold(ben, talk(ben))
    ingest.delete_conversation(caller=Caller.for_archive(house.pk), conversation_id=written.pk)  # the hold stops there
    trash.restore(caller=Caller.for_archive(house.pk), kind="conversation", object_id=written.pk)

    admin, staff = Client(), User.objects.create_user("steve", password="x", is_staff=True)
    admin.force_login(staff)
    staff.user_permissions.add(*Permission.objects.filter(codename="view_legalhold"))
    page = admin.get(f"{HOLDS}{of_person.pk}/change/").content.decode()
    rows = re.findall(r"<td>space (\d+)</td><td>(.*?)</td><td>(.*?)</td>", page)
    roles = ((house, "contributor"), (shed, "former member"), (own, "manager"))
    assert rows == [(str(space.pk), role, "none") for space, role in roles]
    assert "Spaces of the person" not in admin.get(f"{HOLDS}{of_conversation.pk}/change/").content.decode()
    chosen = {"action": "hold_spaces", "_selected_action": [of_person.pk, of_conversation.pk], "post": "1"}
    admin.post(HOLDS, chosen)
    assert LegalHold.objects.count() == 2, "without the permission to add holds"
    staff.user_permissions.add(*Permission.objects.filter(codename="add_legalhold"))
    asked = admin.post(HOLDS, chosen | {"post": ""}).content.decode()
    assert ("Extend 1 legal hold?" in asked, "also what others wrote" in asked) == (True, True)
    for _ in range(2):
        admin.post(HOLDS, chosen)
    added = LegalHold.objects.exclude(pk__in=[of_person.pk, of_conversation.pk]).order_by("archive_id")
    assert list(added.values_list("archive_id", "reason")) == [(each.pk, "a claim") for each in (house, shed, own)]
    page = admin.get(f"{HOLDS}{of_person.pk}/change/").content.decode()
    assert page.count("<td>held</td>") == 3
    with pytest.raises(OnLegalHold):
        ingest.delete_conversation(caller=Caller.for_archive(house.pk), conversation_id=written.pk)
    recorded = AuditEntry.objects.filter(action="held", person=staff).order_by("pk").values_list("what", "about_id")
    assert list(recorded) == [(f"account {each.pk}", each.pk) for each in (house, shed, own)]
    assert mine.pk not in added.values_list("archive_id", flat=True)


def test_staff_come_to_hold_of_conversation_and_of_space_by_links(owner: User) -> None:
    space = create_space(person=owner, name="House")
    found, of_person = make_conversation(space, exchange(("q?", "a."))), hold(owner)
    root = User.objects.create_superuser("root", password="x")
    admin = signed_in(root)
    for page, link in (
        (f"/admin/conversations/conversation/{found.pk}/change/", f"archive={space.pk}&amp;conversation_id={found.pk}"),
        (f"{HOLDS}{of_person.pk}/change/", f"archive={space.pk}"),
    ):
        assert f'href="{HOLDS}add/?{link}"' in admin.get(page).content.decode()
    form = admin.get(f"{HOLDS}add/?archive={space.pk}&conversation_id={found.pk}").content.decode()
    assert re.search(rf'name="archive" value="{space.pk}"', form)
    assert re.search(rf'name="conversation_id" value="{found.pk}"', form)


def test_application_reads_holds_of_caller_alone_and_sets_none(owner: User) -> None:
    hold(owner)
    hold(make_user())
    with acting_for(owner.pk):
        assert LegalHold.objects.count() == 1
        for change in (lambda: LegalHold.objects.update(reason=""), lambda: LegalHold.objects.all().delete()):
            with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
                change()
