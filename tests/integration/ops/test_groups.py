"""Owners spread over groups as on a cluster: whose tables work goes to, and making and filling the groups.

On real nodes: test_nodes.py. The tests work in copies of a database with four people in it, some of a class in the same
one; nothing has to be taken back.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.utils import ProgrammingError
from django.utils import timezone
from django.utils.module_loading import import_string

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.models import Conversation, Import, Message
from convmemory.core.acting import acting_for, in_archive_of, maintenance, schema_owner, without_owner
from convmemory.core.errors import InvalidInput
from convmemory.core.models import OwnerGroup, OwnerTask
from convmemory.core.postgres import groups
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.postgres.row_security import apply_policies, tables_without_policy
from convmemory.core.queue.fair_queue import enqueue_for, work
from convmemory.core.sql import PendingQuery, pipelined
from convmemory.ops.doctor import database_area, rows_area
from convmemory.ops.doctor.examining import AREAS, Report, examine, fix
from convmemory.ops.groups import distributing, sizes
from convmemory.ops.groups.checking import check_groups
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.links import own_link, refuse_while_in_use
from convmemory.ops.groups.nodes import GroupOnNode, groups_on_nodes
from convmemory.ops.groups.schemas import make_group
from convmemory.ops.groups.sizes import group_reports
from convmemory.ops.observability.metrics import metrics_text
from convmemory.ops.privacy import erasing
from convmemory.ops.privacy.erasing import count_rows, erase_user
from convmemory.ops.privacy.ownership import owned_tables
from convmemory.ops.runtime.schedules import SCHEDULES
from convmemory.ops.runtime.sweeping import deep_sweep, sweep
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from search.searching import SearchQuery, search
from tests.factories import NEW_YEAR, add_member, exchange, make_conversation, make_user
from tests.integration.ops.conftest import NAMES, People
from tests.support.copies import database_in_use
from tests.support.groups import Statements, copies_alone, database_copy, make_coordinator
from tests.support.own_logins import own_logins
from tests.support.persons import tables_with

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

TIMES = {"created_at": NEW_YEAR, "updated_at": NEW_YEAR}
CASTS = re.compile(r"::(?:character varying|text)(?:\[\])?|[()]")
"""PostgreSQL writes some conditions with other casts once they have been read from text, as a restore does, too."""
COUNT = "SELECT count(*) FROM conversations_conversation"


@pytest.fixture(scope="module", autouse=True)
def in_copies_alone() -> Iterator[None]:
    with copies_alone():
        yield


@pytest.fixture(scope="class")
def one_group(people: People) -> Iterator[None]:
    """A copy that may be spread, for all tests of a class."""
    with database_copy(people.database) as name, database_in_use(name):
        make_coordinator()
        yield


def ask(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def counts() -> dict[str, int]:
    """The rows of every owned table, of all groups."""
    names = [table.name for table in owned_tables() if table.model is not OwnerGroup]
    return {name: ask(f"SELECT count(*) FROM {name}")[0][0] for name in names}


def hits(archive_id: int, text: str) -> list[tuple[object, ...]]:
    with acting_for(archive_id):
        found = search(caller=Caller.of(User.objects.get(pk=archive_id)), query=SearchQuery(text=text)).hits
    return [(hit.object_id, hit.number, hit.similarity, hit.score, hit.passage) for hit in found]


def group_of(archive_id: int) -> int:
    return int(OwnerGroup.objects.get(pk=archive_id).number)


def draft(text: str) -> ConversationDraft:
    return ConversationDraft(messages=exchange((text, "So it is.")))


class TestDistributed:
    """Before and after."""

    @pytest.mark.essential
    def test_distribution_keeps_rows_results_and_sequences(self, people: People, spread_people: str) -> None:
        questions = [f"where is zq{name}?" for name in NAMES] + ["the same text of everybody"]
        with database_in_use(people.database):
            rows = counts()
            found = {(archive_id, text): hits(archive_id, text) for archive_id in people.values() for text in questions}
            last = ask("SELECT last_value FROM conversations_conversation_id_seq")[0][0]
            assert last > ask("SELECT max(id) FROM conversations_conversation")[0][0]
        assert any(found.values())
        with database_copy(spread_people) as name, database_in_use(name):
            assert groups.layout().groups == (1, 2, 3)
            assert counts() == rows
            assert {key: hits(*key) for key in found} == found
            assert set(OwnerGroup.objects.values_list("archive_id", flat=True)) == set(people.values())
            assert set(OwnerGroup.objects.values_list("number", flat=True)) == {1, 2, 3}
            owners = [User.objects.get(pk=archive_id) for archive_id in people.values()]
            made = [make_conversation(owner, exchange(("a", "b"))).pk for owner in owners]
            assert made == list(range(last + 1, last + 5))

    def test_group_tables_have_shape_of_originals(self, people: People, spread_people: str) -> None:
        with database_in_use(people.database):
            before = self._shape("public")
        assert before
        with database_in_use(spread_people):
            for schema in ("group_1", "group_3"):
                after = self._shape(schema)
                differing = {table: set(after[table]) ^ set(lines) for table, lines in before.items()}
                assert {table: lines for table, lines in differing.items() if lines} == {}
            assert self._shape("public") == {}
            assert tables_without_policy() == []

    def _shape(self, schema: str) -> dict[str, list[str]]:
        """Columns, constraints, indexes and rights of the tables of groups, as text without the schema."""
        with psycopg.connect(**connection.get_connection_params()) as link:
            link.execute("SELECT set_config('search_path', %s, false)", [f"{schema}, public"])
            rows = link.execute(SHAPE, [schema, groups.grouped_tables()]).fetchall()
        return {table: sorted(CASTS.sub("", line) for line in lines) for table, lines in rows}


@pytest.mark.usefixtures("one_group")
class TestDistributing:
    """Failures leave the database unchanged, so that one copy serves all of them."""

    def test_server_without_nodes_is_refused(self, people: People) -> None:
        with database_in_use(people.database), pytest.raises(InvalidInput, match="no nodes"):
            distribute(groups=2)

    @pytest.mark.parametrize("number", [-1, 0, 1, 65])
    def test_distribute_refuses_invalid_number_of_groups(self, number: int) -> None:
        with pytest.raises(CommandError, match="Name 2 to 64 groups"):
            call_command("distribute", groups=number)

    def test_database_in_use_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("convmemory.ops.groups.links.LEAVING_S", 0.0)
        with psycopg.connect(**connection.get_connection_params()) as other:
            other.execute("SELECT 1")
            with pytest.raises(InvalidInput, match=r"stop `manage.py up`"):
                distribute(groups=2)

    def test_refuse_while_in_use_waits_for_closing_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parameters = connection.get_connection_params()
        with own_link() as link, psycopg.connect(**parameters) as other, link.transaction():
            monkeypatch.setattr("convmemory.ops.groups.links.time.sleep", lambda seconds: other.close())
            refuse_while_in_use(link)
            assert other.closed

    def test_failed_distribution_leaves_database_unchanged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = counts()
        monkeypatch.setattr(distributing, "_count", lambda link, schema, table: 1)
        with pytest.raises(distributing.DistributionFailed, match="The database is unchanged"):
            distribute(groups=2)
        assert (counts(), groups.layout().groups) == (rows, ())
        assert not ask(DRAFTS)

    def test_killed_distribution_loses_nothing_and_can_be_repeated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = counts()
        for number in (2, 3):
            drops = iter([distributing._drop_drafts, lambda link: None])  # as if it had no time for that at the end
            with monkeypatch.context() as patch:
                patch.setattr(distributing, "make_group", partial(self._make_group_and_die, number))
                patch.setattr(distributing, "_drop_drafts", lambda link, drops=drops: next(drops)(link))
                with pytest.raises(KeyboardInterrupt):
                    distribute(groups=3)
            assert groups.layout().groups == ()
            assert ask(DRAFTS)
            assert counts() == rows
        distribute(groups=3)
        assert counts() == rows
        assert not ask(DRAFTS)

    def _make_group_and_die(self, number: int, link: psycopg.Connection, **values: Any) -> None:
        make_group(link, **values)
        if values["schema"].endswith(str(number)):
            raise KeyboardInterrupt


DRAFTS = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^distributing'"
SHAPE = """
SELECT c.relname::text, array_agg(said.line ORDER BY said.line)
FROM pg_class AS c
CROSS JOIN LATERAL (
    SELECT format('%%s %%s %%s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull) AS line
    FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT format('%%s %%s', k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint AS k
    WHERE k.conrelid = c.oid AND k.contype <> 'n' AND (  -- no key leads to shared tables
        k.contype <> 'f'
        OR EXISTS (SELECT FROM pg_attribute AS o WHERE o.attrelid = k.confrelid AND o.attname = 'owner_id')
    )
    UNION ALL
    SELECT pg_get_indexdef(i.indexrelid, 0, true) FROM pg_index AS i WHERE i.indrelid = c.oid
    UNION ALL
    SELECT format('%%s may %%s', r.grantee::regrole, r.privilege_type) FROM aclexplode(c.relacl) AS r
    UNION ALL
    SELECT format('row security %%s', c.relrowsecurity)
) AS said
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND c.relname = ANY(%s)
GROUP BY c.relname
"""


@pytest.mark.usefixtures("shared_groups")
class TestWhoseTables:
    """With the product's own log-ins and its pool."""

    @pytest.fixture(autouse=True)
    def log_in_as_the_product(self, shared_groups: None) -> Iterator[None]:
        with own_logins():
            yield

    def test_owners_see_their_own_rows_and_read_what_they_wrote(self, people: People) -> None:
        for name, archive_id in people.items():
            with acting_for(archive_id):
                assert set(Conversation.objects.values_list("archive_id", flat=True)) == {archive_id}
                ingest.create_conversation(
                    caller=Caller.of(User.objects.get(pk=archive_id)), draft=draft(f"new of {name}")
                )
                assert Message.objects.filter(parts__0__text=f"new of {name}").count() == 1

    def test_new_conversation_is_indexed_in_its_owners_group(self, people: People) -> None:
        archive_id = people["cleo"]
        with acting_for(archive_id):
            owner = User.objects.get(pk=archive_id)
            said = ingest.create_conversation(caller=Caller.of(owner), draft=draft("where does the platypus sleep?"))
            assert index_conversation(conversation_id=said.pk).finished
        assert hits(archive_id, "platypus")[0][0] == said.pk
        assert said.pk not in {hit[0] for hit in hits(people["dora"], "platypus")}

    def test_tables_do_not_exist_without_owner(self) -> None:
        with without_owner(), pytest.raises(ProgrammingError, match='"conversations_conversation" does not exist'):
            ask(COUNT)

    def test_unknown_owner_sees_no_tables(self) -> None:
        with acting_for(987_654), pytest.raises(ProgrammingError, match="does not exist"):
            ask(COUNT)

    def test_maintenance_reads_all_groups_and_changes_them_one_by_one(self, people: People) -> None:
        with maintenance():
            assert set(Conversation.objects.values_list("archive_id", flat=True)) >= set(people.values())
            with pytest.raises(DatabaseError, match="view"):
                Conversation.objects.update(title="lost")
            with in_archive_of(people["ada"]):
                Conversation.objects.create(archive_id=people["ada"], title="in its group", **TIMES)
        with acting_for(people["ada"]):
            assert "in its group" in set(Conversation.objects.values_list("title", flat=True))

    def test_application_cannot_read_over_all_groups_or_change_to_another_one_unseen(self, people: People) -> None:
        mine = people["ada"]
        other = next(number for number in (1, 2, 3) if number != group_of_as_maintenance(mine))
        with acting_for(mine):
            with pytest.raises(ProgrammingError, match="permission denied for schema every_group"):
                ask("SELECT count(*) FROM every_group.conversations_conversation")
            assert ask(f"SELECT count(*) FROM group_{other}.conversations_conversation") == [(0,)]

    def test_maintenance_within_group_sees_that_group_only(self, people: People) -> None:
        with acting_for(people["ada"]):
            with maintenance():
                here = {owner for (owner,) in ask("SELECT owner_id FROM conversations_conversation")}
            assert people["ada"] in here
            assert here != set(people.values())
        with maintenance():
            found = list(for_all_archives(lambda: list(for_all_archives(owners))))
        assert [len(of_group) for of_group in found] == [1, 1, 1]
        seen = [owner for (of_group,) in found for owner in of_group]
        assert len(seen) == len(set(seen))
        assert set(seen) >= set(people.values())

    def test_connection_that_is_handed_back_has_forgotten_group(self, people: People) -> None:
        with acting_for(people["ada"]):
            process = ask("SELECT pg_backend_pid()")
        connection.close()
        with without_owner():
            assert ask("SELECT pg_backend_pid()") == process
            assert ask("SELECT current_setting('search_path')") == [('"$user", public',)]

    def test_rollback_does_not_leave_another_group_behind(self, people: People) -> None:
        first, second = people["ada"], other_group_than(people, "ada")
        with acting_for(first), transaction.atomic():
            assert owners() == {first}
            with acting_for(second):
                with transaction.atomic():
                    assert owners() == {second}
                    transaction.set_rollback(True)
                assert owners() == {second}
            assert owners() == {first}
            transaction.set_rollback(True)
        with acting_for(second):
            assert owners() == {second}

    def test_transaction_that_is_isolated_begins_after_group_is_known(self, people: People) -> None:
        with acting_for(people["dora"]), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert owners() == {people["dora"]}

    def test_tasks_of_people_run_in_their_groups(self, people: People) -> None:
        with maintenance():
            OwnerTask.objects.all().delete()  # of other tests
        for archive_id in people.values():
            with acting_for(archive_id):
                Conversation.objects.update(title="to be counted")
                enqueue_for(archive_id, "convmemory.conversations.tasks.count_for_statistics")
        with maintenance():
            list(for_all_archives(lambda: ask("DELETE FROM conversations_figures RETURNING 1")))
            while work():
                pass
            counted = {owner for (owner,) in ask("SELECT DISTINCT owner_id FROM conversations_figures")}
        assert counted == set(people.values())

    def test_new_accounts_join_smallest_group(self) -> None:
        with maintenance():
            made = [User.objects.create_user(f"new{number}") for number in range(9)]
            numbers = [group_of(user.pk) for user in made]
        assert set(numbers) == {1, 2, 3}
        with acting_for(made[0].pk):
            ingest.create_conversation(caller=Caller.of(made[0]), draft=draft("hello"))
            assert owners() == {made[0].pk}


def owners() -> set[int]:
    return {owner for (owner,) in ask("SELECT owner_id FROM conversations_conversation")}


def group_of_as_maintenance(archive_id: int) -> int:
    with maintenance():
        return group_of(archive_id)


def other_group_than(people: People, name: str) -> int:
    """Return the id of a user in another group."""
    mine = group_of_as_maintenance(people[name])
    return next(archive_id for archive_id in people.values() if group_of_as_maintenance(archive_id) != mine)


@pytest.mark.usefixtures("shared_groups")
class TestSettings:
    """Nodes are sent `SET LOCAL` alone, in each transaction."""

    def test_statement_of_owner_names_them_in_its_transaction(
        self, people: People, monkeypatch: pytest.MonkeyPatch
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

    def test_owner_is_named_again_after_rollback(self, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
        with acting_for(people["ada"]):
            owners()
            sent = Statements(monkeypatch)
            with transaction.atomic():
                with transaction.atomic():
                    owners()
                    transaction.set_rollback(True)
                owners()
        assert sent.count(f"SET LOCAL convmemory.owner = '{people['ada']}' in a transaction") == 2

    def test_member_of_space_sees_and_changes_what_the_role_allows(self, people: People) -> None:
        ada, bert = (User.objects.get(pk=people[name]) for name in ("ada", "bert"))
        with own_logins():
            with acting_for(ada.pk):
                space_id = create_space(person=ada, name="Loft").pk
                add_member(person=ada, space_id=space_id, username="bert", role="reader")
            with acting_for(space_id, person_id=ada.pk):
                made = ingest.create_conversation(
                    caller=Caller.for_archive(space_id), draft=draft("what is in the loft?")
                )
            with acting_for(space_id, person_id=bert.pk):
                assert owners() == {space_id}
                with pytest.raises(ProgrammingError, match="row-level security"):
                    Conversation.objects.update(title="of a reader")
                assert Conversation.objects.filter(pk=made.pk)._raw_delete(using="default") == 0
            with acting_for(space_id, person_id=people["cleo"]):
                assert owners() == set()
            with acting_for(ada.pk), transaction.atomic():
                assert owners() == {ada.pk}
                with acting_for(space_id, person_id=bert.pk):
                    assert owners() == {space_id}
                assert owners() == {ada.pk}
            with acting_for(ada.pk):
                remove_member(person=ada, space_id=space_id, member_id=bert.pk)
            with acting_for(space_id, person_id=bert.pk):
                assert owners() == set()


@pytest.mark.usefixtures("shared_groups")
class TestOperation:
    def test_doctor_finds_nothing_wrong_in_any_group(self) -> None:
        known = {finding.id for finding in examine(AREAS).findings}
        assert not {name for name in known if name.startswith(("database.", "indexes."))} - {"database.no-statistics"}
        assert dict(rows_area.facts())

    def test_doctor_sees_and_repairs_what_is_wrong_in_one_group(self) -> None:
        name = Item._meta.indexes[0].name
        with schema_owner():
            ask(f"DROP INDEX group_2.{name}")
        (finding,) = examine([database_area.INDEXES]).findings
        assert finding.message.startswith(f"Group 2: The index {name}")
        (line,) = fix(Report(findings=[finding]))
        assert "Created" in line
        assert examine([database_area.INDEXES]).findings == []

    def test_doctor_repairs_damage_in_every_group(self, people: People) -> None:
        for archive_id in people.values():
            with acting_for(archive_id):
                assert PassageBlock.objects.filter(archive_id=archive_id).delete()[0]
                assert ItemEmbedding.objects.filter(archive_id=archive_id).delete()[0]
        with maintenance():
            report = examine([rows_area.AREA])
            assert len([finding for finding in report.findings if finding.id == "rows.stale"]) == 3
            assert not [line for line in fix(report) if "not fixed" in line]
            behind = SourceIndex.objects.filter(indexed_version=0).values_list("archive_id", flat=True)
            assert set(behind) == set(people.values())

    def test_doctor_lets_homeless_account_join_group(self) -> None:
        OwnerGroup.objects.filter(pk=make_user().pk).delete()
        (finding,) = check_groups()
        assert (finding.id, finding.fix is not None) == ("database.no-group", True)
        if finding.fix:
            finding.fix()
        assert list(check_groups()) == []

    def test_metrics_count_rows_of_all_groups(self) -> None:
        with maintenance():
            text = metrics_text().decode()
        assert f"convmemory_conversations {Source.objects.filter(kind='conversation').count()}.0" in text
        assert f"convmemory_users {User.objects.count()}.0" in text

    def test_command_lists_groups_with_their_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        reports = group_reports()
        assert [(report.number, report.node) for report in reports] == [
            (1, "node:5432"),
            (2, "node:5432"),
            (3, "node:5432"),
        ]
        assert sum(report.owners for report in reports) == User.objects.count()
        assert all(report.size and not report.problems for report in reports)
        call_command("groups")
        assert capsys.readouterr().out.count("\n") == 4

    def test_command_says_what_is_wrong_with_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with schema_owner():
            ask("ALTER TABLE group_3.chat_agent DISABLE ROW LEVEL SECURITY")
            last = "SELECT max(id) FROM group_1.django_migrations WHERE app = 'chat'"
            ((name,),) = ask(f"DELETE FROM group_1.django_migrations WHERE id = ({last}) RETURNING name")
            ask("CREATE TABLE group_3.unseen ()")
        nodes = groups_on_nodes([1, 2, 3])
        nodes[1] = GroupOnNode(2, "second:5432", trouble="refused")
        with monkeypatch.context() as patch:
            patch.setattr(sizes, "groups_on_nodes", lambda numbers: nodes)
            problems = {report.number: " ".join(report.problems) for report in group_reports()}
            with pytest.raises(CommandError, match="Not every group"):
                call_command("groups")
        assert "migrations are missing" in problems[1]
        assert problems[2] == "its node does not answer: refused"
        assert "not read with those of the other groups: unseen" in problems[3]
        assert "owners are not kept apart in group_3.chat_agent" in problems[3]
        with schema_owner():
            ask(f"INSERT INTO group_1.django_migrations (app, name, applied) VALUES ('chat', '{name}', now())")
            ask("DROP TABLE group_3.unseen")
            apply_policies()
        assert not any(report.problems for report in group_reports())

    def test_flush_is_refused_before_it_takes_owners_of_rows_away(self, people: People) -> None:
        with schema_owner(), pytest.raises(CommandError, match="create another database"):
            call_command("flush", interactive=False)
        assert User.objects.filter(pk__in=people.values()).count() == len(people)

    def test_sweeps_find_what_is_missed_in_every_group(self, people: People) -> None:
        for archive_id in people.values():
            make_conversation(User.objects.get(pk=archive_id), exchange(("what was missed?", "This.")))
        behind = {owner for (owner,) in ask("SELECT owner_id FROM search_source WHERE title = 'what was missed?'")}
        assert behind == set(people.values())
        OwnerTask.objects.all().delete()
        asked: list[int] = []
        assert sweep(enqueue=asked.extend).found["missed"] >= 4
        found = Source.objects.filter(pk__in=asked).values_list("archive_id", flat=True)
        assert set(found) == set(people.values())

    def test_deep_sweep_repairs_sources_in_every_group(self, people: People) -> None:
        for archive_id in people.values():
            with acting_for(archive_id):
                Source.objects.filter(kind="conversation").update(title="wrong")
                Conversation.objects.filter(title="wrong").update(title="right")
        run = deep_sweep(enqueue=lambda ids: None)
        assert run.fixed["orphaned"] >= 4
        assert not Source.objects.filter(kind="conversation", title="wrong").exists()

    def test_every_scheduled_task_works(self, people: People) -> None:
        with maintenance():
            for function, _ in SCHEDULES.values():
                import_string(function)()
            assert owners() >= set(people.values())

    def test_work_that_dead_worker_left_is_given_back_in_its_group(self, people: People) -> None:
        long_ago = timezone.now() - timedelta(days=1_000)
        for archive_id in people.values():
            with acting_for(archive_id):
                Import.objects.all().delete()
                for state in (Import.State.RUNNING, Import.State.DONE):
                    ended = long_ago if state == Import.State.DONE else None
                    Import.objects.create(
                        archive_id=archive_id, size=1, state=state, lease_until=long_ago, ended_at=ended
                    )
        with maintenance():
            done = import_string(SCHEDULES["imports"][0])()
            assert (done["lost"], done["tidied"], done["enqueued"]) == (4, 4, 4)
            assert list(Import.objects.values_list("state", flat=True)) == [Import.State.QUEUED] * 4


@pytest.mark.usefixtures("shared_groups")
class TestEnding:
    def test_erased_person_has_no_rows_in_any_group(self, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
        person = User.objects.get(pk=people["bert"])
        others = {name: count_rows(User.objects.get(username=name)) for name in ("ada", "cleo")}
        assert count_rows(person)["conversations_conversation"]
        with monkeypatch.context() as patch:  # no foreign key holds the account that rows on nodes name
            patch.setattr(erasing, "_drop_rows", lambda *args: None)
            with pytest.raises(erasing.StillInUse):
                erase_user(user=person)
        assert erase_user(user=person).finished
        assert not User.objects.filter(username="bert").exists()
        assert not OwnerGroup.objects.filter(pk=people["bert"]).exists()
        assert tables_with(["zqbert"]) == {}
        for name, before in others.items():  # the log of the administration held titles of bert's
            assert count_rows(User.objects.get(username=name)) | {"django_admin_log": 0} == before | {
                "django_admin_log": 0
            }

    def test_erasure_that_was_cut_short_goes_on(self, people: People) -> None:
        person = User.objects.get(pk=people["dora"])
        for _ in range(3):
            assert not erase_user(user=person, deadline=0.0).finished
            connection.close()  # by another worker, which has to ask where the person's rows are
        assert erase_user(user=person).finished
        assert tables_with(["zqdora"]) == {}

    def test_more_groups_begin_empty_and_new_accounts_join_them(self) -> None:
        rows = counts()
        distribute(groups=5)
        assert groups.layout().groups == (1, 2, 3, 4, 5)
        assert counts() == rows
        assert {group_of(make_user().pk) for _ in range(2)} == {4, 5}
        assert not any(report.problems for report in group_reports())
