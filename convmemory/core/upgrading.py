"""Refuses databases and backups that this version cannot upgrade, before anything in them is touched.

An app's `0001_initial` replaces the migrations of the oldest version that can be upgraded. See docs/adr/0080.
"""

from collections.abc import Collection

from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

OLDER = (
    "This database was made by an older version: {migration} is not applied. Start commit 5e9aed6e with it once, "
    "which upgrades it, then this version. Nothing has been changed."
)


def missing_for_upgrade(applied: Collection[tuple[str, str]]) -> str:
    """Return a migration that a database with these lacks for an upgrade; empty if it is new or can be upgraded."""
    apps = {app for app, _ in applied}
    migrations = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    for (app, name), migration in sorted(migrations.items()):
        missing = [replaced for _, replaced in migration.replaces if (app, replaced) not in applied]
        if missing and name == "0001_initial" and app in apps:
            return f"{app}.{missing[0]}"
    return ""


def refuse_older_database(alias: str) -> None:
    """Raises: CommandError if the database is older than those that can be upgraded."""
    if migration := missing_for_upgrade(MigrationRecorder(connections[alias]).applied_migrations()):
        raise CommandError(OLDER.format(migration=migration))
