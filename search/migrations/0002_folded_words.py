"""Titles are folded, and lexical documents have the folded forms of words: the worker indexes existing ones again."""

import django.contrib.postgres.search
from django.db import migrations, models

from convmemory.core.sql import load_sql

DROP = "DROP FUNCTION convmemory_words(regconfig, text, text); DROP FUNCTION convmemory_folded(text);"
TITLE_WORDS = r"""to_tsvector(
    'convmemory',
    convmemory_folded(%(expressions)s) || ' '
    || regexp_replace(convmemory_folded(%(expressions)s), '(\w)[''.-](?=\w)', '\1', 'g')
)"""


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]

    operations = [
        migrations.RunSQL(load_sql("search", "make_word_functions"), DROP),
        migrations.RemoveField("source", "title_words"),
        migrations.AddField(
            "source",
            "title_words",
            models.GeneratedField(
                db_persist=True,
                expression=models.Func(
                    models.F("title"),
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                    template=TITLE_WORDS,
                ),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AlterField(
            "source",
            "layout",
            models.PositiveSmallIntegerField(
                db_default=5,
                default=5,
                help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.",
            ),
        ),
    ]
