"""Titles made of what sessions did. A worker makes those of conversations that are stored already."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0006_file_edits")]

    operations = [
        migrations.RemoveIndex(model_name="conversation", name="conversation_old_title"),
        migrations.RemoveIndex(model_name="conversation", name="conversation_old_outcomes"),
        migrations.AlterField(
            model_name="conversation",
            name="title_version",
            field=models.SmallIntegerField(
                default=1,
                help_text="0: chosen by the owner; 2: made of what the session did. Null: of an older version.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="conversation",
            name="outcome_version",
            field=models.SmallIntegerField(
                default=3,
                help_text="Null: an older version stored its turns, without outcomes; 1: without edits of files; "
                "2: without a title made of what the session did.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("outcome_version__isnull", True), ("outcome_version__lt", 3), _connector="OR"),
                fields=["id"],
                name="conversation_old_outcomes",
            ),
        ),
    ]
