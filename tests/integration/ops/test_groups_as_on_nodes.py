"""Groups of owners in a database that looks as if they lay on nodes: what holds of any such server.

On real nodes: test_nodes.py.
"""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.module_loading import import_string
from psycopg import sql
from pytest_django import DjangoDbBlocker

from benchmarks.copies import database_in_use
from convmemory.conversations.importing import queue
from convmemory.conversations.models import Conversation, Import, Message
from convmemory.core.acting import acting_for, maintenance, schema_owner
from convmemory.core.postgres import groups
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from convmemory.ops.doctor import rows_area
from convmemory.ops.doctor.examining import Report, fix
from convmemory.ops.groups import sizes
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.nodes import GroupOnNode
from convmemory.ops.observability.metrics import metrics_text
from convmemory.ops.privacy import erasing
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.runtime.schedules import SCHEDULES
from convmemory.ops.runtime.sweeping import deep_sweep
from memory.models import MessageEmbedding
from memory.records import Status, give_up_dead
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, Passage, SourceIndex, TokenVectors
from tests.factories import exchange, make_conversation, make_user
from tests.support.groups import Statements, as_coordinator, copies_alone, database_copy
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db(transaction=True)

COUNT = "SELECT count(*) FROM conversations_conversation"


@pytest.fixture(scope="module")
def people(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, int]]:
    """The numbers of two people, each in a group of their own."""
    with django_db_blocker.unblock(), copies_alone(), database_copy() as name, database_in_use(name):
        made = {name: make_user(name) for name in ("ada", "bert")}
        for person, user in made.items():
            index_conversation(conversation_id=make_conversation(user, exchange((f"Who is {person}?", "A person."))).pk)
        distribute(groups=2)
        as_coordinator()
        yield {person: user.pk for person, user in made.items()}


def owners() -> set[int]:
    return set(Conversation.objects.values_list("owner_id", flat=True))


def test_maintenance_reads_all_groups_through_views_and_changes_nothing_through_them(people: dict[str, int]) -> None:
    with maintenance():
        assert groups.layout().has_nodes
        assert owners() == set(people.values())
        with pytest.raises(DatabaseError, match="view"):
            Conversation.objects.update(title="lost")
        assert deep_sweep(enqueue=lambda ids: None).found["orphaned"] == 0
        assert metrics_text()


