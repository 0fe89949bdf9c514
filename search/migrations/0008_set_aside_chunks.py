"""Vectors that are set aside number the chunk of the item."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0007_behind_since")]

    operations = [
        migrations.AddField(
            "setasidepassage",
            "chunk_number",
            models.PositiveIntegerField(db_default=0, default=0, help_text="Of the item; 0 for a passage."),
        ),
    ]
