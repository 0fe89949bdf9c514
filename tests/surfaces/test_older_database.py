"""A data folder of a version without roles and policies: it is taken over as it is, and nothing in it is lost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from django.conf import settings as project

from convmemory.core.postgres import embedded, server
from tests.conftest import FAST_OPTIONS
from tests.support.forked_commands import ForkedCommands
from tests.support.prepared_folder import copy_prepared_folder
from tests.surfaces.test_backup import FILL, SHOW, Installation

OLDER = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "convmemory.settings"
from convmemory.core import acting
from convmemory.core.postgres import embedded, server

server.write_access = lambda folder: None
embedded._ensure_roles = lambda socket_dir: None
acting.process_acts_as(acting.SCHEMA)

import django
django.setup()
"""
"""What an older version did: everything as the superuser, whom `trust` lets in."""
TAKE_DOWN = """
DO $body$
DECLARE
    owned record;
BEGIN
    FOR owned IN SELECT polname AS policy, polrelid::regclass AS name FROM pg_policy LOOP
        EXECUTE format('DROP POLICY %I ON %s', owned.policy, owned.name);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', owned.name);
    END LOOP;
    DROP FUNCTION convmemory_owner_of_key, convmemory_waiting_tasks, convmemory_knows_address,
        convmemory_role_in_space, convmemory_spaces, convmemory_spaces_of_key, convmemory_archive_of,
        convmemory_owner_of_share_link;
    DROP OWNED BY convmemory_app, convmemory_maintenance;
    DROP ROLE convmemory_app, convmemory_maintenance;
END
$body$
"""
"""Leaves a database as older versions had it."""
KEY = """
from django.contrib.auth.models import User
from convmemory.accounts.keys import create_key
print(create_key(owner=User.objects.get()), flush=True)
sys.stdin.read()
"""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
WITH_POLICIES = "SELECT count(*) FROM pg_class WHERE relrowsecurity"
SHOWN = "['ada'] ['where is the zebrafish lab?']"
ROLES = "SELECT rolname, rolbypassrls FROM pg_roles WHERE rolname LIKE 'convmemory%' ORDER BY 1"
AS_CALLER = """
from convmemory.accounts.keys import user_of_key
from convmemory.conversations.models import Conversation
from convmemory.core import acting
with acting.without_owner():
    caller = user_of_key({key!r}, writes=False)
    seen = [Conversation.objects.count()]
with acting.acting_for(caller.pk):
    seen.append(Conversation.objects.count())
with acting.acting_for(caller.pk + 1):
    seen.append(Conversation.objects.count())
print(caller.username, seen)
"""


@contextmanager
def older_version(installation: Installation) -> Iterator[str]:
    """A process of an older version that uses the database, and the key that it made."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
    environment |= {"CONVMEMORY_VAR": str(installation.folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", OLDER + FILL + KEY],
        cwd=project.BASE_DIR, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline().strip() == "2"  # passages
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@pytest.fixture
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with closing(ForkedCommands()) as commands:
        folder = tmp_path_factory.mktemp("older") / "var"  # short: a socket's path has 107 bytes
        copy_prepared_folder(folder / "postgres")
        (folder / "postgres" / "pg_hba.conf").write_text("local all all trust\n")
        yield Installation(folder, commands)
        server.stop(folder / "postgres")


def rows(installation: Installation) -> dict[str, int]:
    tables = [name for (name,) in installation.query(TABLES) if name != "ops_measure"]  # in which each search counts
    return {name: installation.query(f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def test_folder_of_older_version_gets_its_roles_and_keeps_its_rows(installation: Installation) -> None:
    access = installation.folder / "postgres" / "pg_hba.conf"
    with older_version(installation) as key:
        installation.query(TAKE_DOWN)
        assert "trust" in access.read_text()
        assert (installation.query(ROLES), installation.query(WITH_POLICIES)) == ([], [(0,)])
        filled = {name for name, count in rows(installation).items() if count}

        assert installation.shell(SHOW) == SHOWN  # while the older version runs
        assert installation.query(ROLES) == [("convmemory_app", False), ("convmemory_maintenance", True)]
        before = rows(installation)
        assert {"accounts_apikey", "conversations_message", "documents_document", "search_passage"} <= filled

    assert server.find(installation.folder / "postgres") is None
    assert installation.shell(AS_CALLER.format(key=key)) == "ada [0, 1, 0]"
    assert "trust" not in access.read_text()
    installation.run("migrate", "--verbosity", "0")
    assert installation.shell(SHOW) == SHOWN
    embedded.join(installation.folder / "postgres", FAST_OPTIONS)
    assert installation.query(WITH_POLICIES)[0][0] > 20
    assert rows(installation) == before
