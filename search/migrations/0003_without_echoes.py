"""Lets workers compare the items of all conversations again: calls and results of our own tools are no longer indexed.

Items without echoes are recognised by their content hash and stay as they are.
"""

from django.db import migrations

COMPARE_AGAIN = """
UPDATE search_sourceindex SET indexed_version = 0, dirty_from = 0
WHERE source_id IN (SELECT id FROM search_source WHERE kind = 'conversation')
"""


class Migration(migrations.Migration):
    dependencies = [("search", "0002_title_words")]
    operations = [migrations.RunSQL(COMPARE_AGAIN, migrations.RunSQL.noop)]
