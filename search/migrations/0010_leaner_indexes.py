"""No index begins like another one of items, and of hashes, which only staff look up, the first bytes are indexed.

Writers wait for moments only; a run that was killed repeats.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Substr


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("search", "0009_seen_version")]

    operations = [
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS item_embedding_content", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "itemembedding", models.Index(Substr("content_hash", 1, 7), name="item_embedding_content")
        ),
        RemoveIndexConcurrently("itemembedding", "item_embedding_owner_content"),
        RemoveIndexConcurrently("item", "item_newest"),
    ]
