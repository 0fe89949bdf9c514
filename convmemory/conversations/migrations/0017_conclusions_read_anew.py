"""A worker reads the conclusions of stored turns anew: names in them lacked underscores."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("conversations", "0016_usages")]

    operations = [
        migrations.RemoveIndex(model_name="conversation", name="conversation_old_outcomes"),
        migrations.AlterField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                default=6,
                help_text="Null: an older version stored its turns, without outcomes; 1: without edits of files; 2: "
                "without a title made of what the session did; 3: with conclusions from the last text alone; 4: "
                "without usages; 5: with conclusions whose names lack underscores.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=Q(("outcome_version__isnull", True), ("outcome_version__lt", 6), _connector="OR"),
                fields=["id"],
                name="conversation_old_outcomes",
            ),
        ),
    ]
