"""Retention by age: rules of an owner and limits of the operator put old conversations into the trash."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Archive, AuditEntry, LegalHold
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.retention import rules, tasks
from convmemory.retention.models import RetentionLimit, RetentionRule
from tests.factories import add_member, caller_for, exchange, make_conversation, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db

ROUTE = "/api/v1/retention_rules"


@pytest.fixture
def owner() -> User:
    return make_user("nora")


def talk(owner: User | Archive, days: int, source: str = "codex", project: str = "/srv/dam", **values: object) -> int:
    made = make_conversation(owner, exchange(("Is the dam sound?", "Yes.")), source=source, project=project)
    old = timezone.now() - timedelta(days=days)
    Conversation.objects.filter(pk=made.pk).update(updated_at=old, **values)
    return made.pk


def program_of(user: User, **options: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=user, **options)}"})


def left() -> set[int]:
    return set(Conversation.objects.values_list("pk", flat=True))


@pytest.mark.parametrize("trash_days", [30, 0])
def test_rule_finds_old_conversations_of_its_source_and_project(
    owner: User, settings: Settings, trash_days: int
) -> None:
    settings.TRASH_DAYS = trash_days
    now = timezone.now()
    old, also_old = talk(owner, 91), talk(owner, 400)
    held = talk(owner, 91)
    kept = {
        held, talk(owner, 89), talk(owner, 91, source="api"), talk(owner, 91, project="/srv/weir"),
        talk(owner, 91, starred_at=now), talk(owner, 91, pinned_at=now), talk(make_user(), 91),
    }  # fmt: skip
    LegalHold.objects.create(archive_id=owner.pk, conversation_id=held, reason="a claim")
    RetentionRule.objects.create(archive_id=owner.pk, source="codex", project="/srv/dam", days=90)
    assert rules.owners_with_old(limit=10) == [owner.pk]
    assert tasks.sweep_old() == {"enqueued": 1}
    assert (
        rules.apply_rules(caller=Caller.of(owner), deadline=time.monotonic() - 1) is False
    )  # out of time: the next run continues
    assert left() == {old, also_old} | kept
    for _ in range(2):
        assert tasks.apply_rules(archive_id=owner.pk) == {"finished": True}
        assert left() == kept
    assert Conversation.with_trash.exclude(trashed_at=None).count() == (2 if trash_days else 0)
    assert rules.owners_with_old(limit=10) == []


def test_limit_applies_to_everybody_and_spares_no_star(owner: User) -> None:
    other = make_user()
    starred, foreign, young = talk(owner, 400, starred_at=timezone.now()), talk(other, 400), talk(owner, 100)
    root, admin = User.objects.create_superuser("root", password="x"), Client()
    admin.force_login(root)
    values = {"source": "", "project": "", "days": "365"}
    place = "/admin/retention/retentionlimit/add/"
    assert "puts into the trash 2 now" in admin.post(place, values).content.decode()
    assert not RetentionLimit.objects.exists()
    assert "errorlist" in admin.post(place, values | {"days": "0", "is_confirmed": "on"}).content.decode()
    admin.post(place, values | {"is_confirmed": "on"})
    assert rules.owners_with_old(limit=10) == sorted([owner.pk, other.pk])
    tasks.apply_rules(archive_id=owner.pk)
    assert left() == {foreign, young}
    assert starred not in left()
    with acting_for(owner.pk):
        assert RetentionLimit.objects.get().days == 365
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            RetentionLimit.objects.update(days=1)


def test_page_counts_before_it_stores_and_shows_own_rules_alone(owner: User) -> None:
    talk(owner, 91)
    foreign = RetentionRule.objects.create(archive_id=make_user().pk, source="walrus", days=7)
    RetentionLimit.objects.create(source="chatgpt", days=999)
    browser = signed_in(owner)
    page = browser.get("/trash/rules").content.decode()
    shown = ["no new message for 999 days" in page, '<option value="codex">' in page, "walrus" in page]
    assert shown == [True, True, False]
    values = {"source": "codex", "project": "/srv/dam", "days": "90"}
    assert "1 conversation now." in browser.post("/trash/rules", values).content.decode()
    assert browser.post("/trash/rules", values | {"days": "0", "confirmed": "1"}).status_code == 422
    assert RetentionRule.objects.get() == foreign
    for _ in range(2):
        browser.post("/trash/rules", values | {"confirmed": "1"})
    rule = RetentionRule.objects.get(archive_id=owner.pk)
    assert browser.post("/trash/rules", {"action": "remove", "id": foreign.pk}).status_code == 404
    browser.post("/trash/rules", {"action": "remove", "id": rule.pk})
    assert RetentionRule.objects.get() == foreign
    entries = AuditEntry.objects.filter(what=f"retention rule {rule.pk}").order_by("pk")
    named = list(entries.values_list("action", "surface", "person_id", "about_id"))
    assert named == [("made", "page", owner.pk, owner.pk), ("deleted", "page", owner.pk, owner.pk)]


def test_api_previews_stores_lists_and_deletes_own_rules(owner: User) -> None:
    talk(owner, 91)
    foreign = RetentionRule.objects.create(archive_id=make_user().pk, source="walrus", days=7)
    RetentionLimit.objects.create(source="chatgpt", days=999)
    api = program_of(owner)
    rule: dict[str, Any] = {"source": "codex", "project": "/srv/dam", "days": 90}
    assert api.get(f"{ROUTE}/preview", rule).json() == {"conversations": 1}
    assert api.get(f"{ROUTE}/preview", rule | {"days": 92}).json() == {"conversations": 0}
    for bad in ({"days": 0}, {"source": "x" * 51}, {"project": "x" * 301}, {"days": 40_000}):
        assert api.post(ROUTE, rule | bad, content_type="application/json").status_code == 422, bad
    assert not RetentionRule.objects.filter(archive_id=owner.pk).exists()
    made = [api.post(ROUTE, rule, content_type="application/json") for _ in range(2)]
    assert {(answer.status_code, answer.json()["id"]) for answer in made} == {(201, made[0].json()["id"])}
    listed = api.get(ROUTE).json()
    assert [{name: each[name] for name in rule} for each in listed["results"]] == [rule]
    assert [(each["source"], each["days"]) for each in listed["limits"]] == [("chatgpt", 999)]
    assert api.delete(f"{ROUTE}/{foreign.pk}").status_code == 404
    assert api.delete(f"{ROUTE}/{2**63}").status_code == 404
    assert api.delete(f"{ROUTE}/{made[0].json()['id']}").status_code == 204
    assert RetentionRule.objects.get() == foreign
    for number in range(rules.MAX_RULES):
        rules.add_rule(RetentionRule(archive_id=owner.pk, days=number + 1), caller=Caller.of(owner))
    assert api.post(ROUTE, {"days": 99}, content_type="application/json").status_code == 422
    assert api.post(ROUTE, {"days": 1}, content_type="application/json").status_code == 201


@pytest.mark.parametrize(
    ("role", "key", "reads", "writes"),
    [
        ("manager", {"space_ids": None, "writes_spaces": True}, 200, 201),
        ("contributor", {"space_ids": None, "writes_spaces": True}, 200, 201),
        ("contributor", {"space_ids": None}, 200, 403),
        ("contributor", {}, 404, 404),
        ("reader", {"space_ids": None, "writes_spaces": True}, 200, 403),
        ("former", {"space_ids": None, "writes_spaces": True}, 404, 404),
        ("stranger", {"space_ids": None, "writes_spaces": True}, 404, 404),
    ],
)
def test_rules_and_trash_of_space_obey_role_and_key(
    owner: User, role: str, key: dict[str, Any], reads: int, writes: int
) -> None:
    space, ben = create_space(person=owner, name="Weir house"), make_user("ben")
    trashed = talk(space, 1)
    ingest.delete_conversation(caller=caller_for(space), conversation_id=trashed)
    RetentionRule.objects.create(archive_id=space.pk, source="codex", days=80)
    if role != "stranger":
        add_member(person=owner, space_id=space.pk, username="ben", role="reader" if role == "former" else role)
    api = program_of(ben, **key)
    if role == "former":
        remove_member(person=owner, space_id=space.pk, member_id=ben.pk)
    named = f"space={space.pk}"
    for path, shown in ((ROUTE, b"codex"), ("/api/v1/trash", b"conversation")):
        answer = api.get(f"{path}?{named}")
        assert (answer.status_code, shown in answer.content) == (reads, reads == 200)
        assert shown not in api.get(path).content
    assert api.get(f"{ROUTE}/preview?{named}&days=1").status_code == reads
    assert api.post(f"{ROUTE}?{named}", {"days": 70}, content_type="application/json").status_code == writes
    stored = set(RetentionRule.objects.filter(archive_id=space.pk).values_list("days", flat=True))
    assert stored == ({70, 80} if writes == 201 else {80})
    assert not RetentionRule.objects.filter(archive_id=ben.pk).exists()
    for rule in RetentionRule.objects.filter(archive_id=space.pk):
        assert api.delete(f"{ROUTE}/{rule.pk}").status_code == 404
        assert api.delete(f"{ROUTE}/{rule.pk}?{named}").status_code == (204 if writes == 201 else writes)
    restored = api.post(f"/api/v1/trash/conversation/{trashed}/restore?space=weir house")
    assert restored.status_code == (204 if writes == 201 else writes)
    assert Conversation.objects.filter(archive_id=space.pk).exists() == (writes == 201)
