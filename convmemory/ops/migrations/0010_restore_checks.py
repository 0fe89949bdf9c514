"""When a backup was last restored on trial."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ops", "0009_known_models")]

    operations = [
        migrations.CreateModel(
            name="RestoreCheck",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("checked_at", models.DateTimeField()),
            ],
        ),
    ]
