"""Vectors of items are derived from those of their passages, so that only these are set aside."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0009_words_missing_from")]

    operations = [
        migrations.RemoveField("setasidepassage", "chunk_number"),
        migrations.AlterField(
            "source",
            "layout",
            models.PositiveSmallIntegerField(
                db_default=4,
                default=4,
                help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.",
            ),
        ),
    ]
