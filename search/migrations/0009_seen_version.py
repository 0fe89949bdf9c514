"""The version of a source whose changes a space's index has recorded is named for what it is: the one it has seen."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("search", "0008_passages_alone")]

    operations = [migrations.RenameField("sourceindex", "noted_version", "seen_version")]
