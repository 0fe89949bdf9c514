"""The passages of some items of a source stand in one row, with the codes that were in two tables before."""

import django.db.models.deletion
from django.db import migrations, models

# Entries compress well; the others do not, and tokens are read in slices.
STORE = """
ALTER TABLE search_passageblock
    ALTER COLUMN digests SET STORAGE EXTERNAL, ALTER COLUMN codes SET STORAGE EXTERNAL,
    ALTER COLUMN fine SET STORAGE EXTERNAL, ALTER COLUMN tokens SET STORAGE EXTERNAL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "__first__"),
        ("embeddings", "__first__"),
        ("search", "0010_leaner_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            "PassageBlock",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("is_kept", models.BooleanField(default=False)),
                ("last_item", models.PositiveIntegerField(help_text="The last item of which it contains anything.")),
                ("passages", models.PositiveIntegerField()),
                ("entries", models.BinaryField()),
                ("digests", models.BinaryField()),
                ("codes", models.BinaryField()),
                ("fine", models.BinaryField()),
                ("tokens", models.BinaryField()),
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
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="passage_blocks",
                        to="search.source",
                    ),
                ),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="embeddings.embeddingspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["archive", "space", "is_kept"], include=["id"], name="passage_block_owner"),
                    models.Index(fields=["source"], name="passage_block_source"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "space", "number", "archive"),
                        condition=models.Q(is_kept=False),
                        name="passage_block_unique",
                    )
                ],
            },
        ),
        migrations.RunSQL(STORE, migrations.RunSQL.noop),
    ]
