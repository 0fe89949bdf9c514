"""Deletes the cached vectors of local models: the index has them, too. Those of endpoints stay, as they cost money."""

from django.db import migrations

DELETE = """
DELETE FROM embeddings_cachedvector
WHERE space_id IN (SELECT id FROM embeddings_embeddingspace WHERE provider = 'local')
"""


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0006_token_models")]
    operations = [migrations.RunSQL(DELETE, migrations.RunSQL.noop)]
