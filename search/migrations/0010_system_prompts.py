"""Passages of system prompts, and every source read again: for what stands outside of turns and within long output.

Only the index's own notes change: the sweep compares each item with what is stored and computes what is new.
"""

from django.db import migrations, models

KINDS = [
    (0, "User"),
    (1, "Assistant"),
    (2, "Thinking"),
    (3, "Tool"),
    (4, "Tool call"),
    (5, "Document"),
    (6, "System prompt"),
    (7, "Outside of turns"),
]


class Migration(migrations.Migration):
    dependencies = [("search", "0009_owners_in_unique_constraints")]

    operations = [
        migrations.AlterField("passage", "kind", models.PositiveSmallIntegerField(choices=KINDS)),
        migrations.RunSQL(
            "UPDATE search_sourceindex SET indexed_version = 0, dirty_from = 0", migrations.RunSQL.noop
        ),
    ]
