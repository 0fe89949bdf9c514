"""The bytes that each document has stored; those of existing ones are counted by a sweep."""

from django.db import migrations, models

STORED_BYTES = {"null": True, "help_text": "Of its file and its sections; null: not counted yet."}


class Migration(migrations.Migration):
    dependencies = [("documents", "0001_documents")]

    operations = [
        # First without a default: the rows that exist are not counted yet.
        migrations.AddField("document", "stored_bytes", models.BigIntegerField(**STORED_BYTES)),
        migrations.AlterField("document", "stored_bytes", models.BigIntegerField(default=0, **STORED_BYTES)),
    ]
