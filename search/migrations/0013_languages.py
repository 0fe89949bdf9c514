"""A text search configuration for each language, and which languages a source's items are in.

Nothing is lost or blocked: items keep the words that they were indexed with until workers index those anew that are in
another language than English.
"""

from django.db import migrations, models

SCRIPTS = ["arabic", "armenian", "greek", "hindi", "russian", "tamil"]
"""Words in Latin letters among theirs are stemmed as English."""
LATIN = [
    "danish", "dutch", "finnish", "french", "german", "hungarian", "indonesian", "italian", "norwegian", "portuguese",
    "romanian", "spanish", "swedish", "turkish",
]  # fmt: skip
CREATE = """
CREATE TEXT SEARCH DICTIONARY convmemory_{language} (TEMPLATE = snowball, LANGUAGE = {language});
CREATE TEXT SEARCH CONFIGURATION convmemory_{language} (COPY = convmemory);
ALTER TEXT SEARCH CONFIGURATION convmemory_{language}
    ALTER MAPPING FOR {tokens} REPLACE convmemory_stem WITH convmemory_{language};
"""
DROP = """
DROP TEXT SEARCH CONFIGURATION convmemory_{language};
DROP TEXT SEARCH DICTIONARY convmemory_{language};
"""
ANY_LETTERS = "word, hword, hword_part"
LATIN_LETTERS = "asciiword, hword_asciipart, asciihword"


def configuration(language: str) -> migrations.RunSQL:
    tokens = ANY_LETTERS if language in SCRIPTS else f"{ANY_LETTERS}, {LATIN_LETTERS}"
    return migrations.RunSQL(CREATE.format(language=language, tokens=tokens), DROP.format(language=language))


class Migration(migrations.Migration):
    dependencies = [("search", "0012_past_searches")]

    operations = [
        *(configuration(language) for language in sorted([*SCRIPTS, *LATIN])),
        migrations.AlterField(
            "source",
            "layout",
            models.PositiveSmallIntegerField(
                db_default=2,
                default=2,
                help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.",
            ),
        ),
        migrations.AddField(
            "source",
            "languages",
            models.CharField(
                db_default="",
                default="",
                help_text="Those of its items beside English, as `search/languages.py` names them, with spaces between.",
                max_length=300,
            ),
        ),
        migrations.AddIndex(
            "source",
            models.Index(
                condition=models.Q(("languages", ""), _negated=True),
                fields=["owner"],
                include=("kind", "languages"),
                name="source_languages",
            ),
        ),
    ]
