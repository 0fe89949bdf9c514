"""The database of a test run: cloned from a migrated template, and emptied after each test that commits.

The template's name ends in a digest of the migrations and of the SQL that makes roles and policies: a change of these
makes a new template and drops the old one.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connection, transaction

from convmemory.core import acting
from convmemory.core.postgres import row_security
from convmemory.core.postgres.locks import AdvisoryLock

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "migrated_"
EMPTY_TABLES = """
DO $body$
DECLARE
    filled regclass;
    has_rows boolean;
BEGIN
    SET LOCAL session_replication_role = replica;  -- no triggers of foreign keys
    FOR filled IN
        SELECT oid FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
          AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', filled) INTO has_rows;
        CONTINUE WHEN NOT has_rows;
        IF pg_relation_size(filled) > 65536 THEN  -- deleted rows would spoil the planner's estimates
            EXECUTE format('TRUNCATE %s CASCADE', filled);
        ELSE  -- a fifth of the time of TRUNCATE, which makes new files for the table and each of its indexes
            EXECUTE format('DELETE FROM ONLY %s', filled);
        END IF;
    END LOOP;
END
$body$
"""


def migrated_template() -> str:
    """Return the template's name; make it first if this server does not have it."""
    name = PREFIX + digest_of_schema()
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [AdvisoryLock.TEST_TEMPLATE])
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{PREFIX}%"])
        existing = {row[0] for row in cursor.fetchall()}
        if name not in existing:
            draft = f"making_{name}_{os.getpid()}"
            cursor.execute(f'CREATE DATABASE "{draft}"')
            _migrate(draft)
            cursor.execute(f'ALTER DATABASE "{draft}" RENAME TO "{name}"')
            for outdated in existing:
                cursor.execute(f'DROP DATABASE IF EXISTS "{outdated}"')
    return name


def _migrate(database: str) -> None:
    used = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = database
    try:
        call_command("migrate", verbosity=0)
        row_security.create_roles()
        row_security.apply_policies()
    finally:
        connection.close()
        connection.settings_dict["NAME"] = used


@contextmanager
def unchecked_keys() -> Iterator[None]:
    """Admit rows that refer to what no foreign key allows, such as another owner's row."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")


def empty_tables() -> None:
    """Delete every row that a test committed. A fraction of the time of `flush`, which truncates all sixty tables."""
    with acting.schema_owner(), connection.cursor() as cursor:
        cursor.execute(EMPTY_TABLES)


def digest_of_schema() -> str:
    """Return a digest of what decides on the tables, their policies and functions."""
    sources = [
        path
        for package in ("convmemory", "search", "memory", "summaries")
        for path in sorted((ROOT / package).rglob("*"))
        if (path.parent.name == "migrations" and path.suffix == ".py") or path.suffix == ".sql"
    ]
    digest = hashlib.sha256(django.__version__.encode())
    for path in [*sources, ROOT / "requirements.lock"]:
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
