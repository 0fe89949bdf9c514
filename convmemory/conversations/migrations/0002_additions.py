"""Who added what to a space, and the sums of what each person added to spaces."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_archives"), ("conversations", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="additions",
            field=models.JSONField(
                db_default={},
                default=dict,
                help_text="In a space, what persons added to it, by their numbers: [bytes, turns].",
            ),
        ),
        migrations.AddField(
            model_name="keptupload",
            name="added_by",
            field=models.IntegerField(help_text="The person who added it to a space.", null=True),
        ),
        migrations.AddField(
            model_name="storeduse",
            name="added_bytes",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="bytes added to spaces"),
        ),
        migrations.AddField(
            model_name="storeduse",
            name="added_turns",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="turns added to spaces"),
        ),
        migrations.AddField(
            model_name="storeduse",
            name="added_documents",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="documents added to spaces"),
        ),
    ]
