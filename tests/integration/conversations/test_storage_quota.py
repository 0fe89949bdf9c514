"""Stored bytes are counted in the transactions that store and delete rows, and limited for every way of writing."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import Sum
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import GroupQuota, Quota
from convmemory.accounts.quota import MB
from convmemory.conversations.importing.links import remove_messages
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages import ingest, storage_quota
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft, TurnDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.messages.responses import begin_response, finish_response
from convmemory.conversations.messages.storage_quota import recount, use_of_storage
from convmemory.conversations.models import Conversation, Message, StoredUse
from convmemory.core.errors import StorageFull
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


def message(text: str, *, role: Any = "user", key: str = "", raw: bytes = b"") -> MessageDraft:
    return MessageDraft(role=role, parts=(TextPart(text),), source_key=key, raw=raw)


def counted_turns(owner: User) -> tuple[int, int]:
    """Return the turns by the owner's sum, and by their conversations."""
    by_rows = Conversation.with_trash.filter(archive_id=owner.pk).aggregate(turns=Sum("turn_count"))["turns"] or 0
    return use_of_storage(archive_id=owner.pk).turns, by_rows


def stored(owner: User) -> int:
    return use_of_storage(archive_id=owner.pk).stored


def counted_anew(owner: User) -> int:
    """Count the stored bytes again from the rows, and return their sum."""
    pks = list(Conversation.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))
    Conversation.objects.filter(pk__in=pks).update(stored_bytes=0)
    recount(pks)
    return sum(
        found or 0 for found in Conversation.objects.filter(archive_id=owner.pk).values_list("stored_bytes", flat=True)
    )


def sync(owner: User, *drafts: MessageDraft, events: tuple[EventDraft, ...] = ()) -> int:
    draft = ConversationDraft(messages=drafts, source="pi", source_id="s", events=events)
    return ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id


def test_every_way_of_writing_is_counted(owner: User) -> None:
    made = make_conversation(owner, exchange(("Where is the café?", "In 東京, “there”.\n")))
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=[message('a "quoted" \\ text\t')])
    other = ingest.create_conversation(caller=Caller.of(owner), draft=ConversationDraft(messages=()))
    for answer in ("ok", "a longer answer than before"):
        ingest.put_turn(caller=Caller.of(owner), conversation_id=other.pk, turn=TurnDraft(0, "hello", answer))
    begin_response(caller=Caller.of(owner), conversation_id=other.pk, question=message("and now?"))
    reply = [message("an answer", role="assistant")]
    finish_response(caller=Caller.of(owner), conversation_id=other.pk, drafts=reply)
    events = (EventDraft(1, "start", payload={"b": [1, "é"], "a": {}}), EventDraft(2, "end"))
    sync(owner, message("first", key="1", raw=b"a line"), message("second", key="2"), events=events)
    sync(owner, message("first, longer", key="1", raw=b"a longer line"), message("third", key="3"))
    sync(owner, message("first, without a line", key="1"))
    assert stored(owner) == counted_anew(owner) > 2_000
    assert counted_turns(owner) == (3, 3)
    ingest.supersede_from(
        caller=Caller.of(owner), conversation_id=made.pk, message_id=made.messages.earliest("position").pk
    )
    assert counted_turns(owner) == (2, 2)


def test_deleting_reduces_stored_bytes(owner: User) -> None:
    kept = make_conversation(owner, exchange(("one", "two")))
    before = stored(owner)
    number = sync(owner, *(message("x" * 1_000, key=str(n), raw=b"y" * 500) for n in range(4)))
    ids = list(Message.objects.filter(conversation_id=number).order_by("position").values_list("pk", flat=True))
    remove_messages(caller=Caller.of(owner), conversation_id=number, ids=(ids[1], ids[2]))
    assert stored(owner) == counted_anew(owner)
    assert counted_turns(owner) == (1, 1)
    ingest.delete_for_good(caller=Caller.of(owner), conversation_id=number)
    assert stored(owner) == before
    ingest.delete_for_good(caller=Caller.of(owner), conversation_id=kept.pk)
    assert (stored(owner), counted_turns(owner)) == (0, (0, 0))


