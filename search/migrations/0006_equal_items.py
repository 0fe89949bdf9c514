"""The index by which an owner's equal items are found, built without blocking writers.

A run that was killed leaves an invalid index behind, which the next one drops first.
"""

from django.db import migrations, models

BUILD = [
    "DROP INDEX CONCURRENTLY IF EXISTS item_embedding_owner_content",
    "CREATE INDEX CONCURRENTLY item_embedding_owner_content ON search_itemembedding (owner_id, content_hash)",
    "DROP INDEX CONCURRENTLY IF EXISTS item_embedding_content",
]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("search", "0005_set_aside_passages")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(BUILD, migrations.RunSQL.noop)],
            state_operations=[
                migrations.RemoveIndex("itemembedding", "item_embedding_content"),
                migrations.AddIndex(
                    "itemembedding",
                    models.Index(fields=["owner", "content_hash"], name="item_embedding_owner_content"),
                ),
            ],
        )
    ]
