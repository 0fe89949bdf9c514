"""Exports while what they contain changes: each message once, or an error, never less as if it were all."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from convmemory.accounts.callers import Caller, acting_as, spaces_of
from convmemory.accounts.models import Membership
from convmemory.accounts.spaces import create_space
from convmemory.conversations.exports import formats, selection
from convmemory.conversations.exports.formats import FORMATS, exported
from convmemory.conversations.exports.selection import ExportSelection, messages_of
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.errors import NotFound
from tests.factories import exchange, make_conversation, user_says

pytestmark = pytest.mark.django_db

PAIRS = exchange(*((f"question {n}", f"answer {n}") for n in range(4)))
TEXTS = [f"{role} {n}" for n in range(4) for role in ("question", "answer")]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE_CHARS", 1)
    monkeypatch.setattr(selection, "MESSAGES_AT_ONCE", 2)


def begun(caller: Caller) -> Iterator[str]:
    """Return the rest of an export whose first pieces have been sent: the first message is among them."""
    pieces = exported(caller=caller, selection=ExportSelection(), format=FORMATS["json"])
    while '"position": 0' not in next(pieces):
        pass
    return pieces


@pytest.mark.parametrize("deleted", [0, 1], ids=["being-sent", "before-its-turn"])
def test_export_breaks_off_when_conversation_is_deleted(owner: User, deleted: int) -> None:
    caller = Caller.of(owner)
    conversations = [make_conversation(owner, PAIRS) for _ in range(2)]
    pieces = begun(caller)
    ingest.delete_for_good(caller=caller, conversation_id=conversations[deleted].pk)
    with pytest.raises(NotFound, match=rf"onversation {conversations[deleted].pk} w.* while it was exported"):
        list(pieces)


def test_export_breaks_off_when_conversation_is_deleted_after_its_heading(owner: User) -> None:
    caller = Caller.of(owner)
    conversation = make_conversation(owner, PAIRS)
    messages = messages_of(Conversation.objects.get(pk=conversation.pk), ExportSelection())
    ingest.delete_for_good(caller=caller, conversation_id=conversation.pk)
    with pytest.raises(NotFound):
        next(messages)


def test_export_breaks_off_when_message_is_deleted_before_its_turn(owner: User) -> None:
    conversation = make_conversation(owner, PAIRS)
    pieces = begun(Caller.of(owner))
    conversation.messages.get(parts__0__text="answer 3").delete()
    with pytest.raises(NotFound, match="Messages of conversation"):
        list(pieces)


def test_export_sends_each_message_once_when_positions_change(owner: User) -> None:
    conversation = make_conversation(owner, PAIRS)
    messages = messages_of(Conversation.objects.get(pk=conversation.pk), ExportSelection())
    sent = [next(messages), next(messages)]
    conversation.messages.filter(position__gt=1).update(position=F("position") + 100)
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[user_says("later")])
    assert [message.row.parts[0]["text"] for message in [*sent, *messages]] == TEXTS


def test_export_of_space_breaks_off_when_membership_ends(owner: User) -> None:
    space = create_space(person=owner, name="Loft")
    for _ in range(2):
        make_conversation(space, PAIRS)
    (access,) = spaces_of(owner)
    with acting_as(Caller.of(owner).at(access)) as caller:
        pieces = begun(caller)
    Membership.objects.filter(archive=space).delete()
    with acting_as(caller), pytest.raises(NotFound):
        list(pieces)


def test_long_messages_are_read_one_by_one(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MESSAGES_AT_ONCE", 50)
    long = "word " * 2_000_000  # some 120 kB as PostgreSQL stores it
    conversation = make_conversation(owner, [user_says("short"), user_says("short"), *[user_says(long)] * 3])
    with CaptureQueriesContext(connection) as queries:
        assert len(list(messages_of(Conversation.objects.get(pk=conversation.pk), ExportSelection()))) == 5
    reads = [query["sql"].partition('"id" IN (')[2] for query in queries]
    assert [read.partition(")")[0].count(",") + 1 for read in reads if read] == [2, 1, 1, 1]
