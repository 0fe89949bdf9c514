"""The HNSW indexes, one a space, are named by what they hold: binary codes. Nothing is built again."""

from django.db import migrations

RENAME = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT indexname FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename = 'search_passage' AND indexname ~ '^{old}_[0-9]+$'
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', name, replace(name, '{old}', '{new}'));
    END LOOP;
END
$$;
"""
FORWARD = RENAME.format(old="passage_signs", new="passage_codes")
BACK = RENAME.format(old="passage_codes", new="passage_signs")


class Migration(migrations.Migration):

    dependencies = [
        ('search', '0007_sources_and_items'),
    ]

    operations = [migrations.RunSQL(FORWARD, BACK)]
