"""The bytes that each person and each conversation has stored; those of existing ones are counted by a sweep."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

STORED_BYTES = {"null": True, "help_text": "Null: not counted yet."}


class Migration(migrations.Migration):
    replaces = [("conversations", "0011_stored_bytes")]
    dependencies = [
        ("conversations", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("stored_bytes", models.BigIntegerField(default=0)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "use of storage",
                "verbose_name_plural": "uses of storage",
                "constraints": [models.UniqueConstraint(fields=("owner",), name="stored_use_once_an_owner")],
            },
        ),
        # First without a default: the rows that exist are not counted yet.
        migrations.AddField("conversation", "stored_bytes", models.BigIntegerField(**STORED_BYTES)),
        migrations.AlterField("conversation", "stored_bytes", models.BigIntegerField(default=0, **STORED_BYTES)),
        migrations.AddIndex(
            "conversation",
            models.Index(
                fields=["id"], condition=models.Q(stored_bytes__isnull=True), name="conversation_uncounted"
            ),
        ),
    ]