def test_storing_same_again_counts_nothing(owner: User) -> None:
    sync(owner, message("text", key="1", raw=b"line"))
    before = stored(owner)
    sync(owner, message("text", key="1", raw=b"line"))
    assert stored(owner) == before


def test_hidden_key_is_counted_as_it_is_stored(owner: User) -> None:
    made = ingest.create_conversation(caller=Caller.of(owner), draft=ConversationDraft(messages=()))
    key = "sk-ant-api03-" + "Ab3" * 31 + "-AA"
    begin_response(caller=Caller.of(owner), conversation_id=made.pk, question=message(f"my key is {key}"))
    finish_response(caller=Caller.of(owner), conversation_id=made.pk, drafts=[message("noted", role="assistant")])
    assert stored(owner) == counted_anew(owner)


def test_full_storage_refuses_all_writes_but_running_reply(owner: User, settings: Settings) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    made = make_conversation(owner, exchange(("one", "two")))
    begin_response(caller=Caller.of(owner), conversation_id=made.pk, question=message("a question"))
    answer = [message("x" * MB, role="assistant")]
    finish_response(caller=Caller.of(owner), conversation_id=made.pk, drafts=answer)
    before, count = stored(owner), Message.objects.count()
    assert before > MB
    refused: list[Any] = [
        lambda: ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=[message("more")]),
        lambda: make_conversation(owner, exchange(("more", "and more"))),
        lambda: sync(owner, message("more", key="1")),
        lambda: ingest.put_turn(
            caller=Caller.of(owner), conversation_id=made.pk, turn=TurnDraft(2, "more", "and more")
        ),
        lambda: begin_response(caller=Caller.of(owner), conversation_id=made.pk, question=message("more?")),
    ]
    for attempt in refused:
        with (
            pytest.raises(StorageFull, match=r"You have no room left for this: \d\.\d of 1 MB are used\. Delete"),
            transaction.atomic(),
        ):
            attempt()
    assert (stored(owner), Message.objects.count()) == (before, count)
    make_conversation(make_user(), exchange(("of", "another")))
    ingest.delete_for_good(caller=Caller.of(owner), conversation_id=made.pk)
    make_conversation(owner, exchange(("room", "again")))


def test_first_text_of_person_is_bounded_too(owner: User, settings: Settings) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    with pytest.raises(StorageFull):
        make_conversation(owner, exchange(("x" * MB, "y")))
    assert stored(owner) == 0


def test_storage_without_limit_is_never_full(owner: User, settings: Settings) -> None:
    settings.MAX_STORED_MB_PER_USER = 0
    StoredUse.objects.create(archive_id=owner.pk, stored_bytes=10**15)
    make_conversation(owner, exchange(("one", "two")))
    assert not use_of_storage(archive_id=owner.pk).is_full


def test_full_import_ends_and_keeps_what_was_read(owner: User, settings: Settings, tmp_path: Path) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    for number in range(4):
        line = '{"role": "user", "content": "%s"}\n{"role": "assistant", "content": "ok"}\n' % (str(number) * 400_000)
        (tmp_path / f"{number}.jsonl").write_text(line)
    report = import_paths(caller=Caller.of(owner), paths=[tmp_path], root=tmp_path)
    assert (Conversation.objects.filter(archive_id=owner.pk).count(), report.is_cut_short) == (2, True)
    assert [bool(file.errors) for file in report.files] == [False, False, True, False]
    assert [file.not_stored for file in report.files] == [0, 0, 1, 1]
    assert [name[:3] for file in report.files for name in file.left_over] == ["222", "333"]


