"""Moving and copying between archives: what comes along, who may, and that the database itself refuses the rest."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError

from convmemory.accounts import callers
from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.models import Archive, AuditEntry, LegalHold, Membership, ShareLink
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations import curating, marking
from convmemory.conversations.messages import hidden_keys, ingest
from convmemory.conversations.messages.storage_quota import use_of_storage
from convmemory.conversations.models import Conversation, HiddenKey, Message, MessageSource, Tag, TurnMark
from convmemory.conversations.sharing import create_link
from convmemory.core.acting import acting_for
from convmemory.core.errors import InvalidInput, NotAllowed, NotFound, OnLegalHold
from convmemory.core.marks import mark_of
from convmemory.documents.models import Document, Section
from convmemory.moving.carrying import CARRIED, carry
from convmemory.ops.privacy.ownership import foreign_keys, owned_tables
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, PassageBlock, Source
from search.query import SearchQuery
from search.searching import search
from summaries.models import ConversationSummary
from tests.factories import (
    NEW_YEAR,
    add_member,
    assistant_says,
    caller_for,
    exchange,
    make_conversation,
    make_user,
    user_says,
)
from tests.support.documents import GUIDE, indexed, upload
from tests.support.passages import stored_passages
from tests.support.planted_keys import planted_keys
from tests.support.stored_rows import stored_for_file

pytestmark = pytest.mark.django_db

LONG = " ".join(f"Sail number {number} dries in loft {number % 7}." for number in range(120))
MESSAGES = [
    user_says("Which knot holds the mooring?", source_key="u0", raw=b"raw question"),
    assistant_says("A bowline holds the mooring.", source_key="a0"),
    user_says(f"My token is {planted_keys()['github-token']}", source_key="u1"),
    assistant_says("Keep it secret.", source_key="a1"),
    user_says("Where do the sails dry?", source_key="u2"),
    assistant_says(LONG, source_key="a2"),
]


@dataclass
class Crew:
    """Mia manages the space, Carl contributes to it, Rosa reads it, and Stan is in none; Carl has a conversation."""

    mia: User
    carl: User
    rosa: User
    stan: User
    space: Archive
    conversation: Conversation

    def carry(self, person: User, *, to: Archive | None, number: int = 0, is_copy: bool = False, kind: Any = "") -> int:
        with acting_as(Caller.of(person)) as caller:
            return carry(
                caller=caller, kind=kind or "conversation", object_id=number or self.conversation.pk,
                space_id=to.pk if to else None, is_copy=is_copy,
            )  # fmt: skip


def store_crew() -> Crew:
    mia, carl, rosa, stan = (make_user(name) for name in ("mia", "carl", "rosa", "stan"))
    space = create_space(person=mia, name="Boat house")
    for name, role in (("carl", "contributor"), ("rosa", "reader")):
        add_member(person=mia, space_id=space.pk, username=name, role=role)
    made = make_conversation(carl, MESSAGES, title="Moorings", source="api", source_id="m1")
    index_conversation(conversation_id=made.pk)
    return Crew(mia, carl, rosa, stan, space, made)


crew = stored_for_file(store_crew)


def hits(owner: User | Archive, text: str = "which knot holds the mooring") -> list[str]:
    return [hit.url for hit in search(caller=caller_for(owner).alone(), query=SearchQuery(text=text)).hits]


def rows_of(model: Any, owner: User | Archive, *fields: str) -> list[tuple[Any, ...]]:
    rows = model.objects.filter(archive_id=owner.pk).order_by(*fields).values_list(*fields)
    return [tuple(bytes(v) if isinstance(v, memoryview) else str(v) for v in row) for row in rows]


def vectors_of(owner: User | Archive) -> list[list[tuple[Any, ...]]]:
    """Return the vectors of the owner's items, and the passages, also those that are not indexed."""
    passages = [
        (p.item_number, p.start, p.end, p.part_index, p.kind, p.content_hash, p.code, p.tokens)
        for p in stored_passages(archive_id=owner.pk, is_kept=None)
    ]
    return [rows_of(ItemEmbedding, owner, "item_number", "chunk_number", "embedding"), sorted(passages)]


