"""How a title was chosen. Those of existing conversations are renewed by a sweep."""

from django.db import migrations, models

TITLE_VERSION = {"null": True, "help_text": "0: chosen by the owner. Null: of an older version."}


class Migration(migrations.Migration):
    dependencies = [("conversations", "0002_stored_bytes")]

    operations = [
        # First without a default: the titles that exist are of an older version.
        migrations.AddField("conversation", "title_version", models.SmallIntegerField(**TITLE_VERSION)),
        migrations.AlterField("conversation", "title_version", models.SmallIntegerField(default=1, **TITLE_VERSION)),
        migrations.AddIndex(
            "conversation",
            models.Index(
                fields=["id"], condition=models.Q(title_version__isnull=True), name="conversation_old_title"
            ),
        ),
    ]
