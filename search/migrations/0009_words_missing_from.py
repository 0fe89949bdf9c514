"""The first item of each source whose words are not stored.

Earlier versions did not record it: sources that wait for a worker are compared by one once more.
"""

from django.db import migrations, models

WAITING = """
UPDATE search_source AS s
SET words_missing_from = 0
WHERE s.item_count > 0 AND (
    s.layout < 2
    OR NOT EXISTS (SELECT FROM search_sourceindex AS i WHERE i.source_id = s.id AND i.indexed_version = s.version)
)
"""


class Migration(migrations.Migration):
    dependencies = [("search", "0008_set_aside_chunks")]

    operations = [
        migrations.AddField(
            "source",
            "words_missing_from",
            models.PositiveIntegerField(
                help_text="The first item whose words are not stored, or not as they are now; null if all are.",
                null=True,
            ),
        ),
        migrations.RunSQL(WAITING, migrations.RunSQL.noop),
    ]