def test_space_that_is_named_like_a_number_is_not_the_space_of_that_number(crew: Crew) -> None:
    create_space(person=crew.carl, name="999999")
    with acting_as(Caller.of(crew.carl)) as caller, pytest.raises(NotFound, match="999999"):
        carry(caller=caller, kind="conversation", object_id=crew.conversation.pk, space_id=999_999, is_copy=False)


def test_moved_conversation_keeps_address_turns_and_vectors(crew: Crew) -> None:
    number, vectors = crew.conversation.pk, vectors_of(crew.carl)
    messages = rows_of(Message, crew.carl, "pk", "position", "turn_number", "parts")
    assert hits(crew.carl)[0] == f"/conversations/{number}?turn=0"
    assert any(chunk > "0" for _, chunk, _ in vectors[0]), "no item has several vectors"

    assert crew.carry(crew.carl, to=crew.space) == number
    result = index_conversation(conversation_id=number)
    assert (result.items, result.computed) == (3, 0)
    assert vectors_of(crew.space) == vectors
    assert rows_of(Message, crew.space, "pk", "position", "turn_number", "parts") == messages
    assert hits(crew.space)[0] == f"/conversations/{number}?turn=0"
    assert hits(crew.carl) == []
    derived = (Source, Item, ItemEmbedding, PassageBlock)
    assert [model for model in (Message, *derived) if rows_of(model, crew.carl, "pk")] == []


def test_moved_conversation_takes_tags_marks_and_summaries_but_no_star_link_or_key(crew: Crew) -> None:
    carl, number = crew.carl, crew.conversation.pk
    curating.add_tag(caller=Caller.of(carl), conversation_ids=[number], name="knots")
    curating.set_star(caller=Caller.of(carl), conversation_id=number, starred=True)
    marking.set_mark(caller=Caller.of(carl), conversation_id=number, turn_number=1, mark=mark_of("wrong", "old token"))
    create_link(caller=Caller.of(carl), conversation_id=number, turn=0, days=None, audience="people")
    for status in ("completed", "pending"):
        ConversationSummary.objects.create(
            archive_id=carl.pk, conversation=crew.conversation, from_position=0, to_position=5, content="Knots.",
            status=status, method="extractive", due_at=NEW_YEAR,
        )  # fmt: skip
    assert hidden_keys.count_keys(caller=Caller.of(carl), conversation_id=number) == 1
    use = use_of_storage(archive_id=carl.pk)
    assert (use.stored > 0, use.turns) == (True, 3)

    crew.carry(carl, to=crew.space)
    moved = Conversation.objects.get(pk=number)
    assert (moved.archive_id, moved.title, moved.starred_at, moved.source_id) == (crew.space.pk, "Moorings", None, "m1")
    assert rows_of(Tag, crew.space, "name", "conversation_id") == [("knots", str(number))]
    (mark,) = TurnMark.objects.all()
    assert (mark.archive_id, mark.note, mark.message.turn_number) == (crew.space.pk, "old token", 1)
    assert rows_of(ConversationSummary, crew.space, "content") == [("Knots.",)]
    assert rows_of(MessageSource, crew.space, "message__position") == [("0",)]
    for model in (ShareLink, HiddenKey):
        assert not model.objects.exists()
    assert not ConversationSummary.objects.filter(archive_id=carl.pk).exists()
    left, there = (use_of_storage(archive_id=each.pk) for each in (carl, crew.space))
    assert (left.stored, left.turns) == (left.added.size, left.added.turns) == (use.stored, 3)
    assert there == use
    assert set(AuditEntry.objects.filter(action="moved").values_list("about_id", "what")) == {
        (carl.pk, f"conversation {number} to user {crew.space.pk}"),
        (crew.space.pk, f"conversation {number} from user {carl.pk}"),
    }


