"""Keys of waiting tasks have one index; the one for LIKE, which came with the field, goes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("core", "0001_initial")]

    operations = [
        migrations.AlterField(
            "ownertask", "key", models.CharField(help_text="The function with its arguments.", max_length=300)
        ),
        migrations.AddConstraint("ownertask", models.UniqueConstraint(fields=("key",), name="owner_task_key")),
    ]
