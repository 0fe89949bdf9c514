"""Later migrations on a cluster: a toy one, in an app whose tables every group has."""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import DatabaseError
from pytest_django import DjangoDbBlocker, Settings

from convmemory.accounts.callers import Caller
from convmemory.chat import migrations as chat_migrations
from convmemory.chat.agents import create_agent
from convmemory.core import acting
from convmemory.core.acting import NO_GROUP, acting_for, in_group
from convmemory.core.postgres.row_security import tables_without_policy
from convmemory.ops.groups import schemas
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.sizes import group_reports
from tests.factories import make_user
from tests.support.copies import database_in_use
from tests.support.groups import copies_alone, database_copy, make_coordinator

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

TOY = """
from django.db import migrations, models
from convmemory.core import acting

DEADLY = []

def greet(apps, schema_editor):
    if acting.current().group in DEADLY:
        raise RuntimeError("killed")
    for agent in apps.get_model("chat", "Agent").objects.all():
        agent.motto = f"of {agent.name}"
        agent.save()

class Migration(migrations.Migration):
    dependencies = [("chat", "LAST")]
    operations = [
        migrations.AddField("agent", "motto", models.CharField(max_length=100, default="")),
        migrations.CreateModel("Weather", [("id", models.BigAutoField(primary_key=True))]),
        migrations.RunPython(greet, migrations.RunPython.noop),
    ]
"""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Settings) -> Any:
    """The module of a migration behind those that the app has."""
    [(_, last)] = MigrationLoader(None).graph.leaf_nodes("chat")
    names = sorted(module.name for module in pkgutil.iter_modules(chat_migrations.__path__))
    package = tmp_path / "toy_migrations"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in names:
        text = f'import importlib\nMigration = importlib.import_module("convmemory.chat.migrations.{name}").Migration\n'
        (package / f"{name}.py").write_text(text)
    (package / "9999_toy.py").write_text(TOY.replace("LAST", last))
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"chat": "toy_migrations"}
    return importlib.import_module("toy_migrations.9999_toy")


@pytest.fixture(scope="module")
def people(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[str, list[int]]]:
    """Yield the name of a database with one user in each of three groups, each with an agent, and the users' ids."""
    with django_db_blocker.unblock(), copies_alone(), database_copy() as name:
        with database_in_use(name):
            make_coordinator()
            distribute(groups=3)
            owners = [make_user() for _ in range(3)]
            for owner in owners:
                with acting_for(owner.pk):
                    create_agent(caller=Caller.of(owner), values={"name": f"agent {owner.pk}"})
        yield name, [owner.pk for owner in owners]


@pytest.fixture
def owners(people: tuple[str, list[int]]) -> Iterator[list[int]]:
    """They, in a copy of their database."""
    source, numbers = people
    with database_copy(source) as name, database_in_use(name):
        yield numbers


def ask(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def places(table: str) -> list[str]:
    return [schema for (schema,) in ask(f"SELECT schemaname FROM pg_tables WHERE tablename = '{table}' ORDER BY 1")]


def views_over_all() -> list[tuple[Any, ...]]:
    return ask("SELECT oid FROM pg_class WHERE relnamespace = 'every_group'::regnamespace ORDER BY oid")


def test_later_migration_runs_once_in_each_group_and_can_be_taken_back(owners: list[int], toy: Any) -> None:
    call_command("migrate", verbosity=0)
    assert places("chat_weather") == ["public"]
    assert sorted(motto for (motto,) in ask("SELECT motto FROM chat_agent")) == sorted(
        f"of agent {pk}" for pk in owners
    )
    assert tables_without_policy() == []
    assert not [problem for report in group_reports() for problem in report.problems]
    call_command("migrate", "chat", toy.Migration.dependencies[0][1], verbosity=0)
    assert places("chat_weather") == []
    assert len(ask("SELECT name FROM chat_agent")) == 3


def test_migration_killed_between_groups_resumes_there(owners: list[int], toy: Any) -> None:
    toy.DEADLY.append(2)
    with pytest.raises(RuntimeError, match="killed"):
        call_command("migrate", verbosity=0)
    with pytest.raises(DatabaseError):  # rather than a count of some groups
        ask("SELECT count(*) FROM chat_agent")
    done: dict[int, bool] = {}
    for number in (NO_GROUP, 1, 2, 3):
        with in_group(number):
            done[number] = ("chat", "9999_toy") in MigrationRecorder(connection).applied_migrations()
    assert done == {NO_GROUP: True, 1: True, 2: False, 3: False}
    toy.DEADLY.clear()
    call_command("migrate", verbosity=0)
    assert sorted(motto for (motto,) in ask("SELECT motto FROM chat_agent")) == sorted(
        f"of agent {pk}" for pk in owners
    )


def test_migration_killed_after_last_group_rebuilds_union_views(
    owners: list[int], toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(schemas, "make_missing_views_over_all", killed)
        with pytest.raises(RuntimeError, match="killed"):
            call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0)
    assert len(ask("SELECT name FROM chat_agent")) == 3


@pytest.mark.parametrize("question", ["check_unapplied", "plan"])
def test_migrate_plan_and_check_keep_union_views(owners: list[int], toy: Any, question: str) -> None:
    before = views_over_all()
    with suppress(SystemExit):
        call_command("migrate", verbosity=0, stdout=StringIO(), **{question: True})
    assert views_over_all() == before
    assert places("chat_weather") == []


def test_migrate_without_changes_keeps_union_views(owners: list[int]) -> None:
    before = views_over_all()
    call_command("migrate", verbosity=0)
    assert views_over_all() == before
    assert acting.current().group is None
