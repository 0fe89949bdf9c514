"""From commit 7f45b3b: each owner gets cached vectors of their own, and vectors that no owner used are deleted."""

from importlib import import_module

from django.conf import settings
from django.db import migrations

from convmemory.core.upgrading import create_tables, know_models, upgrade

INITIAL = import_module("convmemory.embeddings.migrations.0001_initial").Migration
OWN_VECTORS = """
ALTER TABLE embeddings_cachedvector
    DROP CONSTRAINT embeddings_vector_unique,
    ADD COLUMN owner_id integer;
INSERT INTO embeddings_cachedvector (owner_id, space_id, content_hash, vector)
SELECT u.owner_id, v.space_id, v.content_hash, v.vector
FROM embeddings_cachedvectoruse AS u INNER JOIN embeddings_cachedvector AS v ON v.id = u.vector_id;
DROP TABLE embeddings_cachedvectoruse;
DELETE FROM embeddings_cachedvector WHERE owner_id IS NULL;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE embeddings_cachedvector
    ALTER COLUMN owner_id SET NOT NULL,
    ADD CONSTRAINT embeddings_vector_owned UNIQUE (owner_id, space_id, content_hash),
    ADD CONSTRAINT embeddings_cachedvector_owner_id_6ed97e20_fk_auth_user_id
        FOREIGN KEY (owner_id) REFERENCES auth_user (id) DEFERRABLE INITIALLY DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = upgrade(
        INITIAL,
        last="0003_vector_uses",
        operations=[
            migrations.RunSQL(OWN_VECTORS),
            know_models(INITIAL, "EmbeddingSpace", "CachedVector"),
            *create_tables(INITIAL, "EmbeddingBatch"),
        ],
    )
