"""Row-level security: what the database itself shows to whom, asked by hand with the product's own log-ins."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import pairwise
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.utils import ProgrammingError

from convmemory.accounts import spaces
from convmemory.accounts.models import Archive, Membership, SpaceInvitation
from convmemory.accounts.space_invitations import invitations_of_caller, invite
from convmemory.conversations.models import Conversation, Message
from convmemory.core.acting import Login, acting_for, maintenance, schema_owner
from convmemory.core.errors import SettingError
from convmemory.core.models import OwnerTask
from convmemory.core.postgres import logins, server
from convmemory.core.postgres.failures import ChangedInTransaction
from convmemory.core.postgres.row_security import apply_policies, tables_without_policy
from convmemory.core.queue.fair_queue import enqueue, enqueue_for
from convmemory.ops.doctor.database_area import check_logins, check_policies, check_validity
from convmemory.ops.management.commands import setup_roles
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.own_logins import own_logins
from tests.support.patience import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

BUILD = "CREATE INDEX CONCURRENTLY slow ON conversations_conversation (title)"
TWICE = "SELECT count(*) FROM conversations_message AS a, conversations_message AS b"
READ = "SELECT owner_id FROM conversations_conversation ORDER BY owner_id"


@pytest.fixture
def people() -> tuple[int, int]:
    """Two owners, each with a conversation."""
    owners = make_user(), make_user()
    for owner in owners:
        make_conversation(owner, exchange(("what is it?", "a secret")), title="mine")
    return owners[0].pk, owners[1].pk


@pytest.fixture(name="own_logins")
def log_in_as_the_product(people: tuple[int, int]) -> Iterator[None]:
    with own_logins():
        yield


def ask(statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def value(statement: str) -> object:
    return ask(statement)[0][0]


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def index_under_construction() -> Iterator[None]:
    """An index that is not valid yet, because its build waits for a transaction to end."""
    values = connection.get_connection_params()
    parameters = {name: values[name] for name in ("host", "port", "dbname")} | {"user": "postgres"}
    with psycopg.connect(**parameters) as writer, psycopg.connect(**parameters, autocommit=True) as builder:
        writer.execute("LOCK TABLE conversations_conversation IN ROW EXCLUSIVE MODE")
        building = Thread(target=builder.execute, args=(BUILD,))
        building.start()
        try:
            wait_until(lambda: _is_being_built("slow"), "the build", 60)
            yield
        finally:
            writer.rollback()
            building.join()
            builder.execute("DROP INDEX slow")


def _is_being_built(name: str) -> bool:
    with schema_owner():
        return bool(ask(f"SELECT FROM pg_stat_progress_create_index WHERE index_relid = to_regclass('{name}')"))


def test_every_table_of_owners_has_its_policy() -> None:
    assert tables_without_policy() == []


def test_new_table_without_policy_is_found_and_gets_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE somebodys_notes (id bigint, owner_id bigint)")
    try:
        assert tables_without_policy() == ["somebodys_notes"]
        apply_policies()
        assert tables_without_policy() == []
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE somebodys_notes")


@pytest.mark.usefixtures("own_logins")
class TestLogins:
    def test_no_rows_are_visible_without_owner(self) -> None:
        assert value("SELECT current_user::text") == "convmemory_app"
        assert ask(READ) == []
        assert ask("SELECT id FROM search_item") == []
        assert not Conversation.objects.exists()

    def test_owner_sees_their_own_rows_alone(self, people: tuple[int, int]) -> None:
        for archive_id in people:
            with acting_for(archive_id):
                assert ask(READ) == [(archive_id,)]
        assert ask(READ) == []

    def test_owner_cannot_write_for_another(self, people: tuple[int, int]) -> None:
        mine, others = people
        with acting_for(mine):
            with pytest.raises(ProgrammingError, match="row-level security"):
                Conversation.objects.create(archive_id=others, title="forged")
            with pytest.raises(ProgrammingError, match="row-level security"):
                Conversation.objects.update(archive_id=others)
            assert not Conversation.objects.filter(archive_id=others).update(title="changed")
            assert Conversation.objects.filter(archive_id=others).delete()[0] == 0
        with maintenance():
            assert set(Conversation.objects.values_list("archive_id", "title")) == {(mine, "mine"), (others, "mine")}

    def test_maintenance_sees_all_and_changes_no_table(self, people: tuple[int, int]) -> None:
        with maintenance():
            assert ask(READ) == [(archive_id,) for archive_id in sorted(people)]
            with pytest.raises(ProgrammingError, match="must be owner"):
                ask("ALTER TABLE conversations_conversation DISABLE ROW LEVEL SECURITY")
        with schema_owner():
            assert value("SELECT current_user::text") == "postgres"

    @pytest.mark.parametrize(
        "statement",
        [
            "SET ROLE convmemory_maintenance",
            "SET SESSION AUTHORIZATION postgres",
            "SET row_security = off; SELECT * FROM conversations_conversation",
            "ALTER ROLE convmemory_app BYPASSRLS",
            "ALTER TABLE conversations_conversation DISABLE ROW LEVEL SECURITY",
            "DROP POLICY owner_alone ON conversations_conversation",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
            "TRUNCATE conversations_conversation CASCADE",
            "COPY conversations_conversation TO PROGRAM 'cat'",
            "SELECT pg_read_file('/etc/passwd')",
            "DELETE FROM django_migrations",
        ],
    )
    def test_no_statement_of_application_gets_around_policies(self, statement: str) -> None:
        with pytest.raises(DatabaseError):
            ask(statement)

    def test_connection_that_is_handed_back_has_forgotten_its_owner(self, people: tuple[int, int]) -> None:
        with acting_for(people[0]):
            process = value("SELECT pg_backend_pid()")
        connection.close()
        assert value("SELECT pg_backend_pid()") == process
        assert value("SELECT current_setting('convmemory.owner', true)") == ""

    def test_connection_that_is_handed_back_in_transaction_has_forgotten_its_owner(
        self, people: tuple[int, int]
    ) -> None:
        with acting_for(people[0]):
            process = value("SELECT pg_backend_pid()")
            with transaction.atomic():
                assert ask(READ)
                connection.close()
        assert value("SELECT pg_backend_pid()") == process
        assert value("SELECT current_setting('convmemory.owner', true)") == ""

    def test_rollback_does_not_leave_another_owner_behind(self, people: tuple[int, int]) -> None:
        mine, others = people
        with acting_for(mine), rolled_back():
            ask(READ)
            with acting_for(others):
                assert ask(READ) == [(others,)]
        with acting_for(others):
            assert ask(READ) == [(others,)]

    def test_savepoint_does_not_leave_another_owner_behind(self, people: tuple[int, int]) -> None:
        mine, others = people
        with acting_for(mine), transaction.atomic():
            assert ask(READ) == [(mine,)]
            with acting_for(others), rolled_back():
                assert ask(READ) == [(others,)]
            assert ask(READ) == [(mine,)]

    def test_log_in_cannot_change_inside_transaction(self, people: tuple[int, int]) -> None:
        with acting_for(people[0]), transaction.atomic(), pytest.raises(ChangedInTransaction), maintenance():
            ask(READ)

    def test_task_touches_its_owner_alone(self, people: tuple[int, int]) -> None:
        mine, others = people
        with acting_for(mine):
            enqueue_for(mine, "convmemory.conversations.tasks.count_for_statistics")
            enqueue_for(others, "convmemory.conversations.tasks.count_for_statistics")
            assert set(OwnerTask.objects.values_list("archive_id", flat=True)) == {mine}
        with maintenance():
            counting = OwnerTask.objects.filter(func="convmemory.conversations.tasks.count_for_statistics")
            assert others not in set(counting.values_list("archive_id", flat=True))

    def test_requests_enqueue_tasks_of_installation_and_see_no_others_of_owners(self, people: tuple[int, int]) -> None:
        with maintenance():
            OwnerTask.objects.all().delete()
        for person in people:
            with acting_for(person):
                enqueue_for(person, "convmemory.conversations.tasks.count_for_statistics")
                enqueue("convmemory.ops.tasks.sweep")
                assert set(OwnerTask.objects.values_list("archive_id", flat=True)) == {person, None}
        with maintenance():
            assert OwnerTask.objects.count() == 3

    def test_doctor_ignores_index_under_construction(self) -> None:
        with index_under_construction(), maintenance():
            assert list(check_validity()) == []


@pytest.fixture
def space(people: tuple[int, int]) -> Iterator[int]:
    """A space with a conversation, a manager, a contributor and a reader, seen by the product's own log-ins."""
    manager, contributor, reader = (make_user(name) for name in ("manager", "contributor", "reader"))
    space = spaces.create_space(person=manager, name="Boat house")
    for person, role in ((contributor, "contributor"), (reader, "reader")):
        add_member(person=manager, space_id=space.pk, username=person.username, role=role)
    make_conversation(space, exchange(("where is the key?", "under the mat")), title="shared")
    with own_logins():
        yield space.pk


