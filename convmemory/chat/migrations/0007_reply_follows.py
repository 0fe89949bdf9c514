"""The message that a question follows, from which the versions of a question are known."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0006_recent_hashes")]

    operations = [
        migrations.AddField(
            "reply",
            "follows",
            models.BigIntegerField(
                null=True,
                blank=True,
                help_text="The id of the message before the question; 0: it begins the conversation. Null: not known yet.",
            ),
        ),
    ]
