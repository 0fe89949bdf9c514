"""Storing conversations: numbering in the database, importing again, refusals."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.importing.links import link_children
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.message_store import KEY_CHARS
from convmemory.conversations.messages.numbering import renew_outcomes
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation, Event, Message
from convmemory.conversations.reading import page_of_conversations
from convmemory.conversations.signals import conversation_changed
from convmemory.core.errors import ConversationBusy, InvalidInput, NotFound
from tests.factories import NEW_YEAR, assistant_says, exchange, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db

GREETING = [("hello", "hi"), ("how are you?", "fine")]


def numbers(conversation: Conversation) -> list[int | None]:
    return list(conversation.messages.order_by("position").values_list("turn_number", flat=True))


def texts(conversation: Conversation) -> list[str]:
    return [m.parts[0]["text"] for m in conversation.messages.order_by("position")]


def draft_of(messages: list[MessageDraft], **values: Any) -> ConversationDraft:
    return ConversationDraft(messages=messages, source="test", source_id="one", **values)


def test_time_to_come_counts_as_none_and_leads_no_list(owner: User) -> None:
    late = datetime(9999, 5, 14, tzinfo=UTC)
    newest = make_conversation(owner, [user_says("now", created_at=timezone.now())])
    older = make_conversation(owner, [user_says("then", created_at=NEW_YEAR), assistant_says("a", created_at=late)])
    undated = make_conversation(owner, [user_says("late", created_at=late, source_key="u1")])
    sent = ConversationDraft(exchange(("q", "a")), created_at=late, updated_at=late, written_at=late)
    sent_now = ingest.create_conversation(caller=Caller.of(owner), draft=sent)
    rows, _ = page_of_conversations(caller=Caller.of(owner), filters=EVERYTHING, limit=9)
    assert {row.pk for row in rows[:2]} == {newest.pk, sent_now.pk}
    assert {row.pk: row.updated_at for row in rows[2:]} == {older.pk: NEW_YEAR, undated.pk: NEW_YEAR}
    assert not Message.objects.filter(created_at__gt=timezone.now()).exists()
    again = [user_says("late", created_at=late, source_key="u1"), user_says("more", created_at=late)]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=undated.pk, drafts=again[1:])
    assert Conversation.objects.get(pk=undated.pk).updated_at <= timezone.now()


def test_stored_time_to_come_is_taken_away_by_migration(owner: User) -> None:
    late, may = datetime(9999, 5, 14, tzinfo=UTC), datetime(2024, 5, 14, tzinfo=UTC)
    one = make_conversation(owner, [user_says("q", created_at=may), assistant_says("a", created_at=may)])
    two = make_conversation(owner, [user_says("q", created_at=may)])
    Message.objects.filter(conversation=one, role="assistant").update(created_at=late)
    Conversation.objects.filter(pk=one.pk).update(updated_at=late)
    before = Conversation.objects.get(pk=two.pk)
    with connection.cursor() as cursor:
        for statement in import_module("convmemory.conversations.migrations.0015_times_to_come").UNDATE:
            cursor.execute(statement)
    changed, same = (Conversation.objects.get(pk=row.pk) for row in (one, two))
    assert (changed.updated_at, changed.turns_version) == (may, one.turns_version + 1)
    assert list(changed.messages.order_by("position").values_list("created_at", flat=True)) == [may, None]
    assert (same.updated_at, same.turns_version) == (before.updated_at, before.turns_version)


def test_new_conversation_is_numbered_titled_and_counted() -> None:
    conversation = make_conversation(make_user(), exchange(*GREETING))
    conversation.refresh_from_db()
    assert numbers(conversation) == [0, 0, 1, 1]
    assert (conversation.title, conversation.message_count, conversation.turn_count) == ("how are you?", 4, 2)


def test_later_answer_completes_turn() -> None:
    owner = make_user()
    conversation = make_conversation(owner, [*exchange(*GREETING), user_says("and you?")])
    assert numbers(conversation)[-1] is None
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("well")])
    assert numbers(conversation) == [0, 0, 1, 1, 2, 2]


def test_turn_grows_when_more_is_said() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*GREETING))
    more = [
        MessageDraft("assistant", (ToolCallPart("t", "look", {"at": "sky"}),)),
        MessageDraft("user", (ToolResultPart("t", "blue"),)),
        assistant_says("it is blue"),
    ]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=more)
    assert numbers(conversation) == [0, 0, 1, 1, 1, 1, 1]


def test_numbering_one_more_turn_reads_only_end() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[(f"q{i}", f"a{i}") for i in range(50)]))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        ingest.append_messages(
            caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("last"), assistant_says("yes")]
        )
    assert numbers(conversation)[-2:] == [50, 50]
    assert len(queries) <= 24, [q["sql"] for q in queries]


def test_new_dated_conversation_is_stored_without_reading_what_it_cannot_have() -> None:
    owner, when = make_user(), datetime(2026, 3, 1, tzinfo=UTC)
    messages = [replace(message, created_at=when) for message in exchange(*GREETING)]
    with CaptureQueriesContext(connection) as queries:
        result = ingest.sync_conversation(caller=Caller.of(owner), draft=replace(draft_of(messages), written_at=when))
    assert (result.added, result.turns) == (4, 2)
    assert Conversation.objects.get().updated_at == when
    assert len(queries) <= 17, [q["sql"][:80] for q in queries]


def test_older_version_of_message_does_not_replace_newer() -> None:
    owner = make_user()
    older = assistant_says("I look it up.", source_key="a")
    newer = replace(older, parts=(*older.parts, ToolCallPart("t", "look", {"at": "sky"})))
    results = [
        ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of([user_says("what?", source_key="u"), answer]))
        for answer in (older, newer, older, newer)
    ]
    assert [(result.added, result.updated, result.unchanged) for result in results] == [
        (2, 0, 0), (0, 1, 1), (0, 0, 2), (0, 0, 2)
    ]  # fmt: skip
    stored = Conversation.objects.get().messages.order_by("position").last()
    assert stored
    assert stored.typed_parts == newer.parts


def test_unchanged_import_adds_nothing_and_sends_no_signal() -> None:
    owner = make_user()
    first = ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    heard: list[int] = []

    def listen(sender: object, *, conversation: Conversation, **kwargs: object) -> None:
        heard.append(conversation.pk)

    conversation_changed.connect(listen)
    try:
        again = ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    finally:
        conversation_changed.disconnect(listen)
    assert (first.created, first.added) == (True, 4)
    assert (again.created, again.added, again.updated, again.unchanged) == (False, 0, 0, 4)
    assert heard == []
    assert Conversation.objects.get().turns_version == 1


def test_importing_grown_file_appends_and_announces_first_turn_that_changed() -> None:
    owner = make_user()
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    heard: list[int] = []

    def listen(sender: object, *, first_turn: int, **kwargs: object) -> None:
        heard.append(first_turn)

    conversation_changed.connect(listen)
    try:
        result = ingest.sync_conversation(
            caller=Caller.of(owner), draft=draft_of(exchange(*GREETING, ("bye", "see you")))
        )
    finally:
        conversation_changed.disconnect(listen)
    assert (result.added, result.unchanged, result.turns) == (2, 4, 3)
    assert heard == [1]


def test_messages_in_middle_of_source_land_in_middle() -> None:
    owner = make_user()
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    old = exchange(*GREETING)
    late = [user_says("wait", source_key="w"), assistant_says("ok", source_key="x")]
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of([*old[:2], *late, *old[2:]]))
    conversation = Conversation.objects.get()
    assert texts(conversation) == ["hello", "hi", "wait", "ok", "how are you?", "fine"]
    assert numbers(conversation) == [0, 0, 1, 1, 2, 2]


def test_messages_that_source_dropped_stay_where_they_were() -> None:
    owner = make_user()
    old = exchange(*GREETING)
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(old))
    new = [*old[:1], *old[2:], user_says("new", source_key="n"), assistant_says("yes", source_key="m")]
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(new))
    assert texts(Conversation.objects.get()) == ["hello", "hi", "how are you?", "fine", "new", "yes"]


def test_changed_message_is_updated_in_place() -> None:
    owner = make_user()
    old = exchange(*GREETING)
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(old))
    changed = [*old[:3], replace(old[3], parts=(TextPart("splendid"),))]
    result = ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(changed))
    assert (result.added, result.updated, result.unchanged) == (0, 1, 3)
    assert texts(Conversation.objects.get())[3] == "splendid"
    assert Conversation.objects.get().turns_version == 2


def test_repeated_message_is_stored_once() -> None:
    owner = make_user()
    drafts = exchange(*GREETING)
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of([*drafts, *drafts]))
    assert Message.objects.count() == 4


def test_keys_longer_than_column_stay_distinct() -> None:
    owner = make_user()
    long = "k" * KEY_CHARS
    keys = (f"{long}1", f"{long}2", long, "n\x00", "n")
    draft = draft_of([user_says(f"say {key[-2:]!r}", source_key=key) for key in keys])
    assert (
        ingest.sync_conversation(caller=Caller.of(owner), draft=draft).added == 4
    )  # PostgreSQL stores no NUL: "n" came twice
    again = ingest.sync_conversation(caller=Caller.of(owner), draft=draft)
    assert (again.added, again.unchanged) == (0, 4)


def test_children_find_parents_that_came_later() -> None:
    owner = make_user()
    child = replace(draft_of(exchange(("a", "b"))), source_id="one/agent", parent_source_id="one")
    ingest.sync_conversation(caller=Caller.of(owner), draft=child)
    ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    assert link_children(caller=Caller.of(owner)) == 1
    assert Conversation.objects.get(source_id="one/agent").parent == Conversation.objects.get(source_id="one")


def test_same_source_id_of_two_owners_is_two_conversations() -> None:
    for owner in (make_user(), make_user()):
        ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING)))
    assert Conversation.objects.count() == 2


def test_events_are_added_once() -> None:
    owner = make_user()
    events = [EventDraft(line_number=n, type="tool:pre", tool="bash", payload={"n": "\x00"}) for n in range(3)]
    for _ in range(2):
        ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of([], events=events))
    assert Event.objects.count() == 3


def test_event_log_that_starts_at_line_0_is_added_once() -> None:
    owner = make_user()
    for lines in ((0,), (0, 1)):
        events = [EventDraft(line_number=number, type="note") for number in lines]
        ingest.sync_conversation(caller=Caller.of(owner), draft=draft_of(exchange(*GREETING), events=events))
    assert list(Event.objects.order_by("line_number").values_list("line_number", flat=True)) == [0, 1]


def test_nul_and_surrogates_are_removed_before_storing() -> None:
    owner = make_user()
    conversation = make_conversation(owner, [user_says("nul \x00 and \ud800 lone"), assistant_says("ok")])
    assert texts(conversation)[0] == "nul  and � lone"


def test_appending_while_processing_is_refused_until_lease_ends() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*GREETING))
    responses.begin_response(caller=Caller.of(owner), conversation_id=conversation.pk, question=user_says("And now?"))
    with pytest.raises(ConversationBusy):
        ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("x")])
    Conversation.objects.update(processing_until=timezone.now() - timedelta(seconds=1))
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("x")])


def test_end_of_response_numbers_its_turn_and_frees_conversation() -> None:
    owner = make_user()
    conversation = make_conversation(owner)
    question_id = responses.begin_response(
        caller=Caller.of(owner), conversation_id=conversation.pk, question=user_says("hello")
    )
    responses.finish_response(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("hi")])
    conversation.refresh_from_db()
    assert conversation.status == "idle"
    assert numbers(conversation) == [0, 0]
    assert conversation.messages.get(position=0).pk == question_id


def test_question_with_unstorable_characters_becomes_title() -> None:
    owner = make_user()
    conversation = make_conversation(owner)
    responses.begin_response(
        caller=Caller.of(owner), conversation_id=conversation.pk, question=user_says("nul \x00 and \ud800 lone")
    )
    conversation.refresh_from_db()
    assert (conversation.title, conversation.message_count, conversation.status) == (
        "nul and � lone",
        1,
        "processing",
    )


def test_response_in_foreign_conversation_is_refused() -> None:
    conversation = make_conversation(make_user())
    with pytest.raises(NotFound), transaction.atomic():
        responses.begin_response(
            caller=Caller.of(make_user()), conversation_id=conversation.pk, question=user_says("hello")
        )
    conversation.refresh_from_db()
    assert (conversation.status, conversation.message_count) == ("idle", 0)


def test_foreign_and_unknown_conversations_raise_same_error() -> None:
    mine, other = make_user(), make_user()
    conversation = make_conversation(other, exchange(*GREETING))
    for conversation_id in (conversation.pk, conversation.pk + 999):
        with pytest.raises(NotFound, match=f"There is no conversation {conversation_id}"):
            ingest.append_messages(caller=Caller.of(mine), conversation_id=conversation_id, drafts=[user_says("x")])


def test_taken_source_id_is_refused_on_create() -> None:
    owner = make_user()
    make_conversation(owner, source_id="one")
    with pytest.raises(InvalidInput, match="exists already"):
        make_conversation(owner, source_id="one")


def test_database_itself_refuses_two_messages_at_one_position() -> None:
    conversation = make_conversation(make_user(), exchange(*GREETING))

    def put_all_at_the_start() -> None:
        Message.objects.filter(conversation=conversation).update(position=0)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(IntegrityError), transaction.atomic():
        put_all_at_the_start()


def test_title_is_first_question_that_says_something_unless_owner_chose_one() -> None:
    owner = make_user()
    greeted = exchange(("Hi!", "Hello."), ("/review **the oven**", "It is hot."))
    made = make_conversation(owner, greeted, title="", source="chat", source_id="greeted")
    assert made.title == "The oven"
    hot = exchange(("## How *hot*?", "Very."))
    old = make_conversation(owner, hot, title="", source="codex", source_id="old")
    named = make_conversation(owner, hot, title="Mine", source="codex", source_id="named")
    Conversation.objects.filter(pk=old.pk).update(title="## How *hot*?", title_version=None, outcome_version=2)
    Conversation.objects.filter(pk=named.pk).update(title="# My own", title_version=None, outcome_version=2)
    assert renew_outcomes(limit=10) == 2
    assert renew_outcomes(limit=10) == 0
    titles = Conversation.objects.order_by("pk").values_list("title", flat=True)
    assert list(titles) == ["The oven", "How hot?", "# My own"]
    ingest.change_conversation(caller=Caller.of(owner), conversation_id=old.pk, values={"title": "42"})
    more = exchange(("More?", "Yes."))
    ingest.sync_conversation(
        caller=Caller.of(owner),
        draft=ConversationDraft(messages=more, title="From the file", source="codex", source_id="old"),
    )
    assert Conversation.objects.get(pk=old.pk).title == "42"