def number_of(username: str) -> int:
    return User.objects.get(username=username).pk


def seen_in(space: int, person_id: int) -> list[tuple[object, ...]]:
    with acting_for(space, person_id=person_id):
        return ask(READ)


class TestSpaces:
    def test_members_alone_see_rows_of_space(self, space: int, people: tuple[int, int]) -> None:
        for name in ("manager", "contributor", "reader"):
            assert seen_in(space, number_of(name)) == [(space,)]
        for stranger in people:
            assert seen_in(space, stranger) == []
            assert seen_in(people[0], people[1]) == []  # an archive that is no space
        with acting_for(space):
            assert ask(READ) == [(space,)]  # as a worker, for the space itself

    def test_removed_member_sees_nothing_in_next_statement(self, space: int) -> None:
        reader = number_of("reader")
        with acting_for(space, person_id=reader), transaction.atomic():
            assert ask(READ) == [(space,)]
            leave_by_another_connection(reader)
            assert ask(READ) == []

    def test_reader_changes_nothing_in_space(self, space: int) -> None:
        reader = number_of("reader")
        with acting_for(space, person_id=reader):
            with pytest.raises(ProgrammingError, match="row-level security"):
                Conversation.objects.create(archive_id=space, title="added")
            with pytest.raises(ProgrammingError, match="row-level security"):
                Conversation.objects.update(title="changed")
            assert ask("DELETE FROM conversations_message RETURNING id") == []
        with maintenance():
            assert list(Conversation.objects.filter(archive_id=space).values_list("title", flat=True)) == ["shared"]
            assert Message.objects.filter(archive_id=space).count() == 2

    @pytest.mark.parametrize("name", ["contributor", "manager"])
    def test_writer_changes_rows_of_space_alone(self, space: int, people: tuple[int, int], name: str) -> None:
        person = number_of(name)
        with acting_for(space, person_id=person):
            made = make_conversation(Archive.objects.get(pk=space), exchange(("where is it?", "in the boat")))
            assert Conversation.objects.filter(pk=made.pk).update(title="changed")
            with pytest.raises(ProgrammingError, match="row-level security"):
                Conversation.objects.filter(pk=made.pk).update(archive_id=people[0])
            assert Conversation.objects.filter(pk=made.pk).delete()[0] > 1  # with its messages

    def test_application_reads_own_memberships_and_writes_none(self, space: int, people: tuple[int, int]) -> None:
        reader = number_of("reader")
        with acting_for(reader):
            assert Archive.objects.filter(kind="space").values_list("pk", flat=True).get() == space
            assert Membership.objects.count() == 3
            with pytest.raises(ProgrammingError, match="row-level security"):
                Membership.objects.create(archive_id=space, person_id=people[0], role="manager")
            assert Membership.objects.update(role="manager") == 0
            assert ask("DELETE FROM accounts_membership RETURNING id") == []
        with acting_for(people[0]):
            assert not Archive.objects.filter(kind="space").exists()
            assert not Membership.objects.exists()

    def test_invited_person_alone_sees_invitation_and_nothing_of_space(
        self, space: int, people: tuple[int, int]
    ) -> None:
        invited, stranger = people
        with maintenance():
            manager, username = User.objects.get(username="manager"), User.objects.get(pk=invited).username
        invite(person=manager, space_id=space, username=username, role="manager")
        assert seen_in(space, invited) == []
        for person, count in ((invited, 1), (stranger, 0), (manager.pk, 0)):
            with acting_for(person):
                assert (SpaceInvitation.objects.count(), len(invitations_of_caller())) == (count, count)
                assert person == manager.pk or not Archive.objects.filter(kind="space").exists()
                assert SpaceInvitation.objects.update(role="reader") == 0
                assert ask("DELETE FROM accounts_spaceinvitation RETURNING id") == []
                with pytest.raises(ProgrammingError, match="row-level security"):
                    SpaceInvitation.objects.create(
                        archive_id=space, person_id=person, username="me", role="manager", invited_by=manager
                    )
        with acting_for(space, person_id=manager.pk):
            assert not SpaceInvitation.objects.exists()

    def test_connection_that_is_handed_back_has_forgotten_its_person(self, space: int) -> None:
        reader = number_of("reader")
        assert seen_in(space, reader)
        connection.close()
        assert value("SELECT current_setting('convmemory.person', true)") == ""
        with acting_for(space):
            assert ask(READ) == [(space,)]

    def test_member_is_looked_up_once_a_statement(self, space: int) -> None:
        with acting_for(space, person_id=number_of("reader")):
            lines = [str(line) for (line,) in ask(f"EXPLAIN (ANALYZE, COSTS OFF) {TWICE}")]
        lookups = [after for line, after in pairwise(lines) if line.strip().startswith("InitPlan")]
        assert len(lookups) == 2  # one for each of the two tables
        assert all("loops=1)" in line for line in lookups)


