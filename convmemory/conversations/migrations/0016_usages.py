"""What requests to models cost, and hours of the day. A worker reads the usages of stored messages, and counts anew."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("accounts", "0007_invitations_by_link"), ("conversations", "0015_times_to_come")]

    operations = [
        migrations.AddField(
            model_name="message",
            name="usage",
            field=models.JSONField(help_text="Of the request that it answers: see messages/usage.py.", null=True),
        ),
        migrations.AddField(
            model_name="figures",
            name="hours",
            field=models.JSONField(help_text="Null: to be counted again.", null=True),
        ),
        migrations.RemoveIndex(model_name="conversation", name="conversation_old_outcomes"),
        migrations.AlterField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                default=5,
                help_text="Null: an older version stored its turns, without outcomes; 1: without edits of files; 2: "
                "without a title made of what the session did; 3: with conclusions from the last text alone; 4: "
                "without usages.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=Q(("outcome_version__isnull", True), ("outcome_version__lt", 5), _connector="OR"),
                fields=["id"],
                name="conversation_old_outcomes",
            ),
        ),
    ]
