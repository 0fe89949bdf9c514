"""The session in which an imported one goes on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0004_import_mapping")]

    operations = [
        migrations.AddField(
            "conversation",
            "continued_in",
            models.CharField(
                blank=True, default="", help_text="The source id of the session in which it goes on.", max_length=300
            ),
        ),
    ]