def leave_by_another_connection(person_id: int) -> None:
    values = connection.get_connection_params()
    parameters = {name: values[name] for name in ("host", "port", "dbname")} | {"user": "postgres"}
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute("DELETE FROM accounts_membership WHERE person_id = %s", [person_id])


def test_older_policy_is_found_and_replaced() -> None:
    mine = "owner_id = nullif(current_setting('convmemory.owner', true), '')::int"
    with connection.cursor() as cursor:
        cursor.execute("DROP POLICY readers_delete_nothing ON conversations_message")
        cursor.execute(f"ALTER POLICY owner_alone ON conversations_message USING ({mine}) WITH CHECK ({mine})")
    assert tables_without_policy() == ["conversations_message"]
    apply_policies()
    assert tables_without_policy() == []
    names = ask("SELECT polname FROM pg_policy WHERE polrelid = 'conversations_message'::regclass ORDER BY 1")
    assert names == [("owner_alone",), ("readers_delete_nothing",)]


class TestExternalServers:
    """`setup_roles` and `doctor`, on the test's server as if it were the operator's own server."""

    @pytest.fixture(autouse=True)
    def own_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parameters = connection.get_connection_params()
        monkeypatch.setitem(connection.settings_dict, "EMBEDDED_PATH", None)
        monkeypatch.setitem(connection.settings_dict, "HOST", parameters["host"])
        monkeypatch.setitem(connection.settings_dict, "PORT", parameters["port"])

    def test_statements_are_printed_with_settings(self) -> None:
        output = StringIO()
        call_command("setup_roles", stdout=output)
        assert "CREATE ROLE convmemory_app LOGIN NOSUPERUSER NOBYPASSRLS" in output.getvalue()
        assert "ALTER ROLE convmemory_maintenance PASSWORD 'SCRAM-SHA-256$" in output.getvalue()
        url = next(line for line in output.getvalue().splitlines() if line.startswith("DATABASE_APP_URL="))
        password = urlsplit(url.partition("=")[2]).password
        assert password
        assert output.getvalue().count(password) == 1  # the server gets a verifier alone

    @pytest.mark.parametrize("apply", [True, False])
    def test_passwords_of_settings_are_not_printed(self, apply: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        named = {login: {"password": "in a file of Compose"} for login in setup_roles.SETTINGS}
        monkeypatch.setitem(connection.settings_dict, "LOGINS", named)
        output = StringIO()
        call_command("setup_roles", apply=apply, stdout=output)
        assert "in a file" not in output.getvalue()
        assert "in%20a%20file" not in output.getvalue()
        assert "Set for every" not in output.getvalue()

    def test_printed_statements_run_by_psql(self, tmp_path: Path) -> None:
        script = tmp_path / "roles.sql"
        with script.open("w") as file:
            call_command("setup_roles", stdout=file)
        values = connection.settings_dict
        server_options = ["--host", str(values["HOST"]), "--port", str(values["PORT"]), "--username", values["USER"]]
        options = ["--set", "ON_ERROR_STOP=1", "--no-psqlrc", "--file", script]
        command = [server.binary("psql"), *server_options, *options, values["NAME"]]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (completed.returncode, "ERROR" in completed.stderr) == (0, False), completed.stderr

    def test_applied_roles_can_log_in_with_printed_settings(self) -> None:
        output = StringIO()
        call_command("setup_roles", apply=True, stdout=output)
        urls = dict(line.split("=", 1) for line in output.getvalue().splitlines() if line.startswith("DATABASE_"))
        connection.close()
        parameters = logins.external(urls["DATABASE_APP_URL"], urls["DATABASE_MAINTENANCE_URL"])
        for login, role in logins.ROLES.items():
            with psycopg.connect(**parameters[login]) as visitor:
                assert visitor.execute("SELECT current_user::text").fetchone() == (role,)

    def test_setup_roles_requires_migrations(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(setup_roles, "is_migrated", lambda: False)
        with pytest.raises(CommandError, match=r"manage\.py migrate"):
            call_command("setup_roles")

    def test_app_address_without_maintenance_address_is_refused(self) -> None:
        with pytest.raises(SettingError, match="both DATABASE_APP_URL and DATABASE_MAINTENANCE_URL"):
            logins.external("postgres://a@b/c", "")

    def test_doctor_says_that_one_login_does_everything(self) -> None:
        assert [finding.id for finding in check_logins()] == ["database.one-login"]

    def test_doctor_knows_login_that_no_policy_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(connection.settings_dict, "LOGINS", {Login.APP: {"user": "postgres"}})
        monkeypatch.setitem(connection.settings_dict, "ASSUME_ROLES", False)
        assert [finding.id for finding in check_logins()] == ["database.login-bypasses-row-security"]
        monkeypatch.setitem(connection.settings_dict, "LOGINS", {Login.APP: {"user": "convmemory_app"}})
        connection.close()
        assert list(check_logins()) == []


def test_doctor_finds_table_without_its_policy_and_puts_it_back() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE conversations_message DISABLE ROW LEVEL SECURITY")
    (finding,) = check_policies()
    assert (finding.id, "conversations_message" in finding.message) == ("database.no-policy", True)
    assert finding.fix is not None
    finding.fix()
    assert list(check_policies()) == []
