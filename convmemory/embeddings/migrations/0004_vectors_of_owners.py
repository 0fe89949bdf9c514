"""Each owner gets vectors of their own: those that they used are copied, those that nobody used go."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

COPY = """
INSERT INTO embeddings_cachedvector (owner_id, space_id, content_hash, vector)
SELECT u.owner_id, v.space_id, v.content_hash, v.vector
FROM embeddings_cachedvectoruse AS u INNER JOIN embeddings_cachedvector AS v ON v.id = u.vector_id
"""
DROP_USES = "DELETE FROM embeddings_cachedvectoruse"
DROP_SHARED = "DELETE FROM embeddings_cachedvector WHERE owner_id IS NULL"
CHECK_NOW = "SET CONSTRAINTS ALL IMMEDIATE"  # a table with pending checks cannot be altered
DROP_OWNED = "DELETE FROM embeddings_cachedvector"  # backwards: they are computed again


class Migration(migrations.Migration):
    dependencies = [
        ("embeddings", "0003_vector_uses"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint("cachedvector", "embeddings_vector_unique"),
        migrations.AddField(
            "cachedvector",
            "owner",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL([COPY, DROP_USES, DROP_SHARED, CHECK_NOW], [DROP_OWNED, CHECK_NOW]),
        migrations.DeleteModel("CachedVectorUse"),
        migrations.AlterField(
            "cachedvector",
            "owner",
            models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            "cachedvector",
            models.UniqueConstraint(fields=("owner", "space", "content_hash"), name="embeddings_vector_owned"),
        ),
    ]
