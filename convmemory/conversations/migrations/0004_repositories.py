"""The repository and the worktree of a conversation, and folders that their owner keeps apart."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_counted_audit_entries"), ("conversations", "0003_outcomes")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="repository",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Its normalised remote, or root:COMMIT.",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="conversation",
            name="worktree",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The worktree of `project` in which it ran.",
                max_length=300,
            ),
        ),
        migrations.CreateModel(
            name="SeparateFolder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("folder", models.CharField(max_length=300)),
                (
                    "each_worktree",
                    models.BooleanField(default=False, help_text="Not the folder, but each of its worktrees."),
                ),
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
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("archive", "folder", "each_worktree"), name="separate_folder_once")
                ],
            },
        ),
    ]
