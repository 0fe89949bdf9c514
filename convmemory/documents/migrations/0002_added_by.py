"""Who added a document to a space."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_archives"), ("documents", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="document",
            name="added_by",
            field=models.IntegerField(
                help_text="The person who added it to a space, or its last version.", null=True
            ),
        ),
    ]