def test_reader_copies_to_own_archive_and_both_keep_their_own(crew: Crew) -> None:
    crew.carry(crew.carl, to=crew.space)
    number = crew.conversation.pk
    index_conversation(conversation_id=number)
    vectors = vectors_of(crew.space)
    marking.set_mark(caller=caller_for(crew.space), conversation_id=number, turn_number=0, mark=mark_of("outdated", ""))

    copy = crew.carry(crew.rosa, to=None, is_copy=True)
    assert copy != number
    result = index_conversation(conversation_id=copy)
    assert (result.items, result.computed) == (3, 0)
    assert vectors_of(crew.rosa) == vectors_of(crew.space) == vectors
    assert hits(crew.rosa)[0] == f"/conversations/{copy}?turn=0"
    assert hits(crew.space)[0] == f"/conversations/{number}?turn=0"
    assert set(TurnMark.objects.values_list("archive_id", "message__conversation_id")) == {
        (crew.space.pk, number), (crew.rosa.pk, copy),
    }  # fmt: skip
    ingest.delete_for_good(caller=Caller.of(crew.rosa), conversation_id=copy)
    assert Message.objects.filter(conversation_id=number).count() == len(MESSAGES)
    assert hits(crew.space)[0] == f"/conversations/{number}?turn=0"


def test_document_moves_with_its_file_and_comes_back(crew: Crew, django_capture_on_commit_callbacks: Any) -> None:
    ingest.delete_for_good(caller=Caller.of(crew.carl), conversation_id=crew.conversation.pk)
    document = indexed(upload(crew.carl, GUIDE))
    address, vectors, size = document.get_absolute_url(), vectors_of(crew.carl), document.stored_bytes
    old_file = str(document.file)
    sections = rows_of(Section, crew.carl, "pk", "number", "text")
    for person, owner, other in ((crew.carl, crew.space, crew.carl), (crew.mia, crew.mia, crew.space)):
        to = crew.space if owner is crew.space else None
        with django_capture_on_commit_callbacks(execute=True):
            assert crew.carry(person, kind="document", to=to, number=document.pk) == document.pk
        moved = Document.objects.get(pk=document.pk)
        assert moved.get_absolute_url() == address
        with moved.file.open() as file:
            assert file.read() == GUIDE.encode()
        assert not moved.file.storage.exists(old_file)
        old_file = str(moved.file)
        indexed(moved)
        assert hits(owner, "coffee grounds compost")[0].startswith(address)
        assert hits(other, "coffee grounds compost") == []
        assert rows_of(Section, owner, "pk", "number", "text") == sections
        use = use_of_storage(archive_id=owner.pk)
        assert (use.stored, use.documents) == (size, 1)
    assert vectors_of(crew.mia) == vectors


@pytest.mark.parametrize(
    ("person", "to_space", "is_copy", "error"),
    [
        ("rosa", True, False, NotFound),  # not hers to read
        ("stan", True, True, NotFound),
        ("stan", False, True, NotFound),
        ("carl", False, False, InvalidInput),  # is there
    ],
)
def test_others_carry_nothing_of_an_archive(
    crew: Crew, person: str, to_space: bool, is_copy: bool, error: type[Exception]
) -> None:
    with pytest.raises(error):
        crew.carry(getattr(crew, person), to=crew.space if to_space else None, is_copy=is_copy)
    assert Conversation.objects.get().archive_id == crew.carl.pk


