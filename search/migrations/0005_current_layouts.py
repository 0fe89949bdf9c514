"""Sources that an upgrade to commit 5e9aed6e had not reached yet: they are embedded again, and found by words meanwhile."""

from django.db import migrations

TABLES = ("search_passage", "search_binarycodeblock", "search_itemembedding", "search_sourceindex")
OLD = "SELECT id FROM search_source WHERE layout < 4"
DROP = [
    f"DELETE FROM search_tokenvectors WHERE passage_id IN (SELECT id FROM search_passage WHERE source_id IN ({OLD}))",
    *(f"DELETE FROM {table} WHERE source_id IN ({OLD})" for table in TABLES),
    "UPDATE search_source SET layout = 4 WHERE layout < 4",
]


class Migration(migrations.Migration):
    dependencies = [("search", "0004_codes_of_passages")]

    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