def test_uncounted_conversation_is_counted_by_recount_alone(owner: User) -> None:
    made = make_conversation(owner, exchange(("one", "two")))
    bytes_before = Conversation.objects.get(pk=made.pk).stored_bytes
    Conversation.objects.filter(pk=made.pk).update(stored_bytes=None)
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=[message("three")])
    assert Conversation.objects.get(pk=made.pk).stored_bytes is None
    assert storage_quota.uncounted_conversations(limit=5) == [made.pk]
    assert recount([made.pk]) == stored(owner) > (bytes_before or 0)


@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_do_not_exceed_limit(owner: User, settings: Settings) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    conversations = [make_conversation(owner, exchange(("one", "two"))) for _ in range(4)]

    def write(number: int) -> int:
        try:
            drafts = [message("x" * 100_000)]
            ingest.append_messages(caller=Caller.of(owner), conversation_id=conversations[number % 4].pk, drafts=drafts)
        except StorageFull:
            return 0
        finally:
            connection.close()
        return 1

    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(write, range(24)))
    assert taken == 10
    assert stored(owner) == counted_anew(owner) <= MB


def test_full_number_of_turns_refuses_every_way_of_adding_one(owner: User, settings: Settings) -> None:
    settings.QUOTA_CONTACT = "it@example.org"
    Quota.objects.create(archive_id=owner.pk, turns=2)
    made = make_conversation(owner, exchange(("one", "two")))
    with pytest.raises(StorageFull, match=r"1 of 2 turns are used.*ask it@example\.org for more"), transaction.atomic():
        make_conversation(owner, exchange(("more", "a"), ("than", "fits")))
    make_conversation(owner, exchange(("three", "four")))
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=made.pk, drafts=[message("a later part", role="assistant")]
    )
    more = [message("more"), message("and more", role="assistant")]
    refused: list[Any] = [
        lambda: ingest.append_messages(caller=Caller.of(owner), conversation_id=made.pk, drafts=more),
        lambda: sync(owner, message("more", key="1"), message("and more", role="assistant", key="2")),
        lambda: ingest.put_turn(
            caller=Caller.of(owner), conversation_id=made.pk, turn=TurnDraft(1, "more", "and more")
        ),
        lambda: begin_response(caller=Caller.of(owner), conversation_id=made.pk, question=message("more?")),
        lambda: storage_quota.require_room(archive_id=owner.pk, size=1, turns=1),
    ]
    for attempt in refused:
        with pytest.raises(StorageFull, match="2 of 2 turns are used"), transaction.atomic():
            attempt()
    assert counted_turns(owner) == (2, 2)
    storage_quota.require_room(archive_id=owner.pk, size=1, documents=1)


def test_own_quota_precedes_highest_of_groups_precedes_setting(owner: User, settings: Settings) -> None:
    settings.MAX_TURNS_PER_USER = 1
    groups = [Group.objects.create(name=name) for name in ("interns", "staff", "researchers")]
    for group, turns in zip(groups, (2, 3, 0), strict=True):
        GroupQuota.objects.create(group=group, turns=turns)
    found = [use_of_storage(archive_id=owner.pk).limits.turns]
    for group in groups:
        owner.groups.add(group)
        found.append(use_of_storage(archive_id=owner.pk).limits.turns)
    Quota.objects.create(archive_id=owner.pk, stored_mb=7)
    found.append(use_of_storage(archive_id=owner.pk).limits.turns)
    Quota.objects.update(turns=9)
    limits = use_of_storage(archive_id=owner.pk).limits
    assert (*found, limits.turns, limits.stored_bytes // MB) == (1, 2, 3, 0, 0, 9, 7)


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_do_not_exceed_number_of_turns(owner: User) -> None:
    Quota.objects.create(archive_id=owner.pk, turns=5)

    def write(number: int) -> bool:
        try:
            draft = ConversationDraft(messages=exchange(("q", "a"), ("r", "b")), source="pi", source_id=str(number))
            ingest.sync_conversation(caller=Caller.of(owner), draft=draft)
        except StorageFull:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(6) as pool:
        taken = sum(pool.map(write, range(12)))
    assert (taken, counted_turns(owner)) == (2, (4, 4))
