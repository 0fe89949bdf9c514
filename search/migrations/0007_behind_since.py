"""Since when a source waits to be indexed; unknown for those that wait already."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0006_equal_items")]

    operations = [
        migrations.AddField(
            "source",
            "behind_since",
            models.DateTimeField(
                help_text="When the first change was stored that is not indexed yet; null if all are.", null=True
            ),
        ),
    ]
