"""Token vectors stand in their rows as far as a page has room: late interaction reads hundreds of them at a time."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("search", "0016_token_vectors_of_words")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE search_tokenvectors ALTER COLUMN vectors SET STORAGE MAIN",
            "ALTER TABLE search_tokenvectors ALTER COLUMN vectors SET STORAGE EXTENDED",
        ),
    ]
