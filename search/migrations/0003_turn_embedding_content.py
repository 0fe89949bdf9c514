"""An index over the content hashes of turn vectors, by which the admin finds them; built beside running writes."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("search", "0002_space_progress"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="turnembedding",
            index=models.Index(fields=["content_hash"], name="turn_embedding_content"),
        ),
    ]
