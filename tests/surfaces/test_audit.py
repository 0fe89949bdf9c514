"""The audit log: what is recorded, by which way in, and that it is only added to."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from convmemory.accounts.auditing import Action, entries, forget_old_entries, record, record_repeatable
from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive, AuditEntry, ShareLink, SpaceInvitation
from convmemory.conversations.messages import ingest
from convmemory.core.acting import acting_for, without_owner
from convmemory.documents.library import delete_document, delete_for_good, restore_document
from convmemory.ops.privacy.erasing import erase_user
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, signed_in
from tests.support.documents import GUIDE, upload

Entry = tuple[str, str, str | None, str | None, str]


def log() -> list[Entry]:
    rows = AuditEntry.objects.order_by("pk").select_related("person", "about__person")
    return [(row.action, row.surface, name_of(row.person), name_of(row.about), row.what) for row in rows]


def name_of(row: User | Archive | None) -> str | None:
    return None if row is None else str(row)


@pytest.mark.django_db
def test_signing_in_and_changes_are_recorded_by_surface_without_texts(owner: User, settings: Settings) -> None:
    settings.SHARING = "anybody"
    name = owner.username
    found = make_conversation(owner, exchange(("is the okapi shy?", "Very.")), title="okapi")
    other = Client()
    other.post("/login", {"username": "zebra-unknown", "password": "wrong"})
    other.post("/login", {"username": name, "password": "wrong okapi"})
    browser = Client()
    browser.post("/login", {"username": name, "password": "correct horse"})
    AuditEntry.objects.filter(action="signed in").exclude(surface="page").delete()
    api = Api(owner)
    token = api.send("POST", f"/conversations/{found.pk}/share_links", {"audience": "anybody"}).json()
    path = token["url"].removeprefix("http://testserver")
    eve = signed_in(make_user("eve"))
    AuditEntry.objects.filter(about__person__username="eve").delete()
    for visitor in (browser, eve, Client()):
        b"".join(visitor.get(path).streaming_content)  # type: ignore[attr-defined]
    b"".join(api.get(f"/conversations/{found.pk}/export").streaming_content)
    browser.post(f"/settings/links/{token['id']}/revoke")
    browser.get(f"/conversations/{found.pk}")  # one's own content: not recorded
    browser.post(f"/conversations/{found.pk}/delete")
    shown, link = f"conversation {found.pk} by share link {token['id']}", f"share link {token['id']}"
    assert [entry for entry in log() if not entry[4].startswith("key ")] == [
        ("sign-in failed", "page", None, None, "password"),
        ("sign-in failed", "page", None, name, "password"),
        ("signed in", "page", name, name, f"user {owner.pk}"),
        ("made", "api", name, name, link),
        ("read", "page", "eve", name, shown),
        ("read", "page", None, name, shown),
        ("exported", "api", name, name, f"conversation {found.pk}"),
        ("revoked", "page", name, name, link),
        ("trashed", "page", name, name, f"conversation {found.pk}"),
    ]
    assert not ShareLink.objects.exists()
    assert "okapi" not in str(log())


@pytest.mark.django_db
def test_changes_of_staff_and_keys_are_recorded(owner: User) -> None:
    root = User.objects.create_superuser("root", password="x")
    admin, browser = Client(), Client()
    admin.force_login(root)
    browser.force_login(owner)
    AuditEntry.objects.all().delete()
    browser.post("/settings/keys", {"name": "narwhal", "expires": "30"})
    key = AuditEntry.objects.get().what.removeprefix("key ")
    admin.post("/admin/accounts/apikey/", {"action": "revoke", "_selected_action": key, "post": "1"})
    admin.post("/admin/accounts/invitation/add/", {"email": ""})
    assert [entry[:4] for entry in log()] == [
        ("made", "page", owner.username, owner.username),
        ("changed", "admin", "root", None),
        ("made", "admin", "root", None),
    ]
    assert [entry[4].split()[0] for entry in log()] == ["key", "apikey", "invitation"]
    page = admin.get("/admin/accounts/auditentry/", {"person": owner.username, "action__exact": "made"})
    assert page.content.decode().count("field-what") == 1
    tomorrow = timezone.now() + timedelta(days=1)
    page = admin.get("/admin/accounts/auditentry/", {"since": tomorrow.date().isoformat()})
    assert page.content.decode().count("field-what") == 0
    assert admin.post(f"/admin/accounts/auditentry/{AuditEntry.objects.latest('pk').pk}/delete/").status_code == 403


@pytest.mark.django_db
def test_members_of_space_and_what_they_do_there_are_recorded_by_name(owner: User) -> None:
    ben = make_user("ben")
    browsers = {person.username: Client() for person in (owner, ben)}
    for person in (owner, ben):
        browsers[person.username].force_login(person)
    mine = browsers[owner.username]
    mine.post("/spaces", {"name": "Okapi house"})
    house = Archive.objects.get(kind="space")
    AuditEntry.objects.filter(action="signed in").delete()
    mine.post(f"/spaces/{house.pk}", {"action": "rename", "name": "Okapi hall"})
    mine.post(f"/spaces/{house.pk}", {"action": "invite", "username": "ben", "role": "reader"})
    invitation = SpaceInvitation.objects.get().pk
    browsers["ben"].post("/spaces/invitations", {"action": "accept", "invitation": invitation})
    mine.post(f"/spaces/{house.pk}", {"action": "set", "member": ben.pk, "role": "contributor"})
    found = make_conversation(house, exchange(("is the okapi shy?", "Very.")))
    browsers["ben"].post(f"/conversations/{found.pk}/delete")
    browsers["ben"].post(f"/spaces/{house.pk}", {"action": "remove", "member": ben.pk})
    name, space = owner.username, f"space {house.pk}"
    assert log() == [
        ("made", "page", name, space, space),
        ("changed", "page", name, space, f"name of {space}"),
        ("made", "page", name, "ben", f"invitation to {space} as reader"),
        ("made", "page", "ben", "ben", f"reader of {space}, by invitation"),
        ("changed", "page", name, "ben", f"contributor of {space}"),
        ("trashed", "page", "ben", space, f"conversation {found.pk}"),
        ("revoked", "page", "ben", "ben", f"member of {space}"),
    ]


@pytest.mark.django_db
def test_application_adds_to_log_and_cannot_read_or_change_it(owner: User) -> None:
    with acting_for(owner.pk):
        record(Action.MADE, what="key 1", person_id=owner.pk)
        for refused in (
            "SELECT what FROM accounts_auditentry",
            "UPDATE accounts_auditentry SET what = ''",
            "DELETE FROM accounts_auditentry",
        ):
            with (
                pytest.raises(ProgrammingError, match="permission denied"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(refused)
    assert [entry[4] for entry in log()] == ["key 1"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({}, ""),
        ({"person_id": "NULL"}, ""),
        ({"created_at": "now() - interval '1 year'"}, "row-level security"),
        ({"created_at": "now() + interval '1 second'"}, "row-level security"),
        ({"created_at": "clock_timestamp()"}, "row-level security"),
        ({"person_id": "{other}"}, "row-level security"),
        ({"id": "9223372036854775807"}, "permission denied"),
        ({"times": "1000"}, "permission denied"),
    ],
)
def test_application_adds_no_entry_of_another_time_person_or_number(
    owner: User, changed: dict[str, str], refused: str
) -> None:
    """The first is the statement of processes of an earlier version."""
    other = make_user()
    values = {
        "created_at": "now()", "action": "'made'", "surface": "'page'", "person_id": str(owner.pk),
        "about_id": str(owner.pk), "what": "'key 1'",
    } | {name: value.format(other=other.pk) for name, value in changed.items()}  # fmt: skip
    statement = f"INSERT INTO accounts_auditentry ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    def add() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    with acting_for(owner.pk):
        if refused:
            with pytest.raises(ProgrammingError, match=refused):
                add()
        else:
            add()
    if changed == {}:  # without an owner no person acts
        with without_owner(), pytest.raises(ProgrammingError, match="row-level security"):
            add()
    assert AuditEntry.objects.count() == (0 if refused else 1)


@pytest.mark.django_db
def test_repeated_act_is_counted_for_each_person_object_way_and_hour(owner: User) -> None:
    other = make_user()
    for person in (owner, owner, other, owner):
        with acting_for(person.pk):
            record_repeatable(Action.READ, what="link 1", about_id=owner.pk)
            record_repeatable(Action.READ, what="link 2", about_id=owner.pk)
    with without_owner():
        record_repeatable(Action.READ, what="link 1", about_id=owner.pk)
    rows = AuditEntry.objects.order_by("pk").values_list("what", "person_id", "times")
    assert list(rows) == [
        ("link 1", owner.pk, 3), ("link 2", owner.pk, 3), ("link 1", other.pk, 1), ("link 2", other.pk, 1),
        ("link 1", None, 1),
    ]  # fmt: skip
    AuditEntry.objects.update(created_at=timezone.now() - timedelta(hours=1))
    with acting_for(owner.pk):
        record_repeatable(Action.READ, what="link 1", about_id=owner.pk)
    assert AuditEntry.objects.filter(what="link 1", person=owner).count() == 2
    record(Action.READ, what="link 3", person_id=None, about_id=owner.pk)
    assert [entry["times"] for entry in entries()] == [3, 3, 1, 1, 1, 1, 1]


@pytest.mark.django_db(transaction=True)
def test_acts_at_once_are_one_entry(owner: User) -> None:
    def act(number: int) -> None:
        with without_owner():
            record_repeatable(Action.READ, what="link 1", about_id=owner.pk)
        connection.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(80)))
    assert [entry["times"] for entry in entries()] == [80]


@pytest.mark.django_db
def test_entry_costs_one_statement_and_old_ones_are_forgotten(
    owner: User, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        record(Action.MADE, what="key 1", person_id=None, about_id=owner.pk)
    with django_assert_num_queries(1):
        record_repeatable(Action.READ, what="key 0")
    AuditEntry.objects.filter(what="key 0").delete()
    record(Action.MADE, what="key 2", person_id=None, about_id=owner.pk)
    AuditEntry.objects.filter(what="key 1").update(created_at=timezone.now() - timedelta(days=31))
    settings.AUDIT_DAYS = 0
    assert forget_old_entries() == 0
    settings.AUDIT_DAYS = 30
    assert forget_old_entries() == 1
    assert [entry[4] for entry in log()] == ["key 2"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("documents_here")
def test_erased_person_stays_in_log_without_name(owner: User) -> None:
    found, number = make_conversation(owner, exchange(("q?", "a."))), owner.pk
    document = upload(owner, GUIDE, "guide.md")
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=found.pk)
    delete_document(caller=Caller.of(owner), document_id=document.pk)
    restore_document(caller=Caller.of(owner), document_id=document.pk)
    delete_for_good(caller=Caller.of(owner), document_id=document.pk)
    erase_user(user=owner)
    assert log() == [
        ("trashed", "command", None, None, f"conversation {found.pk}"),
        ("trashed", "command", None, None, f"document {document.pk}"),
        ("restored", "command", None, None, f"document {document.pk}"),
        ("deleted", "command", None, None, f"document {document.pk}"),
        ("erased", "command", None, None, f"account {number}"),
    ]


@pytest.mark.django_db
def test_command_prints_entries_since_time_as_json_lines(owner: User) -> None:
    for number in range(3):
        record(Action.MADE, what=f"key {number}", person_id=None, about_id=owner.pk)
    AuditEntry.objects.filter(what="key 0").update(created_at=timezone.now() - timedelta(days=9))

    def printed(*arguments: str) -> list[dict[str, Any]]:
        out = StringIO()
        call_command("audit", *arguments, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    assert [entry["what"] for entry in printed()] == ["key 0", "key 1", "key 2"]
    since = (timezone.now() - timedelta(days=1)).isoformat()
    (first, _) = printed("--since", since)
    assert (first["action"], first["about"], first["surface"]) == ("made", owner.username, "command")
    with pytest.raises(CommandError, match="is no time"):
        printed("--since", "yesterday")
