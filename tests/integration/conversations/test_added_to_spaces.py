"""What persons add to spaces is counted for them, credited when it goes, and recounted by the sweep."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from pytest_django import Settings

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.models import Archive, Quota
from convmemory.accounts.quota import MB
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations import tasks
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.links import request_undo
from convmemory.conversations.importing.models import Import, KeptUpload
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft, TurnDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.messages.responses import begin_response, finish_response
from convmemory.conversations.messages.storage_quota import Amounts, use_of_storage
from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core.acting import acting_for
from convmemory.core.errors import StorageFull
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.moving.carrying import carry
from convmemory.ops.privacy.erasing import erase_space, erase_user
from convmemory.ops.privacy.storage_sums import forget_person, reconcile_added, reconcile_storage
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.documents import GUIDE, read, upload
from tests.support.importing import run_at_once

pytestmark = pytest.mark.django_db

CHAT = b'{"role": "user", "content": "where do zebrafish live?"}\n{"role": "assistant", "content": "In rivers."}\n'


@dataclass
class Team:
    """Ada and Bob write to two spaces."""

    ada: User
    bob: User
    lab: Archive
    loft: Archive

    @contextmanager
    def acting(self, person: User, space: Archive) -> Iterator[Caller]:
        caller = Caller.of(person)
        access = next(access for access in caller.spaces if access.archive_id == space.pk)
        with acting_as(caller), caller.in_(access) as there:
            yield there

    def make(self, person: User, space: Archive, text: str = "What is it?") -> int:
        with self.acting(person, space) as caller:
            return ingest.create_conversation(
                caller=caller, draft=ConversationDraft(messages=exchange((text, "That.")))
            ).pk

    def carry(self, person: User, number: int, to: Archive | None, *, kind: Any = "conversation", **how: bool) -> int:
        with acting_as(Caller.of(person)) as caller:
            space_id = to.pk if to else None
            return carry(
                caller=caller, kind=kind, object_id=number, space_id=space_id, is_copy=how.get("is_copy", False)
            )


@pytest.fixture(autouse=True)
def _here(settings: Settings, tmp_path: Path, documents_here: None) -> None:
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"


@pytest.fixture
def team() -> Team:
    ada, bob = make_user(), make_user()
    lab, loft = (create_space(person=ada, name=name) for name in ("Lab", "Loft"))
    for space in (lab, loft):
        add_member(person=ada, space_id=space.pk, username=bob.username, role="contributor")
    return Team(ada, bob, lab, loft)


def added(person: User) -> Amounts:
    return use_of_storage(archive_id=person.pk).added


def sums_agree() -> bool:
    return (reconcile_storage(), reconcile_added()) == (0, 0)


def said(text: str, role: Any = "user") -> MessageDraft:
    return MessageDraft(role=role, parts=(TextPart(text),))


def test_appended_messages_count_for_member_who_appends(team: Team) -> None:
    number = team.make(team.ada, team.lab)
    of_ada = added(team.ada)
    assert (of_ada.size > 0, of_ada.turns) == (True, 1)
    with team.acting(team.bob, team.lab) as caller:
        more = [said("x" * 1_000), said("y", "assistant")]
        ingest.append_messages(caller=caller, conversation_id=number, drafts=more)
        ingest.put_turn(caller=caller, conversation_id=number, turn=TurnDraft(2, "And now?", "This."))
        begin_response(caller=caller, conversation_id=number, question=said("Why?"))
        finish_response(caller=caller, conversation_id=number, drafts=[said("So.", "assistant")])
    assert added(team.ada) == of_ada
    of_bob = added(team.bob)
    assert (of_bob.size > 1_000, of_bob.turns) == (True, 3)
    lab = use_of_storage(archive_id=team.lab.pk)
    assert (lab.stored, lab.turns) == (of_ada.size + of_bob.size, 4)
    assert sums_agree()
    with team.acting(team.ada, team.lab) as caller:
        ingest.delete_for_good(caller=caller, conversation_id=number)
    assert added(team.ada) == added(team.bob) == Amounts()
    assert sums_agree()


def test_shortening_turn_of_another_member_gains_no_room(team: Team) -> None:
    with team.acting(team.ada, team.lab) as caller:
        made = ingest.create_conversation(caller=caller, draft=ConversationDraft(messages=()))
        ingest.put_turn(caller=caller, conversation_id=made.pk, turn=TurnDraft(0, "x" * 5_000, "y"))
    team.make(team.bob, team.lab)
    of_bob = added(team.bob)
    with team.acting(team.bob, team.lab) as caller:
        ingest.put_turn(caller=caller, conversation_id=made.pk, turn=TurnDraft(0, "x", "y"))
    assert added(team.bob) == of_bob
    left = Conversation.objects.get(pk=made.pk).stored_bytes or 0
    assert added(team.ada) == Amounts(left, 1)
    assert 0 < left < 5_000
    with team.acting(team.bob, team.lab) as caller:
        ingest.put_turn(caller=caller, conversation_id=made.pk, turn=TurnDraft(0, "x" * 5_000, "y"))
    assert added(team.bob).size > 5_000 > added(team.ada).size == left
    assert sums_agree()


def test_moved_conversation_counts_for_member_who_moved_it(team: Team) -> None:
    number = team.make(team.ada, team.lab)
    size = added(team.ada).size
    team.carry(team.bob, number, team.loft)
    assert (added(team.ada), added(team.bob)) == (Amounts(), Amounts(size, 1))
    team.carry(team.bob, number, team.lab, is_copy=True)
    assert added(team.bob) == Amounts(2 * size, 2)
    team.carry(team.bob, number, None)
    use = use_of_storage(archive_id=team.bob.pk)
    assert (use.stored, use.turns, use.added) == (2 * size, 2, Amounts(size, 1))
    assert Conversation.objects.get(pk=number).additions == {}
    team.carry(team.bob, number, team.loft)
    assert sums_agree()


def test_document_counts_for_member_who_added_its_last_version(team: Team) -> None:
    with team.acting(team.ada, team.lab) as caller:
        stored = library.store_file(archive_id=team.lab.pk, file=_file(GUIDE), name="guide.md")
        document = library.add_document(caller=caller, stored=stored).document
    read(document)
    assert added(team.ada) == Amounts(2 * len(GUIDE), documents=1)
    with team.acting(team.bob, team.lab) as caller:
        stored = library.store_file(archive_id=team.lab.pk, file=_file(GUIDE + "more"), name="guide.md")
        library.replace_document(caller=caller, document_id=document.pk, stored=stored)
    assert (added(team.ada), added(team.bob)) == (Amounts(), Amounts(2 * len(GUIDE), documents=1))
    read(document)
    assert added(team.bob).size == 2 * len(GUIDE + "more")
    assert sums_agree()
    team.carry(team.ada, document.pk, team.loft, kind="document")
    assert (added(team.ada).documents, added(team.bob)) == (1, Amounts())
    team.carry(team.ada, document.pk, None, kind="document")
    use = use_of_storage(archive_id=team.ada.pk)
    assert (use.documents, use.added, Document.objects.get(pk=document.pk).added_by) == (1, Amounts(), None)
    assert sums_agree()


def _file(text: str) -> Any:
    return SimpleUploadedFile("guide.md", text.encode())


def test_import_counts_for_member_who_sent_it_though_another_undoes_it(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at_once(monkeypatch)
    with team.acting(team.ada, team.lab) as caller:
        row = imports.queue_import(caller=caller, file=SimpleUploadedFile("chat.jsonl", CHAT))
    tasks.run(row.pk, archive_id=team.lab.pk)
    (kept,) = KeptUpload.objects.all()
    assert (kept.added_by, Import.objects.get().state) == (team.ada.pk, "done")
    assert added(team.ada).size == use_of_storage(archive_id=team.lab.pk).stored > kept.stored_size > 0
    assert sums_agree()
    with team.acting(team.bob, team.lab) as caller:
        request_undo(caller=caller, import_id=row.pk)
        assert tasks.undo_import(row.pk, archive_id=team.lab.pk) == {"finished": True}
    assert added(team.ada) == added(team.bob) == Amounts()
    assert use_of_storage(archive_id=team.lab.pk).stored == 0
    assert sums_agree()


def test_limit_of_space_holds_for_several_persons(team: Team) -> None:
    Quota.objects.create(archive_id=team.lab.pk, stored_mb=1)
    for person in (team.ada, team.bob):
        team.make(person, team.lab, "x" * 400_000)
    with pytest.raises(StorageFull, match=r"^This space has no room left for this: 0\.8 of 1 MB"), transaction.atomic():
        team.make(team.bob, team.lab, "x" * 400_000)
    team.make(team.bob, team.loft, "x" * 400_000)
    assert sums_agree()


def test_limit_of_person_counts_own_archive_and_spaces(team: Team) -> None:
    Quota.objects.create(archive_id=team.bob.pk, stored_mb=1, turns=4)
    make_conversation(team.bob, exchange(("x" * 400_000, "y")))
    team.make(team.bob, team.lab, "x" * 400_000)
    refusal = r"^You have no room left for this: 0\.8 of 1 MB are used \(0\.4 MB in spaces\)\. Delete"
    attempts: list[Callable[[], object]] = [
        lambda: team.make(team.bob, team.lab, "x" * 400_000),
        lambda: make_conversation(team.bob, exchange(("x" * 400_000, "y"))),
    ]
    for attempt in attempts:
        with pytest.raises(StorageFull, match=refusal), transaction.atomic():
            attempt()
    with team.acting(team.bob, team.lab) as caller, pytest.raises(StorageFull, match=r"^You have"):
        library.require_capacity(caller=caller, size=400_000)
    team.make(team.ada, team.lab, "x" * 400_000)
    for _ in range(2):
        team.make(team.bob, team.loft)
    with pytest.raises(StorageFull, match=r"4 of 4 turns are used \(3 in spaces\)"), transaction.atomic():
        team.make(team.bob, team.lab)


def test_member_who_left_still_counts_for_what_stays(team: Team) -> None:
    number = team.make(team.bob, team.lab)
    before = added(team.bob)
    remove_member(person=team.ada, space_id=team.lab.pk, member_id=team.bob.pk)
    assert added(team.bob) == before
    with team.acting(team.ada, team.lab) as caller:
        ingest.delete_for_good(caller=caller, conversation_id=number)
    assert added(team.bob) == Amounts()


def test_erased_person_leaves_no_number_in_spaces_and_space_keeps_its_sum(
    team: Team, django_capture_on_commit_callbacks: Any
) -> None:
    number = team.make(team.bob, team.lab)
    with team.acting(team.ada, team.lab) as caller:
        ingest.append_messages(caller=caller, conversation_id=number, drafts=[said("more")])
    upload(team.lab, GUIDE)
    Document.objects.update(added_by=team.bob.pk)
    assert reconcile_added() == 1
    stored = use_of_storage(archive_id=team.lab.pk).stored
    erase_user(user=team.bob)
    assert list(Conversation.objects.get(pk=number).additions) == [str(team.ada.pk)]
    assert Document.objects.get().added_by is None
    assert use_of_storage(archive_id=team.lab.pk).stored == stored
    with team.acting(team.ada, team.lab) as caller:
        ingest.delete_for_good(caller=caller, conversation_id=number)
    assert added(team.ada) == Amounts()
    assert sums_agree()


def test_number_of_person_that_arrives_after_erasure_does_not_hinder_deletion_and_is_swept(team: Team) -> None:
    numbers = [team.make(team.bob, team.lab) for _ in range(2)]
    additions = Conversation.objects.get(pk=numbers[0]).additions
    erase_user(user=team.bob)
    Conversation.objects.filter(pk__in=numbers).update(additions=additions)
    with team.acting(team.ada, team.lab) as caller:
        ingest.delete_for_good(caller=caller, conversation_id=numbers[0])
    assert reconcile_added() == 1
    assert Conversation.objects.get(pk=numbers[1]).additions == {}
    assert sums_agree()


def test_erased_space_frees_what_persons_added_to_it(team: Team) -> None:
    team.make(team.ada, team.loft)
    before = added(team.ada)
    for person in (team.ada, team.bob):
        team.make(person, team.lab)
    erase_space(space=team.lab)
    assert (added(team.ada), added(team.bob)) == (before, Amounts())


def test_sweep_mends_sums_of_what_persons_added(team: Team) -> None:
    team.make(team.ada, team.lab)
    right = added(team.ada)
    StoredUse.objects.filter(archive_id=team.ada.pk).update(added_bytes=1, added_turns=7)
    StoredUse.objects.create(archive_id=team.bob.pk, added_documents=3)
    assert (reconcile_added(), added(team.ada), added(team.bob)) == (2, right, Amounts())
    StoredUse.objects.all().delete()
    assert (reconcile_added(), added(team.ada)) == (1, right)


def test_rows_of_earlier_version_count_for_space_alone(team: Team) -> None:
    number = team.make(team.ada, team.lab, "x" * 1_000)
    forget_person(team.ada.pk)
    assert (reconcile_added(), added(team.ada)) == (1, Amounts())
    with team.acting(team.ada, team.lab) as caller:
        ingest.append_messages(caller=caller, conversation_id=number, drafts=[said("more")])
    assert 0 < added(team.ada).size < 1_000
    with team.acting(team.ada, team.lab) as caller:
        ingest.delete_for_good(caller=caller, conversation_id=number)
    assert (added(team.ada), use_of_storage(archive_id=team.lab.pk).stored) == (Amounts(), 0)
    assert sums_agree()


def test_members_of_one_space_do_not_see_each_others_sums(team: Team) -> None:
    for person in (team.ada, team.bob):
        team.make(person, team.lab)
        make_conversation(person, exchange(("mine", "alone")))
    for identity in ({"person_id": team.bob.pk}, {}):
        with acting_for(team.lab.pk, **identity):
            assert list(StoredUse.objects.values_list("archive_id", flat=True)) == [team.lab.pk]
            assert use_of_storage(archive_id=team.ada.pk).stored == 0
    with acting_for(team.bob.pk):
        assert list(StoredUse.objects.values_list("archive_id", flat=True)) == [team.bob.pk]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_in_own_archives_and_spaces_exceed_no_limit_and_do_not_deadlock(
    team: Team, settings: Settings
) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    Quota.objects.create(archive_id=team.loft.pk, stored_mb=2)

    def write(number: int) -> int:
        person = (team.ada, team.bob)[number % 2]
        try:
            if number % 3:
                made = team.make(person, (team.lab, team.loft)[number % 3 - 1], "x" * 60_000)
            else:
                made = make_conversation(person, exchange(("x" * 60_000, "y"))).pk
            for target in (team.loft, None, team.lab):
                if number % 5 == 0 and Conversation.objects.get(pk=made).archive_id != (target or person).pk:
                    team.carry(person, made, target)
        except StorageFull:
            return 0
        finally:
            connection.close()
        return 1

    with ThreadPoolExecutor(8) as pool:
        stored = sum(pool.map(write, range(60)))
    assert stored > 20
    for archive in (team.ada, team.bob, team.lab):
        assert use_of_storage(archive_id=archive.pk).stored <= MB
    assert sums_agree()
