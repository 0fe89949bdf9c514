"""Who sent an import to a space, so that they are mailed when it has ended; unknown of earlier ones."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0011_counted_turns")]

    operations = [
        migrations.AddField(
            "import",
            "started_by",
            models.IntegerField(help_text="The member who sent it to a space; null: its owner.", null=True),
        ),
    ]
