"""The edits of files in messages. A worker reads those of conversations that are stored already."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0004_repositories")]

    operations = [
        migrations.CreateModel(
            name="FileEdit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("part", models.PositiveIntegerField()),
                ("turn_number", models.PositiveIntegerField()),
                ("path", models.TextField()),
                ("name", models.TextField(help_text="The last part of the path.")),
                ("created_at", models.DateTimeField()),
                (
                    "archive",
                    models.ForeignKey(
                        db_column="owner_id",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.archive",
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="conversations.conversation"
                    ),
                ),
                (
                    "message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="conversations.message"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["archive", "name"], name="file_edit_name")]},
        ),
        migrations.RemoveIndex(model_name="conversation", name="conversation_no_outcome"),
        migrations.AlterField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                default=2,
                help_text="Null: an older version stored its turns, without outcomes; 1: without edits of files.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("outcome_version__isnull", True), ("outcome_version__lt", 2), _connector="OR"),
                fields=["id"],
                name="conversation_old_outcomes",
            ),
        ),
    ]
