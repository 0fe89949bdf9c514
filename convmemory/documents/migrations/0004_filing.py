"""The folder and the tags that owners give their documents."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("documents", "0003_coverage")]

    operations = [
        migrations.AddField(
            model_name="document",
            name="folder",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="document",
            name="tags",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
    ]
