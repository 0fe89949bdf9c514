"""Passages of owners of any size are compared by their binary codes: no vector index is needed."""

from django.db import migrations

DROP = r"""
DO $body$
DECLARE
    vector_index text;
BEGIN
    FOR vector_index IN
        SELECT format('%I.%I', schemaname, indexname)
        FROM pg_indexes
        WHERE tablename = 'search_passage' AND schemaname = ANY(current_schemas(false)) AND indexname ~ '^passage_codes_\d+$'
    LOOP
        EXECUTE 'DROP INDEX ' || vector_index;
    END LOOP;
END
$body$
"""


class Migration(migrations.Migration):
    dependencies = [("search", "0002_folded_words")]

    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
