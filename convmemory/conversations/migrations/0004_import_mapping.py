"""The mapping by which an import reads files of unknown formats, and imports that only show what it finds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0003_title_version")]

    operations = [
        migrations.AddField(
            "import",
            "mapping",
            models.JSONField(blank=True, help_text="How files of unknown formats are read.", null=True),
        ),
        migrations.AddField(
            "import", "is_preview", models.BooleanField(default=False, help_text="Nothing is stored.")
        ),
    ]
