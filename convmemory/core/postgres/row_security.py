"""Row-level security: policies in the database keep owners apart even if the application omits a filter.

`apply_policies` runs after every `migrate` and after a restore, so that no new table is left without its policy. The
owner of the tables is exempt, and so is the maintenance log-in (`core/acting.py`). Foreign keys between tables of
owners compare the owners as well (`compare_owners_in_keys`), for all log-ins.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import IntegrityError, connection, transaction

from convmemory.core import acting
from convmemory.core.acting import Login
from convmemory.core.postgres import embedded
from convmemory.core.postgres.logins import ROLES
from convmemory.core.sql import load_sql

logger = logging.getLogger(__name__)


def apply_policies() -> None:
    """Create missing policies. Requires the owner of the tables."""
    connection.ensure_connection()
    with transaction.atomic():
        embedded.apply_policies(connection.connection)


def create_roles() -> None:
    """Create whichever of the two roles is missing. Requires a superuser."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "create_roles"))


def tables_without_policy() -> list[str]:
    """Return the tables of owners that have no policy."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "tables_without_policy"), [connection.layout.schemas])  # type: ignore[attr-defined]
        return [name for (name,) in cursor.fetchall()]


def keys_across_owners() -> dict[str, list[str]]:
    """Return the foreign keys that do not keep owners apart, each with the statements that make it do so."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "keys_across_owners"), [connection.layout.schemas])  # type: ignore[attr-defined]
        return dict(cursor.fetchall())


def compare_owners_in_keys() -> None:
    """Make each foreign key between tables of owners compare the owners, so that no row refers to another owner's.

    Requires the owner of the tables, outside a transaction: writers wait for moments only, and a run that was killed is
    continued by the next one. Rows that refer to another owner's already keep a key unchecked: it refuses new ones.
    """
    for name, statements in keys_across_owners().items():
        try:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
        except IntegrityError:
            logger.error("Rows refer to rows of another owner: see the foreign key %s.", name)


def is_migrated() -> bool:
    """Return whether the tables exist that the policy-bypassing functions read."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "is_migrated"))
        (exists,) = cursor.fetchone()
    return bool(exists)


def has_own_logins() -> bool:
    """Return whether the application logs in as a role to which the policies apply."""
    return Login.APP in connection.settings_dict.get("LOGINS", {})


def application_bypasses_row_security() -> bool:
    """Return whether no policy applies to the application's log-in."""
    with acting.without_owner(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "bypasses_row_security"), [connection.layout.schemas])  # type: ignore[attr-defined]
        row = cursor.fetchone()
    return bool(row and row[0])


def setup_script(passwords: Mapping[Login, str]) -> Iterator[str]:
    """Yield the statements that create the roles on an external server with these passwords.

    Passwords are sent only as their verifiers.
    """
    yield load_sql("convmemory.core", "create_roles")
    connection.ensure_connection()
    for login, role in ROLES.items():
        verifier = connection.connection.pgconn.encrypt_password(
            passwords[login].encode(), role.encode(), b"scram-sha-256"
        ).decode()
        yield f"ALTER ROLE {role} PASSWORD '{verifier}'"
    layout = connection.layout  # type: ignore[attr-defined]
    for path in layout.paths:
        if layout.groups:
            yield f"SET search_path = {path}"
        for step in embedded.ROW_SECURITY:
            if step != embedded.DEFINER_FUNCTIONS or path == layout.home_path:
                yield load_sql("convmemory.core", step)
    if layout.groups:
        yield load_sql("convmemory.core.postgres", "grant_over_all")
        yield "RESET search_path"


def after_migrate(**kwargs: Any) -> None:
    """Receive `post_migrate`, which emptying a database also sends although it changes no tables."""
    if "plan" in kwargs:
        apply_policies()
        compare_owners_in_keys()
