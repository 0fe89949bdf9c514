"""The quota of the operator's model: counted together, whatever asks, and reserved before it is asked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import ModelUse, Quota
from convmemory.accounts.quota import estimated_tokens, metered, model_use, require_quota, reserve, settle
from convmemory.accounts.spaces import create_space
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.core.acting import acting_for
from convmemory.core.errors import QuotaUsedUp
from convmemory.core.models import OwnerTask
from convmemory.ops.privacy.erasing import count_rows, erase_user
from summaries import tasks
from summaries.making import make_summary, summaries_to_make
from summaries.models import ConversationSummary
from summaries.ordering import regenerate_summary, request_summary
from tests.factories import exchange, make_conversation, make_user
from tests.support.openai_server import FakeEndpoint, running_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("from_noon_on")]


@pytest.fixture
def endpoint(settings: Settings) -> Iterator[FakeEndpoint]:
    with running_endpoint(reply=lambda body: "They talked.") as server:
        settings.CHAT_BASE_URL, settings.CHAT_API_KEY, settings.CHAT_MODEL = server.url, server.key, "m"
        yield server


def used(owner: User) -> tuple[int, int]:
    use = model_use(archive_id=owner.pk).today
    return use.tokens, use.requests


def test_reserved_tokens_count_until_settled(owner: User, settings: Settings) -> None:
    settings.CHAT_DAILY_TOKENS = 100
    first = reserve(archive_id=owner.pk, person_id=owner.pk, tokens=90)
    second = reserve(archive_id=owner.pk, person_id=owner.pk, tokens=90)
    assert used(owner) == (180, 2)
    with pytest.raises(QuotaUsedUp):
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1)
    settle(first, tokens=30)
    settle(second, tokens=20)
    assert used(owner) == (50, 2)
    require_quota(archive_id=owner.pk, person_id=owner.pk)
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1)


def test_quota_error_says_when_quota_ends(owner: User, settings: Settings) -> None:
    settings.CHAT_DAILY_TOKENS = 1_000
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1_000)
    with pytest.raises(QuotaUsedUp, match=r"1,000 tokens of today.*again from \d{4}-\d\d-\d\d 00:00") as caught:
        require_quota(archive_id=owner.pk, person_id=owner.pk)
    assert 0 < caught.value.retry_after_s <= 86_400
    assert caught.value.ends_at == model_use(archive_id=owner.pk).today.ends_at


def test_quota_is_counted_per_day_and_owner(owner: User, settings: Settings) -> None:
    settings.CHAT_DAILY_TOKENS = 10
    yesterday = timezone.localdate() - timedelta(days=1)
    ModelUse.objects.create(archive_id=owner.pk, day=yesterday, tokens=1_000)
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=10)
    reserve(archive_id=make_user().pk, person_id=None, tokens=10)
    with pytest.raises(QuotaUsedUp):
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1)


def test_quota_of_month_counts_earlier_days_and_ends_with_month(owner: User) -> None:
    Quota.objects.create(archive_id=owner.pk, monthly_tokens=1_000)
    today = timezone.localdate()
    for month, day in ((today.month, 1), (today.month % 12 + 1, 1)):
        ModelUse.objects.create(archive_id=owner.pk, day=today.replace(month=month, day=day), tokens=900)
    if today.day > 1:
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=100)
    else:
        ModelUse.objects.filter(day=today).update(tokens=1_000)
    with pytest.raises(QuotaUsedUp, match=r"1,000 of your 1,000 tokens of this month.*again from \d{4}-\d\d-01 00:00"):
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1)
    with pytest.raises(QuotaUsedUp) as caught:
        require_quota(archive_id=owner.pk, person_id=owner.pk)
    assert caught.value.ends_at == model_use(archive_id=owner.pk).month.ends_at
    reserve(archive_id=make_user().pk, person_id=None, tokens=1)


def test_use_is_counted_without_limit(owner: User, settings: Settings) -> None:
    settings.CHAT_DAILY_TOKENS = 0
    for _ in range(3):
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=10**9)
    require_quota(archive_id=owner.pk, person_id=owner.pk)
    assert used(owner) == (3 * 10**9, 3)


def test_failed_request_costs_no_tokens(owner: User) -> None:
    with pytest.raises(RuntimeError), metered(archive_id=owner.pk, person_id=owner.pk, tokens=100):
        raise RuntimeError
    with metered(archive_id=owner.pk, person_id=owner.pk, tokens=100) as note_cost:
        assert used(owner)[0] == 100
        note_cost(7)
    assert used(owner) == (7, 2)


def test_tokens_are_estimated_from_bytes() -> None:
    assert estimated_tokens("four", b"12345678") == 3
    assert estimated_tokens("日本語") == 3
    assert estimated_tokens() == 0


@pytest.mark.django_db(transaction=True)
def test_many_processes_at_once_exceed_limit_by_one_request_at_most(owner: User, settings: Settings) -> None:
    settings.CHAT_DAILY_TOKENS = 100

    def ask(_: int) -> bool:
        try:
            reserve(archive_id=owner.pk, person_id=owner.pk, tokens=30)
        except QuotaUsedUp:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(12) as pool:
        admitted = list(pool.map(ask, range(36)))
    assert admitted.count(True) == 4
    assert used(owner) == (120, 4)


def summary_of(owner: User, **values: Any) -> ConversationSummary:
    conversation = make_conversation(owner, exchange(("Which flour?", "A strong one."), ("And water?", "Some.")))
    return request_summary(caller=Caller.of(owner), conversation_id=conversation.pk, **values)


def test_summary_by_model_counts(owner: User, endpoint: FakeEndpoint) -> None:
    outcome = make_summary(archive_id=owner.pk, summary_id=summary_of(owner).pk)
    assert outcome is not None
    assert outcome.status == "completed"
    tokens, requests = used(owner)
    assert requests == 1
    assert 0 < tokens < 1_000
    extract = summary_of(owner, method="extractive")
    make_summary(archive_id=extract.archive_id, summary_id=extract.pk)
    assert used(owner) == (tokens, 1)


def test_summary_is_not_begun_where_quota_is_used_up(owner: User, endpoint: FakeEndpoint, settings: Settings) -> None:
    done = summary_of(owner)
    settings.CHAT_DAILY_TOKENS = 10
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=10)
    with pytest.raises(QuotaUsedUp):
        summary_of(owner)
    with pytest.raises(QuotaUsedUp):
        regenerate_summary(caller=Caller.of(owner), conversation_id=done.conversation_id, summary_id=done.pk)
    assert summary_of(owner, method="extractive").status == "pending"
    assert summary_of(make_user()).status == "pending"


def test_summary_waits_for_next_day(owner: User, endpoint: FakeEndpoint, settings: Settings) -> None:
    summary = summary_of(owner)
    settings.CHAT_DAILY_TOKENS = 10
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=10)
    outcome = make_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    assert outcome is not None
    assert (outcome.status, endpoint.requests) == ("pending", [])
    summary.refresh_from_db()
    assert (summary.due_at, summary.attempts) == (model_use(archive_id=owner.pk).today.ends_at, 0)
    assert "again from" in summary.error
    assert summaries_to_make(limit=9) == []
    ModelUse.objects.all().delete()
    ConversationSummary.objects.update(due_at=timezone.now())
    again = make_summary(archive_id=summary.archive_id, summary_id=summary.pk)
    assert again is not None
    assert again.status == "completed"


def test_erasure_deletes_owners_quota_row(owner: User) -> None:
    other = make_user()
    for person in (owner, other):
        reserve(archive_id=person.pk, person_id=person.pk, tokens=5)
    assert count_rows(owner)["accounts_modeluse"] == 1
    receipt = erase_user(user=owner)
    assert receipt.deleted["accounts_modeluse"] == 1
    assert list(ModelUse.objects.values_list("archive", flat=True)) == [other.pk]


def make_spaces(person: User, count: int) -> list[int]:
    return [create_space(person=person, name=f"Room {number}").pk for number in range(count)]


def test_three_spaces_give_person_no_more_tokens(owner: User) -> None:
    Quota.objects.create(archive_id=owner.pk, monthly_tokens=12_000)
    for space in make_spaces(owner, 3):
        Quota.objects.create(archive_id=space, monthly_tokens=0)
        for _ in range(5):
            with suppress(QuotaUsedUp), acting_for(space, person_id=owner.pk):
                settle(reserve(archive_id=space, person_id=owner.pk, tokens=3_000), tokens=3_000)
        with pytest.raises(QuotaUsedUp, match=r"^You have used 12,000 of your 12,000 tokens"):
            require_quota(archive_id=space, person_id=owner.pk)
    assert used(owner) == (12_000, 4)
    with pytest.raises(QuotaUsedUp):
        reserve(archive_id=owner.pk, person_id=owner.pk, tokens=1)


def test_quota_of_space_holds_for_all_its_members(owner: User) -> None:
    other, (space,) = make_user(), make_spaces(owner, 1)
    Quota.objects.create(archive_id=space, monthly_tokens=100)
    reserve(archive_id=space, person_id=owner.pk, tokens=60)
    reserve(archive_id=space, person_id=other.pk, tokens=60)
    with pytest.raises(QuotaUsedUp, match=r"^This space has used 120 of its 100 tokens of this month.* here again"):
        reserve(archive_id=space, person_id=other.pk, tokens=1)
    assert (used(owner), used(other), model_use(archive_id=space).today.tokens) == ((60, 1), (60, 1), 120)


def test_request_that_space_refuses_reserves_nothing_of_person(owner: User, settings: Settings) -> None:
    (space,) = make_spaces(owner, 1)
    Quota.objects.create(archive_id=space, monthly_tokens=10)
    reserve(archive_id=space, person_id=None, tokens=10)
    with pytest.raises(QuotaUsedUp):
        reserve(archive_id=space, person_id=owner.pk, tokens=5)
    assert used(owner) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_requests_in_several_spaces_at_once_exceed_limit_of_person_by_one_at_most(
    owner: User, settings: Settings
) -> None:
    settings.CHAT_DAILY_TOKENS = 100
    other, spaces = make_user(), make_spaces(owner, 3)
    archives = {person.pk: [person.pk, *spaces] for person in (owner, other)}
    Quota.objects.bulk_create(Quota(archive_id=space, monthly_tokens=0) for space in spaces)

    def ask(number: int) -> bool:
        person = (owner, other)[number % 2]
        try:
            reserve(archive_id=archives[person.pk][number % 4], person_id=person.pk, tokens=30)
        except QuotaUsedUp:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(64)))
    uses = [model_use(archive_id=number).today.tokens for number in (owner.pk, other.pk, *spaces)]
    assert max(uses) == 120
    assert sum(uses[2:]) <= sum(uses[:2])


def test_summary_that_sweep_asks_for_again_counts_for_who_asked(
    owner: User, endpoint: FakeEndpoint, settings: Settings
) -> None:
    (space,) = make_spaces(owner, 1)
    with acting_for(space, person_id=owner.pk):
        caller = replace(Caller.of(owner), archive=Caller.of(owner).spaces[0])
        made = make_conversation_in(caller)
        summary = request_summary(caller=caller, conversation_id=made)
    settings.CHAT_DAILY_TOKENS = 10
    reserve(archive_id=owner.pk, person_id=owner.pk, tokens=10)
    OwnerTask.objects.all().delete()
    assert tasks.sweep() == {"enqueued": 1}
    assert OwnerTask.objects.get().person_id == owner.pk
    outcome = make_summary(archive_id=space, summary_id=summary.pk)
    assert outcome is not None
    assert (outcome.status, endpoint.requests) == ("pending", [])


def make_conversation_in(caller: Caller) -> int:
    draft = ConversationDraft(messages=exchange(("Which flour?", "A strong one.")))
    return ingest.create_conversation(caller=caller, draft=draft).pk


def test_member_does_not_see_use_of_other_members(owner: User) -> None:
    other, (space,) = make_user(), make_spaces(owner, 1)
    reserve(archive_id=space, person_id=other.pk, tokens=60)
    with acting_for(space, person_id=owner.pk):
        assert list(ModelUse.objects.values_list("archive", flat=True)) == [space]
    with acting_for(owner.pk):
        assert not ModelUse.objects.exists()
