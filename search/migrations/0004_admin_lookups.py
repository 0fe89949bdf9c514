"""Indexes for what the admin looks up, built beside running writes, and names of models as it writes them."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("search", "0003_signs_of_turns"),
    ]

    operations = [
        migrations.AlterModelOptions(name="conversationindex", options={"verbose_name": "index state"}),
        migrations.AlterModelOptions(name="spaceprogress", options={"verbose_name_plural": "space progress"}),
        AddIndexConcurrently(
            model_name="turnembedding",
            index=models.Index(fields=["content_hash"], name="turn_embedding_content"),
        ),
        AddIndexConcurrently(
            model_name="turnembedding",
            index=models.Index(fields=["owner", "id"], name="turn_embedding_newest"),
        ),
        AddIndexConcurrently(
            model_name="turndocument",
            index=models.Index(fields=["owner", "id"], name="turn_document_newest"),
        ),
        AddIndexConcurrently(
            model_name="turndocument",
            index=models.Index(
                condition=models.Q(("error", ""), _negated=True), fields=["id"], name="turn_document_failed"
            ),
        ),
    ]
