"""The outcomes of turns, and which conversations of an older version lack them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0002_additions")]

    operations = [
        migrations.AddField(
            model_name="message",
            name="outcome",
            field=models.JSONField(help_text="Of the turn that it opens: see messages/outcomes.py.", null=True),
        ),
        # Rows that are there get null, so that a worker makes their outcomes.
        migrations.AddField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                help_text="Null: an older version stored its turns, without outcomes.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                default=1, help_text="Null: an older version stored its turns, without outcomes.", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("outcome_version__isnull", True)), fields=["id"], name="conversation_no_outcome"
            ),
        ),
    ]