def test_reader_neither_moves_in_nor_out_and_former_member_reads_nothing(crew: Crew) -> None:
    own = make_conversation(crew.rosa, exchange(("Who rows?", "Rosa rows.")))
    crew.carry(crew.carl, to=crew.space)
    for to, number in ((crew.space, own.pk), (None, crew.conversation.pk)):
        with pytest.raises(NotAllowed, match="ask one of its managers"):
            crew.carry(crew.rosa, to=to, number=number)
    with pytest.raises(NotAllowed):
        crew.carry(crew.rosa, to=crew.space, number=own.pk, is_copy=True)
    remove_member(person=crew.mia, space_id=crew.space.pk, member_id=crew.rosa.pk)
    for to, number in ((crew.space, own.pk), (None, crew.conversation.pk)):
        with pytest.raises(NotFound):
            crew.carry(crew.rosa, to=to, number=number, is_copy=True)


@pytest.mark.parametrize("is_copy", [False, True])
def test_database_refuses_reader_whom_program_admits(
    crew: Crew, is_copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_conversation(crew.rosa, exchange(("Who rows?", "Rosa rows.")))
    crew.carry(crew.carl, to=crew.space)
    monkeypatch.setattr(callers, "WRITING_ROLES", frozenset(Membership.Role))
    with pytest.raises(ProgrammingError, match="row-level security"):
        crew.carry(crew.rosa, to=crew.space, number=own.pk, is_copy=is_copy)
    assert Conversation.objects.get(pk=own.pk).archive_id == crew.rosa.pk
    if not is_copy:
        with pytest.raises(NotAllowed, match="The database deletes nothing"):
            crew.carry(crew.rosa, to=None)
        assert Conversation.objects.get(pk=crew.conversation.pk).archive_id == crew.space.pk


def test_held_trashed_and_known_objects_are_refused_with_the_reason(crew: Crew) -> None:
    copy = crew.carry(crew.carl, to=crew.space, is_copy=True)
    with pytest.raises(InvalidInput, match=f"has it already, as number {copy}"):
        crew.carry(crew.carl, to=crew.space)
    with acting_for(crew.space.pk, person_id=crew.mia.pk):
        ingest.delete_conversation(caller=caller_for(crew.space), conversation_id=copy)
    with pytest.raises(InvalidInput, match="in the trash"):
        crew.carry(crew.carl, to=crew.space)
    with pytest.raises(NotFound):
        crew.carry(crew.carl, to=None, number=copy)
    hold = LegalHold.objects.create(archive_id=crew.carl.pk, conversation_id=crew.conversation.pk, reason="claim")
    second = create_space(person=crew.carl, name="Loft")
    with pytest.raises(OnLegalHold, match=f"Conversation {crew.conversation.pk} .* cannot be moved .* Copy it instead"):
        crew.carry(crew.carl, to=second)
    crew.carry(crew.carl, to=second, is_copy=True)
    hold.delete()
    document = indexed(upload(crew.carl, GUIDE))
    LegalHold.objects.create(archive_id=crew.carl.pk, reason="claim")
    attic = create_space(person=crew.carl, name="Attic")
    for kind, number in (("conversation", crew.conversation.pk), ("document", document.pk)):
        with pytest.raises(OnLegalHold, match="nothing can be moved out of it"):
            crew.carry(crew.carl, to=attic, kind=kind, number=number)
    crew.carry(crew.carl, to=attic, kind="document", number=document.pk, is_copy=True)
    assert Conversation.objects.filter(archive_id=crew.carl.pk).count() == 1


def test_every_table_of_conversation_or_document_is_carried_or_dropped_on_purpose() -> None:
    roots: set[Any] = {Conversation, Message, Document, Section}
    naming = {
        table.label
        for table in owned_tables()
        if any(key.related_model in roots for key in foreign_keys(table.model)) or table.model in roots
    }
    carried = {model._meta.label for model in CARRIED}
    assert naming - carried == {
        "chat.AgentDocument", "chat.CapturedHistory", "chat.Reply", "conversations.Figures",
        "conversations.HiddenKey", "conversations.ImportedConversation", "conversations.KeptConversation",
        "documents.ConversationDocument", "memory.MessageEmbedding",
    }  # fmt: skip
    assert carried - naming == {"search.PassageBlock"}
