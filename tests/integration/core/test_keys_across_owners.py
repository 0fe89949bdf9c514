"""Foreign keys between tables of owners: the database refuses a row that refers to another owner's row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from convmemory.conversations.models import Conversation, Tag
from convmemory.core.acting import acting_for, maintenance
from convmemory.core.postgres.row_security import apply_policies, compare_owners_in_keys, keys_across_owners
from convmemory.ops.doctor.database_area import check_policies
from tests.factories import exchange, make_conversation, make_user
from tests.support.own_logins import own_logins

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = """
SELECT c.conname, h.relname, t.relname, a.attname, b.attname
FROM pg_constraint AS c
INNER JOIN pg_class AS h ON h.oid = c.conrelid
INNER JOIN pg_class AS t ON t.oid = c.confrelid
INNER JOIN pg_attribute AS a ON a.attrelid = h.oid AND a.attnum = c.conkey[1]
INNER JOIN pg_attribute AS b ON b.attrelid = t.oid AND b.attnum = c.confkey[1]
WHERE
    c.contype = 'f'
    AND EXISTS (SELECT FROM pg_attribute AS o WHERE o.attrelid = h.oid AND o.attname = 'owner_id')
    AND EXISTS (SELECT FROM pg_attribute AS o WHERE o.attrelid = t.oid AND o.attname = 'owner_id')
ORDER BY h.relname, a.attname
"""
OPTIONAL = """
SELECT format('ALTER TABLE %%s ALTER COLUMN %%I DROP NOT NULL', a.attrelid::regclass, a.attname)
FROM pg_attribute AS a
WHERE
    a.attrelid = ANY(ARRAY[%s::regclass, %s::regclass]) AND a.attnotnull AND a.attidentity = '' AND a.attnum > 0
    AND NOT EXISTS (
        SELECT FROM pg_constraint AS c WHERE c.conrelid = a.attrelid AND c.contype = 'p' AND a.attnum = ANY(c.conkey)
    )
UNION ALL
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', c.conrelid::regclass, c.conname)
FROM pg_constraint AS c
WHERE c.conrelid = ANY(ARRAY[%s::regclass, %s::regclass]) AND c.contype = 'c'
"""
NOTES = """
CREATE TABLE notes (id bigint, owner_id int, conversation_id bigint REFERENCES conversations_conversation (id))
"""


def ask(statement: str, values: list[Any] | None = None) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_rows_that_refer_to_another_owner_are_refused_by_every_key() -> None:
    """Each key is tried with rows of its two columns alone: nothing else of the tables matters to it."""
    mine, others = make_user().pk, make_user().pk
    keys = ask(KEYS)
    assert len(keys) > 30
    admitted = []
    for name, holder, target, column, referred in keys:
        with rolled_back():
            for (statement,) in ask(OPTIONAL, [holder, target, holder, target]):
                ask(str(statement))
            ((number,),) = ask(f"INSERT INTO {target} (owner_id) VALUES ({others}) RETURNING {referred}")
            for owner_id in (others, mine):
                try:
                    with transaction.atomic():
                        ask(f"INSERT INTO {holder} (owner_id, {column}) VALUES ({owner_id}, {number})")
                        ask(f"SET CONSTRAINTS {name} IMMEDIATE")
                        if owner_id == mine:
                            admitted.append(name)
                        transaction.set_rollback(True)
                except IntegrityError:
                    assert owner_id == mine, f"{name} refuses rows of one owner"
    assert admitted == []


def test_application_cannot_tag_conversation_of_another() -> None:
    mine, others = make_user(), make_user()
    foreign = make_conversation(others, exchange(("what is it?", "a secret")))
    with own_logins():
        for number in (foreign.pk, foreign.pk + 1_000):  # whether there is such a conversation shows in no difference
            with acting_for(mine.pk), pytest.raises(IntegrityError, match="foreign key constraint"):
                Tag.objects.create(archive_id=mine.pk, conversation_id=number, name="seen")
        with maintenance(), pytest.raises(IntegrityError, match="foreign key constraint"):
            Tag.objects.create(archive_id=mine.pk, conversation_id=foreign.pk, name="seen")
    assert not Tag.objects.exists()


def test_new_key_is_found_and_made_to_compare_owners() -> None:
    ask(NOTES)
    try:
        assert list(keys_across_owners()) == ["public.notes.notes_conversation_id_fkey"]
        finding = next(each for each in check_policies() if each.id == "database.key-across-owners")
        assert finding.fix is not None
        assert "notes_conversation_id_fkey" in finding.message
        assert finding.fix() == "Every foreign key compares the owners."
        apply_policies()
        assert (keys_across_owners(), list(check_policies())) == ({}, [])
        # As after a run that was killed before it dropped the key before.
        ask("ALTER TABLE notes ADD FOREIGN KEY (conversation_id) REFERENCES conversations_conversation (id)")
        compare_owners_in_keys()
        names = ask("SELECT conname FROM pg_constraint WHERE conrelid = 'notes'::regclass")
        assert (keys_across_owners(), names) == ({}, [("notes_conversation_id_fkey_owner",)])
    finally:
        ask("DROP TABLE notes")


def test_row_of_before_that_refers_to_another_owner_is_reported_and_more_are_refused() -> None:
    mine, others = make_user(), make_user()
    foreign = make_conversation(others, exchange(("what is it?", "a secret")))
    ask(NOTES)
    try:
        added = f"INSERT INTO notes VALUES (1, {mine.pk}, {foreign.pk})"
        ask(added)
        compare_owners_in_keys()
        assert list(keys_across_owners()) == ["public.notes.notes_conversation_id_fkey_owner"]
        with pytest.raises(IntegrityError):
            ask(added)
        ask("DELETE FROM notes")
        compare_owners_in_keys()
        assert keys_across_owners() == {}
    finally:
        ask("DROP TABLE notes")
    assert Conversation.objects.get().pk == foreign.pk
