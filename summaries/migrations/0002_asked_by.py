"""Who asked for a summary in a space."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_archives"), ("summaries", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="conversationsummary",
            name="asked_by",
            field=models.IntegerField(help_text="The member who asked for it in a space.", null=True),
        ),
    ]