def test_statement_of_owner_names_them_in_its_transaction(
    people: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = people["ada"]
    naming = f"SET LOCAL convmemory.owner = '{ada}' in a transaction"
    with acting_for(ada):
        conversations = Conversation.objects.count()
        sent = Statements(monkeypatch)
        assert owners() == {ada}
        assert sent.count(naming) == 1
        with transaction.atomic():
            assert owners() == owners() == {ada}
            assert sent.count(naming) == 2
        with pipelined():
            first, second = PendingQuery(COUNT, {}), PendingQuery(COUNT, {})
            assert first.rows() == second.rows() == [(conversations,)]
        assert sent.count(naming) == 3
        assert not connection.in_atomic_block


def test_owner_is_named_again_after_rollback(people: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    with acting_for(people["ada"]):
        owners()
        sent = Statements(monkeypatch)
        with transaction.atomic():
            with transaction.atomic():
                owners()
                transaction.set_rollback(True)
            owners()
    assert sent.count(f"SET LOCAL convmemory.owner = '{people['ada']}' in a transaction") == 2


def test_group_whose_node_does_not_answer_is_listed(
    people: dict[str, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [GroupOnNode(1, "first:5432", passages=5, size=2**20), GroupOnNode(2, "second:5432", trouble="refused")]
    monkeypatch.setattr(sizes, "groups_on_nodes", lambda numbers: places)
    with maintenance():
        well, unwell = sizes.group_reports()
        with pytest.raises(CommandError, match="Not every group"):
            call_command("groups")
    assert (well.node, well.passages, well.size, well.problems) == ("first:5432", 5, 2**20, ())
    assert (unwell.node, unwell.problems) == ("second:5432", ("its node does not answer: refused",))
    assert "1.0  first:5432" in capsys.readouterr().out


def test_flush_is_refused_before_it_takes_owners_of_rows_away(people: dict[str, int]) -> None:
    with schema_owner(), pytest.raises(CommandError, match="create another database"):
        call_command("flush", interactive=False)
    with maintenance():
        assert User.objects.filter(pk__in=people.values()).count() == len(people)
        assert owners() == set(people.values())


def test_every_scheduled_task_works(people: dict[str, int]) -> None:
    with maintenance():
        for function, _ in SCHEDULES.values():
            import_string(function)()
        assert owners() == set(people.values())


def test_work_that_dead_worker_left_is_given_back_in_its_group(people: dict[str, int]) -> None:
    long_ago = timezone.now() - timedelta(days=1_000)
    for owner_id in people.values():
        with acting_for(owner_id):
            for state in (Import.State.RUNNING, Import.State.DONE):
                ended = long_ago if state == Import.State.DONE else None
                Import.objects.create(owner_id=owner_id, size=1, state=state, lease_until=long_ago, ended_at=ended)
            message = Message.objects.filter(owner_id=owner_id).order_by("pk")[0]
            row = MessageEmbedding.objects.update_or_create(
                owner_id=owner_id, message=message, conversation=message.conversation, space=active_space(),
                defaults={"status": Status.PROCESSING, "attempts": EMBEDDING.max_attempts},
            )[0]  # fmt: skip
            MessageEmbedding.objects.filter(pk=row.pk).update(updated_at=long_ago)
    with maintenance():
        assert give_up_dead() == len(people)
        assert set(MessageEmbedding.objects.filter(attempts__gte=1).values_list("status", flat=True)) == {Status.FAILED}
        assert queue.release_lost() == len(people)
        assert queue.tidy() == len(people)
        assert list(Import.objects.values_list("state", flat=True)) == [Import.State.QUEUED] * len(people)


def test_doctor_repairs_damage_in_every_group(people: dict[str, int]) -> None:
    for owner_id in people.values():
        with acting_for(owner_id):
            assert TokenVectors.objects.filter(owner_id=owner_id).delete()[0]
            assert ItemEmbedding.objects.filter(owner_id=owner_id).delete()[0]
    with maintenance():
        report = Report(findings=[finding for check in rows_area.AREA.checks for finding in check()])
        assert "rows.stale" in {finding.id for finding in report.findings}
        assert not [line for line in fix(report) if "not fixed" in line]
        assert SourceIndex.objects.filter(indexed_version=0).count() == len(people)


def test_another_model_takes_over_and_old_one_is_pruned(
    people: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convmemory.ops.reembed.changing_over.GRACE_S", 0)  # no search is under way
    with maintenance():
        old, passages = active_space(), Passage.objects.filter(space=active_space()).count()
        for owner_id in people.values():
            with acting_for(owner_id):
                Item.objects.filter(owner_id=owner_id).update(error="The old model refused it.")
        reembed("--model", str(write_tiny_bert(tmp_path / "new", seed=2, dimensions=64)))
        new = active_space()
        assert new != old
        assert Passage.objects.filter(space=new).count() == passages > 0
        assert not Item.objects.exclude(error="").exists()
        reembed("--prune")
        assert not Passage.objects.exclude(space=new).exists()
        assert not EmbeddingSpace.objects.filter(pk=old.pk).exists()
        assert Passage.objects.count() == passages


def reembed(*arguments: str) -> None:
    call_command("reembed", *arguments, "--workers", "1", stdout=StringIO(), stderr=StringIO())


def test_erasure_does_not_end_while_rows_are_left(people: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for group in groups.layout().groups:
        with schema_owner(), connection.cursor() as cursor:
            dropping = sql.SQL(load_sql("convmemory.ops.groups", "drop_keys_to_shared"))
            cursor.execute(dropping.format(schema=sql.Literal(f"group_{group}")))
    person = User.objects.get(pk=people["bert"])
    with monkeypatch.context() as patch, maintenance():
        patch.setattr(erasing, "_drop_rows", lambda *args: None)
        with pytest.raises(erasing.StillInUse):
            erase_user(user=person)
        assert User.objects.filter(pk=person.pk).exists()
    with maintenance():
        assert erase_user(user=person).finished
        assert owners() == {people["ada"]}
