"""An index over the content hashes of turn vectors, by which the admin finds them; built beside running writes."""

from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("conversations", "0001_conversations"),
        ("embeddings", "0001_embedding_spaces"),
        ("search", "0001_turn_index"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="turnembedding",
            index=models.Index(fields=["content_hash"], name="turn_embedding_content"),
        ),
    ]
