"""The database server (versions, migrations, connections, statistics) and its indexes."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connection, models

from convmemory.core.acting import schema_owner
from convmemory.core.postgres import row_security
from convmemory.core.postgres.failures import missing_migrations
from convmemory.core.postgres.validation import server_problems
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql
from convmemory.core.upgrading import newer_database
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity, plural
from convmemory.ops.groups.checking import check_groups

BUSY_SHARE = 0.8
CHANGED_ROWS, CHANGED_SHARE = 50_000, 0.02  # of a table; the embedded server renews statistics at 1,000 and 0.005
IDS = {
    "convmemory.E002": "database.server-old",
    "convmemory.E003": "database.vector-missing",
    "convmemory.E004": "database.vector-old",
}


def database_facts() -> Iterator[Fact]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "database_facts"))
        version, size, vector, name = cursor.fetchone()
    yield "server", f"PostgreSQL {version}, {'embedded' if connection.settings_dict['EMBEDDED_PATH'] else 'external'}"
    yield "pgvector", str(vector)
    yield "database", f"{name}, {size}"


def check_versions() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "server_facts"))
        server, installed, available = cursor.fetchone()
    for problem in server_problems(server, installed, available):
        yield Finding(IDS[str(problem.id)], Severity.ERROR, problem.msg, str(problem.hint))
    if installed and available and installed != available:
        yield Finding(
            "database.vector-outdated",
            Severity.NOTICE,
            f"pgvector {installed} is in use, the server has {available}.",
            "As the owner of the extension run in this database: ALTER EXTENSION vector UPDATE",
        )


def check_migrations() -> Iterator[Finding]:
    if sentence := newer_database(DEFAULT_DB_ALIAS):
        problem, _, advice = sentence.partition(". ")
        yield Finding("database.newer", Severity.ERROR, f"{problem}.", advice)
    if missing := missing_migrations():
        yield Finding(
            "database.unmigrated",
            Severity.ERROR,
            f"{plural(len(missing), 'migration')} not applied, the first is {missing[0]}.",
            f"Run `{COMMAND} migrate`, or start `{COMMAND} up`, which does it.",
        )


def check_connections() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "connections_in_use"))
        used, allowed = cursor.fetchone()
    if used > allowed * BUSY_SHARE:
        yield Finding(
            "database.connections",
            Severity.WARNING,
            f"{used} of {allowed} connections are in use.",
            "Lower DATABASE_POOL_SIZE or the number of processes, or raise max_connections of the server.",
        )


def check_statistics() -> Iterator[Finding]:
    """Yield tables that were never analyzed, and those that changed much since: an owner who is unknown to the
    statistics is taken for one with hardly any rows.
    """
    most: dict[str, Any] = {"rows": CHANGED_ROWS, "share": CHANGED_SHARE}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "tables_without_statistics"))
        missing = [table for (table,) in cursor.fetchall()]
        cursor.execute(load_sql("convmemory.ops.doctor", "tables_with_outdated_statistics"), most)
        changed = dict(cursor.fetchall())

    def analyze(tables: Collection[str]) -> str:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"ANALYZE {table}")
        return f"Updated the statistics of {', '.join(tables)}."

    if missing:
        yield Finding(
            "database.no-statistics",
            Severity.WARNING,
            f"The planner has no statistics of {', '.join(missing)}: queries may be planned badly.",
            "Run ANALYZE in this database, and check that autovacuum is on.",
            partial(analyze, missing),
        )
    if changed:
        listed = ", ".join(f"{table} ({rows:,} rows)" for table, rows in changed.items())
        yield Finding(
            "database.outdated-statistics",
            Severity.WARNING,
            f"Much has changed since the planner's last statistics: {listed}. Searches of new archives may be slow.",
            "Run ANALYZE in this database, and set autovacuum_analyze_scale_factor = 0.005 on a server of your own.",
            partial(analyze, changed),
        )


def check_slots() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "inactive_slots"))
        rows = cursor.fetchall()
    for name, kept in rows:
        yield Finding(
            "database.slot-inactive",
            Severity.WARNING,
            f"Nothing reads the replication slot {name}, for which the server keeps {kept} of log, and ever more.",
            f"Start what reads it again, or run in the database: SELECT pg_drop_replication_slot('{name}')",
        )


def check_policies() -> Iterator[Finding]:
    if tables := row_security.tables_without_policy():
        yield Finding(
            "database.no-policy",
            Severity.ERROR,
            f"The database itself does not keep owners apart in {', '.join(tables)}.",
            f"Run `{COMMAND} migrate`, which restores the policies.",
            _apply_policies,
        )
    if keys := row_security.keys_across_owners():
        yield Finding(
            "database.key-across-owners",
            Severity.ERROR,
            f"Rows of one owner can refer to rows of another: {', '.join(keys)}.",
            f"Run `{COMMAND} migrate`, which makes these foreign keys compare the owners. If the finding stays, rows "
            "refer to another owner's already: delete or correct them.",
            _compare_owners_in_keys,
        )


def _apply_policies() -> str:
    row_security.apply_policies()
    return "Every table of owners has its policy."


def _compare_owners_in_keys() -> str:
    row_security.compare_owners_in_keys()
    if left := row_security.keys_across_owners():
        return f"Rows refer to rows of another owner: {', '.join(left)}."
    return "Every foreign key compares the owners."


def check_logins() -> Iterator[Finding]:
    if connection.settings_dict["EMBEDDED_PATH"]:
        return
    if not row_security.has_own_logins():
        yield Finding(
            "database.one-login",
            Severity.NOTICE,
            "The application logs in as the owner of the tables: only its own filters keep owners apart.",
            f"Run `{COMMAND} setup_roles` and set DATABASE_APP_URL and DATABASE_MAINTENANCE_URL.",
        )
    elif row_security.application_bypasses_row_security():
        yield Finding(
            "database.login-bypasses-row-security",
            Severity.ERROR,
            "DATABASE_APP_URL logs in as a superuser, with BYPASSRLS or as owner of the tables: no policy holds it.",
            f"Use the role convmemory_app, which `{COMMAND} setup_roles` makes.",
        )


DATABASE = Area(
    "database",
    database_facts,
    (
        check_versions,
        check_migrations,
        check_connections,
        check_statistics,
        check_slots,
        check_groups,
        check_policies,
        check_logins,
    ),
)

PROJECT_APPS = ("convmemory", "memory", "search", "summaries")


def indexes_facts() -> Iterator[Fact]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "largest_indexes"))
        for name, table, size, scans in cursor.fetchall():
            yield name, f"on {table}, {size}, used {scans:,} times"


def check_validity() -> Iterator[Finding]:
    with schema_owner(), connection.cursor() as cursor:  # others are not shown which indexes are being built
        cursor.execute(load_sql("convmemory.ops.doctor", "invalid_indexes"))
        rows = cursor.fetchall()
    for (name,) in rows:
        yield Finding(
            "indexes.invalid",
            Severity.ERROR,
            f"The index {name} is invalid, most likely left by an interrupted build: it slows down writes only.",
            f"Run `{COMMAND} doctor --fix`, or in the database: REINDEX INDEX CONCURRENTLY {name}",
            partial(_rebuild, name),
        )


def check_declared() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "index_names"))
        present = {name for (name,) in cursor.fetchall()}
    for model in apps.get_models():
        if model.__module__.partition(".")[0] not in PROJECT_APPS:
            continue
        for index in model._meta.indexes:
            if index.name not in present:
                yield _missing(model, index.name, partial(_create, model, index))
        for constraint in model._meta.constraints:
            if isinstance(constraint, models.UniqueConstraint) and constraint.name not in present:
                yield _missing(model, constraint.name, None)


def _missing(model: type[models.Model], name: str, fix: "partial[str] | None") -> Finding:
    return Finding(
        "indexes.missing",
        Severity.ERROR,
        f"The index {name} of {model._meta.db_table} is missing: it was dropped, or a restore was incomplete.",
        f"Run `{COMMAND} doctor --fix`, or restore the database.",
        fix,
    )


def _create(model: type[models.Model], index: models.Index) -> str:
    with connection.schema_editor() as editor:
        editor.add_index(model, index)
    return f"Created the index {index.name}."


def _rebuild(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"REINDEX INDEX CONCURRENTLY {connection.ops.quote_name(name)}")
    return f"The index {name} is built again."


INDEXES = Area("indexes", indexes_facts, (check_validity, check_declared), by_archives=True)
