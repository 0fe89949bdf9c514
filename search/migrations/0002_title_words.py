"""The words of titles, by which conversations and documents are found by name."""

from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models

WORDS_OF = "to_tsvector('convmemory', %(expressions)s)"


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]

    operations = [
        migrations.AddField(
            "source",
            "title_words",
            models.GeneratedField(
                db_persist=True,
                expression=models.Func(models.F("title"), output_field=SearchVectorField(), template=WORDS_OF),
                output_field=SearchVectorField(),
            ),
        ),
    ]
