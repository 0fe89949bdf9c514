"""Retention by age: rules of an owner and limits of the operator put old conversations into the trash."""

import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.models import LegalHold
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.retention import rules, tasks
from convmemory.retention.models import RetentionLimit, RetentionRule
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> User:
    return make_user("nora")


def talk(owner: User, days: int, source: str = "codex", project: str = "/srv/dam", **values: object) -> int:
    made = make_conversation(owner, exchange(("Is the dam sound?", "Yes.")), source=source, project=project)
    old = timezone.now() - timedelta(days=days)
    Conversation.objects.filter(pk=made.pk).update(updated_at=old, **values)
    return made.pk


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
    LegalHold.objects.create(owner=owner, conversation_id=held, reason="a claim")
    RetentionRule.objects.create(owner=owner, source="codex", project="/srv/dam", days=90)
    assert rules.owners_with_old(limit=10) == [owner.pk]
    assert tasks.sweep_old() == {"enqueued": 1}
    assert rules.apply_rules(owner=owner, deadline=time.monotonic() - 1) is False  # out of time: the next run continues
    assert left() == {old, also_old} | kept
    for _ in range(2):
        assert tasks.apply_rules(owner_id=owner.pk) == {"finished": True}
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
    tasks.apply_rules(owner_id=owner.pk)
    assert left() == {foreign, young}
    assert starred not in left()
    with acting_for(owner.pk):
        assert RetentionLimit.objects.get().days == 365
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            RetentionLimit.objects.update(days=1)


def test_page_counts_before_it_stores_and_shows_own_rules_alone(owner: User) -> None:
    talk(owner, 91)
    foreign = RetentionRule.objects.create(owner=make_user(), source="walrus", days=7)
    RetentionLimit.objects.create(source="chatgpt", days=999)
    browser = Client()
    browser.force_login(owner)
    page = browser.get("/trash/rules").content.decode()
    shown = ["no new message for 999 days" in page, '<option value="codex">' in page, "walrus" in page]
    assert shown == [True, True, False]
    values = {"source": "codex", "project": "/srv/dam", "days": "90"}
    assert "1 conversation now." in browser.post("/trash/rules", values).content.decode()
    assert browser.post("/trash/rules", values | {"days": "0", "confirmed": "1"}).status_code == 422
    assert RetentionRule.objects.get() == foreign
    for _ in range(2):
        browser.post("/trash/rules", values | {"confirmed": "1"})
    rule = RetentionRule.objects.get(owner=owner)
    assert browser.post("/trash/rules", {"action": "remove", "id": foreign.pk}).status_code == 404
    browser.post("/trash/rules", {"action": "remove", "id": rule.pk})
    assert RetentionRule.objects.get() == foreign
