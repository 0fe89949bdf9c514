"""Events are found by the words of their fields; those that are stored get theirs from the JSON as it stands."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations

from convmemory.core.fields import OwnedWords

WORDS = """
UPDATE conversations_event AS e
SET words = array_to_tsvector(coalesce(
    (
        SELECT array_agg(DISTINCT left(word, 64))
        FROM regexp_split_to_table(
            lower(concat_ws(' ', e.type, e.level, e.tool, regexp_replace(e.payload::text, E'\\\\[bfnrt]', ' ', 'g'))),
            '[^[:alnum:]]+'
        ) AS word
        WHERE word <> ''
    ),
    ARRAY[]::text[]
))
WHERE words IS NULL
"""


class Migration(migrations.Migration):
    dependencies = [("conversations", "0005_imported_conversations")]

    operations = [
        migrations.AddField(
            "event",
            "words",
            django.contrib.postgres.search.SearchVectorField(
                help_text="Of all its fields: see event_words.py.", null=True
            ),
        ),
        migrations.RunSQL(WORDS, migrations.RunSQL.noop),
        migrations.AddIndex(
            "event",
            django.contrib.postgres.indexes.GinIndex(
                OwnedWords("words"), fastupdate=False, name="event_owned_words"
            ),
        ),
    ]
