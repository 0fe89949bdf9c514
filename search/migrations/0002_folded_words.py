"""Titles are folded, and lexical documents have the folded forms of words: the worker indexes existing ones again."""

import django.contrib.postgres.search
from django.db import migrations, models

# As `convmemory.core.folding.folded` folds a text; a test compares them.
FOLDED = r"""
CREATE OR REPLACE FUNCTION convmemory_folded(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN octet_length($1) = char_length($1) THEN lower($1) ELSE (
    SELECT CASE WHEN octet_length(plain) = char_length(plain) THEN plain ELSE
        CASE WHEN plain !~ E'[\u00df-\u0153\u0167\u0259\u0491\u0629-\u06ff\u02bb-\u03c2\u0966-\u09ef\u2010\u2019]' THEN normalize(plain, NFC) ELSE
        translate(
            replace(replace(replace(replace(
                normalize(plain, NFC), E'\u00df', 'ss'), E'\u00e6', 'ae'), E'\u0153', 'oe'), E'\u00fe', 'th'
            ),
            E'\u00f8\u0142\u0111\u00f0\u0131\u0127\u0167\u014b\u0259\u0491\u0649\u06cc\u06a9\u0629\u0671\u03c2\u2010\u2019\u02bc'
            '\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9'
            '\u0966\u0967\u0968\u0969\u096a\u096b\u096c\u096d\u096e\u096f\u09e6\u09e7\u09e8\u09e9\u09ea\u09eb\u09ec\u09ed\u09ee\u09ef\u02bb',
            E'olddihtne\u0433\u064a\u064a\u0643\u0647\u0627\u03c3-''''0123456789012345678901234567890123456789'
        )
        END
    END
    FROM (
        SELECT lower(regexp_replace(
            normalize($1, NFKD),
            E'[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164'
            '\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff'
            '\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0655\u0670'
            '\u0300-\u0305\u0307-\u036f\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc]+|(?<![\u0438\u0418])\u0306',
            '', 'g'
        )) AS plain
    ) AS decomposed
) END
"""
# The words of a text, and at the same positions the folded ones of the same text with folded forms in it.
WORDS = r"""
CREATE OR REPLACE FUNCTION convmemory_words(regconfig, text, text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT concat_ws(
        ' ',
        to_tsvector($1, $2),
        string_agg(quote_literal(lexeme) || ':' || array_to_string(positions, ','), ' ')
    )::tsvector
    FROM unnest(to_tsvector($1, $3))
    WHERE lexeme ^@ E'\u01bf'
)
"""
DROP = "DROP FUNCTION convmemory_words(regconfig, text, text); DROP FUNCTION convmemory_folded(text);"
TITLE_WORDS = r"""to_tsvector(
    'convmemory',
    convmemory_folded(%(expressions)s) || ' '
    || regexp_replace(convmemory_folded(%(expressions)s), '(\w)[''.-](?=\w)', '\1', 'g')
)"""


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]

    operations = [
        migrations.RunSQL(FOLDED + ";" + WORDS, DROP),
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
