"""Groups of owners on the nodes of Citus: the same rows and results, kept apart there, and every kind of writing.

Runs where TEST_CITUS_URL names a coordinator (`tests/support/nodes.py`) and is skipped elsewhere.
"""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.utils import IntegrityError
from pytest_django import DjangoDbBlocker

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for, maintenance
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres import groups
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.queue.fair_queue import work
from convmemory.embeddings import spaces
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.moving.carrying import carry
from convmemory.ops.doctor import database_area, rows_area
from convmemory.ops.doctor.examining import examine
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.sizes import group_reports
from convmemory.ops.observability.metrics import metrics_text
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.ownership import owned_tables
from convmemory.ops.runtime.sweeping import deep_sweep, sweep
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, PassageBlock, Source
from search.searching import SearchQuery, search
from search.vectors.passages import move_passages
from tests.factories import add_member, exchange, make_user
from tests.support.nodes import CITUS_URL, Place, database_with_nodes, nodes_in_use
from tests.support.passages import stored_passages
from tests.support.persons import fill_person
from tests.support.tiny_bert import write_tiny_bert

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not CITUS_URL, reason="TEST_CITUS_URL names no Citus coordinator."),
]

NAMES = ("ada", "bert", "cleo", "dora")
GROUPS = 3


class Before:
    """People, and what was counted and found before they were spread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.people = {name: make_user(name).pk for name in NAMES}
        for name, archive_id in self.people.items():
            fill_person(User.objects.get(pk=archive_id), f"zq{name}")
        self.rows = counts()
        self.found = {
            (archive_id, text): hits(archive_id, text) for archive_id in self.people.values() for text in QUESTIONS
        }


QUESTIONS = [f"where is zq{name}?" for name in NAMES] + ["the same text of everybody"]


@pytest.fixture(scope="module")
def before(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Before]:
    with django_db_blocker.unblock(), database_with_nodes() as place:
        with nodes_in_use(place):
            made = Before(place)
            distribute(groups=GROUPS)
        yield made


@pytest.fixture(autouse=True)
def _in_use(before: Before) -> Iterator[None]:
    with nodes_in_use(before.place):
        yield


def counts() -> dict[str, int]:
    names = [table.name for table in owned_tables() if table.model is not OwnerGroup]
    return {name: ask(f"SELECT count(*) FROM {name}")[0][0] for name in names}


def ask(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def hits(archive_id: int, text: str) -> list[tuple[object, ...]]:
    with acting_for(archive_id):
        found = search(caller=Caller.of(User.objects.get(pk=archive_id)), query=SearchQuery(text=text)).hits
    return [(hit.object_id, hit.number, hit.similarity, hit.score, hit.passage) for hit in found]


def owners() -> set[int]:
    return {owner for (owner,) in ask("SELECT owner_id FROM conversations_conversation")}


def new_conversation(archive_id: int, *texts: str) -> Conversation:
    draft = ConversationDraft(messages=[message for text in texts for message in exchange((text, "So it is."))])
    with acting_for(archive_id):
        made = ingest.create_conversation(caller=Caller.of(User.objects.get(pk=archive_id)), draft=draft)
        index_conversation(conversation_id=made.pk)
    return made


def test_nodes_hold_same_rows_and_results_as_one_server(before: Before) -> None:
    with maintenance():
        assert groups.layout().groups == (1, 2, 3)
        assert counts() == before.rows
    assert any(before.found.values())
    assert {key: hits(*key) for key in before.found} == before.found


def test_group_reports_name_nodes_and_no_problems(before: Before) -> None:
    with maintenance():
        reports = group_reports()
    assert [report.problems for report in reports] == [()] * GROUPS
    assert len({report.node for report in reports}) > 1
    assert all(report.size > 100_000 for report in reports)


def test_nodes_keep_owners_apart_themselves(before: Before) -> None:
    for archive_id in before.people.values():
        with acting_for(archive_id):
            assert owners() == {archive_id}
            with transaction.atomic():
                assert owners() == {archive_id}
    with maintenance():
        numbers = dict(OwnerGroup.objects.values_list("archive_id", "number"))
    pair = [owner for owner in numbers if list(numbers.values()).count(numbers[owner]) > 1][:2]
    with acting_for(pair[0]):  # what a forgotten filter would read
        assert ask(f"SELECT count(*) FROM search_passageblock WHERE owner_id = {pair[1]}") == [(0,)]


def test_rollback_leaves_no_other_owner_behind(before: Before) -> None:
    ada, bert = before.people["ada"], before.people["bert"]
    with acting_for(ada), transaction.atomic():
        assert owners() == {ada}
        with acting_for(bert):
            with transaction.atomic():
                assert owners() == {bert}
                transaction.set_rollback(True)
            assert owners() == {bert}
        assert owners() == {ada}


def test_conversation_is_written_found_and_deleted(before: Before) -> None:
    ada = before.people["ada"]
    made = new_conversation(ada, "The walrus has a wooden leg.", "It is a zebra's.")
    assert made.pk in [hit[0] for hit in hits(ada, "whose leg is wooden?")]
    with acting_for(ada):
        ingest.delete_conversation(caller=Caller.of(User.objects.get(pk=ada)), conversation_id=made.pk)
    assert made.pk not in [hit[0] for hit in hits(ada, "whose leg is wooden?")]


def test_deferred_constraint_is_enforced_on_nodes(before: Before) -> None:
    with acting_for(before.people["ada"]):
        row = ItemEmbedding.objects.all()[0]
        row.pk, row.source_id = None, 999_999_999
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save(force_insert=True)


def renumber() -> None:
    Item.objects.filter(number=0).update(number=70)
    ItemEmbedding.objects.filter(item_number=0).update(item_number=70)
    for source in Source.objects.all():
        with transaction.atomic():
            move_passages(source, {0: 70})


def test_sweeps_and_doctor_reach_every_group(before: Before) -> None:
    with maintenance():
        sweep(enqueue=lambda ids: None)
        list(for_all_archives(renumber))
        run = deep_sweep(enqueue=lambda ids: None)
        assert run.fixed["orphaned"] >= len(NAMES)
        assert 70 not in {passage.item_number for passage in stored_passages(is_kept=None)}
        while work():
            pass
        areas = (database_area.DATABASE, database_area.INDEXES, rows_area.AREA)
        known = {finding.id for finding in examine(areas).findings}
        assert not {name for name in known if name.startswith(("database.", "indexes."))} - {"database.no-statistics"}
        assert metrics_text()


def test_members_of_space_read_and_write_what_their_role_allows(before: Before) -> None:
    ada, bert = (User.objects.get(pk=before.people[name]) for name in ("ada", "bert"))
    with acting_for(ada.pk):
        space_id = create_space(person=ada, name="Loft").pk
        add_member(person=ada, space_id=space_id, username="bert", role="reader")
    with acting_for(space_id, person_id=ada.pk):
        ingest.create_conversation(
            caller=Caller.for_archive(space_id),
            draft=ConversationDraft(messages=exchange(("what is in the loft?", "A ladder."))),
        )
    with acting_for(space_id, person_id=bert.pk):
        assert owners() == {space_id}
        with pytest.raises(DatabaseError, match="row-level security"):
            Conversation.objects.update(title="of a reader")
    with acting_for(space_id, person_id=before.people["cleo"]):
        assert owners() == set()


def test_conversation_moves_into_space_and_back(before: Before) -> None:
    ada = User.objects.get(pk=before.people["ada"])
    made = new_conversation(ada.pk, "The ladder leans on the barn.")
    with acting_for(ada.pk):
        space_id = create_space(person=ada, name="Barn").pk
    for place in (space_id, None):
        with acting_for(ada.pk):
            carry(caller=Caller.of(ada), kind="conversation", object_id=made.pk, space_id=place, is_copy=False)
        with acting_for(place or ada.pk, person_id=ada.pk):
            assert Conversation.objects.filter(pk=made.pk).exists()


def test_person_is_erased(before: Before) -> None:
    dora = before.people["dora"]
    with maintenance():
        user = User.objects.get(pk=dora)
        assert erase_user(user=user).finished
        assert not User.objects.filter(pk=dora).exists()
        names = [table.name for table in owned_tables() if table.model is not User]
        assert {
            name for name in names if ask(f"SELECT count(*) FROM {name} WHERE {owner_column(name)} = {dora}")[0][0]
        } == set()


def owner_column(table: str) -> str:
    return next(t for t in owned_tables() if t.name == table).condition.split(" = ")[0]


def test_more_groups_join(before: Before) -> None:
    distribute(groups=GROUPS + 1)
    with maintenance():
        assert groups.layout().groups == (1, 2, 3, 4)
        (new,) = [report for report in group_reports() if report.number == GROUPS + 1]
    assert (new.problems, bool(new.node)) == ((), True)


def test_another_model_takes_over_and_old_one_is_pruned(
    before: Before, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convmemory.ops.reembed.changing_over.GRACE_S", 0)  # no search is under way
    for name in ("ada", "bert", "cleo"):
        new_conversation(before.people[name], "Which model embeds this?")
    with maintenance():
        old, passages = spaces.active_space(), len(stored_passages(is_kept=None))
        reembed("--model", str(write_tiny_bert(tmp_path / "new", seed=2, dimensions=64)), "--workers", "1")
        assert spaces.active_space() != old
        reembed("--prune", "--yes")
        assert not EmbeddingSpace.objects.filter(pk=old.pk).exists()
        assert not PassageBlock.objects.exclude(space=spaces.active_space()).exists()
        assert len(stored_passages(is_kept=None)) >= passages > 0
    assert hits(before.people["ada"], "Which model embeds this?")


def reembed(*arguments: str) -> None:
    call_command("reembed", *arguments, stdout=StringIO(), stderr=StringIO())
