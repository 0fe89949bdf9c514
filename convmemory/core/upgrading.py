"""Refuses databases and backups that this version cannot use, before anything in them is touched.

An app's `0001_initial` replaces the migrations of the oldest version that can be upgraded. See docs/adr/0080.
"""

from collections.abc import Collection

from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from convmemory.core.program import COMMAND

OLDER = (
    "This database was made by an older version: {migration} is not applied. Start commit 5e9aed6e with it once, "
    "which upgrades it, then this version. Nothing has been changed."
)
NEWER = (
    "A newer version upgraded this database: {migration} is unknown to this version. Start the newer version, or "
    f"restore a backup from before the upgrade with `{COMMAND} restore`."
)

Migrations = Collection[tuple[str, str]]


def missing_for_upgrade(applied: Migrations) -> str:
    """Return a migration that a database with these lacks for an upgrade; empty if it is new or can be upgraded."""
    apps = {app for app, _ in applied}
    migrations = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    for (app, name), migration in sorted(migrations.items()):
        missing = [replaced for _, replaced in migration.replaces if (app, replaced) not in applied]
        if missing and name == "0001_initial" and app in apps:
            return f"{app}.{missing[0]}"
    return ""


def known_migrations() -> set[tuple[str, str]]:
    """Return the app and the name of each migration of this version and of those that they replace."""
    migrations = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    return {name for key, migration in migrations.items() for name in (key, *migration.replaces)}


def unknown_migration(applied: Migrations) -> str:
    """Return a migration that only a newer version has; empty if this version knows all. Apps that left are ignored."""
    migrations = known_migrations()
    apps = {app for app, _ in migrations}
    unknown = {(app, name) for app, name in applied if app in apps} - migrations
    return ".".join(min(unknown)) if unknown else ""


def newer_database(alias: str) -> str:
    """Return the sentence about a database that a newer version upgraded; empty if this version can use it."""
    migration = unknown_migration(MigrationRecorder(connections[alias]).applied_migrations())
    return NEWER.format(migration=migration) if migration else ""


def refuse_other_database(alias: str) -> None:
    """Refuse a database older than those that can be upgraded, or of a newer version. Raises: CommandError."""
    if migration := missing_for_upgrade(MigrationRecorder(connections[alias]).applied_migrations()):
        raise CommandError(OLDER.format(migration=migration))
    if sentence := newer_database(alias):
        raise CommandError(sentence)
