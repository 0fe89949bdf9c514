"""What was read of a document: parts by kind, with the number read and the number in the file."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0002_added_by")]

    operations = [
        migrations.AddField(
            model_name="document",
            name="coverage",
            field=models.JSONField(
                blank=True,
                db_default=[],
                default=list,
                help_text="Parts by kind: how many were read, of how many.",
            ),
        ),
    ]
