"""The first item of each source whose postings a worker has not packed yet.

Sources whose postings an earlier version had not packed have all of them packed again.
"""

from django.db import migrations, models
from django.db.models import Q

PACK_AGAIN = """
DELETE FROM search_postingblock WHERE source_id IN (SELECT id FROM search_source WHERE layout < 1);
UPDATE search_source SET unpacked_from = 0 WHERE layout < 1
"""


class Migration(migrations.Migration):
    dependencies = [("search", "0003_without_echoes")]

    operations = [
        migrations.AddField(
            "source",
            "unpacked_from",
            models.PositiveIntegerField(
                help_text="The first item whose postings a worker has not packed yet; null if it has packed all.",
                null=True,
            ),
        ),
        migrations.RunSQL(PACK_AGAIN, migrations.RunSQL.noop),
        migrations.RemoveIndex("source", "source_old_layout"),
        migrations.AddIndex(
            "source",
            models.Index(condition=Q(unpacked_from__isnull=False), fields=["owner"], name="source_unpacked"),
        ),
    ]
