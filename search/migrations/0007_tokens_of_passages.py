"""Token vectors stand in the rows of their passages.

The vectors are moved some at a time, each batch in a transaction: a migration that was killed continues.
"""

from typing import Any

from django.db import migrations, models, transaction

AT_ONCE = 20_000
# Late interaction reads hundreds of token vectors at a time: they stay in their rows as far as a page has room.
ADD = """
ALTER TABLE search_passage ADD COLUMN IF NOT EXISTS tokens bytea;
ALTER TABLE search_passage ALTER COLUMN tokens SET STORAGE MAIN;
"""
LAST = "SELECT max(id) FROM (SELECT id FROM search_passage WHERE id > %s ORDER BY id LIMIT %s) AS next"
MOVE = """
UPDATE search_passage AS p SET tokens = t.vectors
FROM search_tokenvectors AS t
WHERE t.passage_id = p.id AND p.id > %s AND p.id <= %s AND p.tokens IS NULL
"""


def move_tokens(apps: Any, schema_editor: Any) -> None:
    """Copy the token vectors of all passages into the passages' rows."""
    first = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(LAST, [first, AT_ONCE])
            (last,) = cursor.fetchone()
            if last is None:
                return
            with transaction.atomic(using=schema_editor.connection.alias):
                cursor.execute(MOVE, [first, last])
            first = last


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("search", "0006_codes_of_items")]

    operations = [
        migrations.RunSQL(
            ADD,
            migrations.RunSQL.noop,
            state_operations=[
                migrations.AddField(
                    "passage", "tokens", models.BinaryField(help_text="The codes of its tokens' vectors.", null=True)
                )
            ],
        ),
        migrations.RunPython(move_tokens, migrations.RunPython.noop, elidable=False),
    ]
