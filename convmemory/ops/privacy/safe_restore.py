"""Limits the effects of a dump: a backup can come from any source, and restoring one executes its contents.

Only tables, sequences, constraints, indexes, rows and the schemas of owner groups are restored, by a role that may do
nothing but own the new database. A dump can define a function call for a table; so the contents of the new database are
checked before this program, which is its superuser, reads a row of it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from convmemory.core.errors import InvalidInput
from convmemory.core.sql import load_sql

ROLE = "convmemory_restore"
RESTORED = frozenset({
    "TABLE", "TABLE DATA", "SEQUENCE", "SEQUENCE SET", "SEQUENCE OWNED BY", "DEFAULT", "CONSTRAINT", "CHECK CONSTRAINT",
    "FK CONSTRAINT", "INDEX", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY",
})  # fmt: skip
MADE_BEFORE = frozenset({("EXTENSION", "vector"), ("COMMENT", "EXTENSION vector")})
"""Entries that need a superuser; `new_database` has created these objects."""
MADE_AFTER = ("convmemory_owner_of_key(", "convmemory_waiting_tasks(", "convmemory_knows_address(")
"""Functions that a dump contains and that are never restored: `core/postgres/row_security.py` creates them."""

CALLED = frozenset({
    "and", "or", "not", "any", "all", "in", "coalesce", "nextval", "array_to_tsvector", "binary_quantize", "halfvec",
    "vector", "bit", "varying", "numeric",
})  # fmt: skip
"""Words before a parenthesis in the expressions of this program's tables: functions, operators and types."""

_ENTRY = re.compile(r"(?<!\d)\d++; \d++ \d++ ([A-Z ]+) (?:public|every_group|group_[1-9][0-9]{0,3}|-) (.*)")
_SCHEMA_OF_GROUPS = re.compile(r"(?:every_group|group_[1-9][0-9]{0,3}) \S++")  # with its owner
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_BEFORE_PARENTHESIS = re.compile(r'(?<![\w".])([\w".]++)\s*+\(')


def entries_to_restore(listing: str) -> str:
    """Return the lines of `pg_restore --list` to restore. Raises: InvalidInput if one is of another kind."""
    kept = []
    for line in listing.splitlines():
        if not line.strip() or line.startswith(";"):
            continue
        found = _ENTRY.fullmatch(line)
        kind, name = (found[1], found[2].strip()) if found else ("", line)
        if kind in RESTORED or (kind == "SCHEMA" and _SCHEMA_OF_GROUPS.fullmatch(name)):
            kept.append(line)
        elif (kind, name) not in MADE_BEFORE and not (kind == "FUNCTION" and name.startswith(MADE_AFTER)):
            raise InvalidInput(_refusal(f"{kind} {name}".strip()))
    return "\n".join(kept) + "\n"


@contextmanager
def restoring_role(admin: psycopg.Connection) -> Iterator[str]:
    """Yield a role that can log in and nothing else; it must own nothing when the block ends."""
    role = sql.Identifier(ROLE)
    admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
    admin.execute(sql.SQL(load_sql("convmemory.ops.privacy", "create_restoring_role")).format(role))
    try:
        yield ROLE
    finally:
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))


def new_database(admin: psycopg.Connection, target: Mapping[str, Any], name: str, role: str) -> None:
    """Create an empty database owned by the role, with the extension that only a superuser can create."""
    create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(role))
    admin.execute(create)
    with psycopg.connect(**{**target, "dbname": name}, autocommit=True) as inside:
        inside.execute("CREATE EXTENSION vector SCHEMA public")


def take_over(target: Mapping[str, Any], role: str) -> None:
    """Make the program the owner of the restored database. Raises: InvalidInput if it contains executable objects."""
    with psycopg.connect(**target, options="-c search_path=pg_catalog,public") as inside:
        foreign = inside.execute(sql.SQL(load_sql("convmemory.ops.privacy", "foreign_objects"))).fetchall()
        expressions = inside.execute(sql.SQL(load_sql("convmemory.ops.privacy", "expressions"))).fetchall()
        for what in [*(f"{kind} {name}" for kind, name in foreign), *_unknown_calls(text for (text,) in expressions)]:
            raise InvalidInput(_refusal(what))
        inside.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(role)))
        inside.execute("ANALYZE")


def _unknown_calls(expressions: Iterator[str]) -> Iterator[str]:
    for text in expressions:
        for word in _BEFORE_PARENTHESIS.findall(_LITERAL.sub("''", text)):
            if word.lower() not in CALLED:
                yield f"call of {word}"


def _refusal(what: str) -> str:
    return (
        f"The backup holds something that convmemory never stores: {what}. It could run code, "
        "so nothing of it is restored. Nothing was changed."
    )
