"""The database server: versions, migrations, connections, statistics."""

from collections.abc import Iterator

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from convmemory.core import groups
from convmemory.core.postgres import row_security
from convmemory.core.postgres.validation import server_problems
from convmemory.core.sql import load_sql
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity, plural
from convmemory.ops.groups.sizes import group_reports

BUSY_SHARE = 0.8
IDS = {
    "convmemory.E002": "database.server-old",
    "convmemory.E003": "database.vector-missing",
    "convmemory.E004": "database.vector-old",
}


def facts() -> Iterator[Fact]:
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
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        yield Finding(
            "database.unmigrated",
            Severity.ERROR,
            f"{plural(len(missing), 'migration')} not applied, the first is {missing[0][0]}.",
            "Run `manage.py migrate`, or start `manage.py up`, which does it.",
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
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "tables_without_statistics"), [groups.schemas()])
        tables = [groups.place_name(*row) for row in cursor.fetchall()]
    if not tables:
        return

    def analyze() -> str:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"ANALYZE {table}")
        return f"Updated the statistics of {', '.join(tables)}."

    yield Finding(
        "database.no-statistics",
        Severity.WARNING,
        f"The planner has no statistics of {', '.join(tables)}: queries may be planned badly.",
        "Run ANALYZE in this database, and check that autovacuum is on.",
        analyze,
    )


def check_groups() -> Iterator[Finding]:
    """Yield the defects of groups of owners: a group that differs from the others, and owners without a group."""
    for report in group_reports():
        for problem in report.problems:
            yield Finding(
                "database.group",
                Severity.ERROR,
                f"Group {report.number}: {problem}.",
                "`manage.py migrate` makes up for what it can; `manage.py groups` shows all of them.",
            )
    if groups.layout().groups and (homeless := groups.owners_without_group()):

        def place_all() -> str:
            for owner_id in homeless:
                groups.place_owner(owner_id)
            return f"{plural(len(homeless), 'account')} joined a group."

        yield Finding(
            "database.no-group",
            Severity.ERROR,
            f"{plural(len(homeless), 'account')} belong to no group of owners, so that nothing can be kept for them.",
            "`manage.py doctor --fix` adds each to the smallest group.",
            place_all,
        )


def check_policies() -> Iterator[Finding]:
    if tables := row_security.tables_without_policy():
        yield Finding(
            "database.no-policy",
            Severity.ERROR,
            f"The database itself does not keep owners apart in {', '.join(tables)}.",
            "Run `manage.py migrate`, which restores the policies.",
            _apply_policies,
        )


def _apply_policies() -> str:
    row_security.apply_policies()
    return "Every table of owners has its policy."


def check_logins() -> Iterator[Finding]:
    if connection.settings_dict["EMBEDDED_PATH"]:
        return
    if not row_security.has_own_logins():
        yield Finding(
            "database.one-login",
            Severity.NOTICE,
            "The application logs in as the owner of the tables: only its own filters keep owners apart.",
            "Run `manage.py setup_roles` and set DATABASE_APP_URL and DATABASE_MAINTENANCE_URL.",
        )
    elif row_security.application_bypasses_row_security():
        yield Finding(
            "database.login-bypasses-row-security",
            Severity.ERROR,
            "DATABASE_APP_URL logs in as a superuser, with BYPASSRLS or as owner of the tables: no policy holds it.",
            "Use the role convmemory_app, which `manage.py setup_roles` makes.",
        )


AREA = Area(
    "database",
    facts,
    (check_versions, check_migrations, check_connections, check_statistics, check_groups, check_policies, check_logins),
)
