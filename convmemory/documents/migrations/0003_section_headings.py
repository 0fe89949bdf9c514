"""The headings inside a section that joins several small ones."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0002_stored_bytes")]

    operations = [
        migrations.AddField(
            "section",
            "headings",
            models.JSONField(
                blank=True,
                db_default=[],
                default=list,
                help_text="Of sections joined to it: where each begins, and its path.",
            ),
        ),
    ]
