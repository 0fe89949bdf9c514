"""A space names its token model apart from its sentence model; the spaces of local models keep their own tokens."""

from django.db import migrations, models

OWN_TOKENS = """
UPDATE embeddings_embeddingspace
SET token_model = model, token_dimensions = dimensions, token_location = location
WHERE provider = 'local' AND token_model = '' AND token_dimensions = 0
"""


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0001_initial")]

    operations = [
        migrations.AddField("embeddingspace", "token_model", models.CharField(blank=True, default="", max_length=200)),
        migrations.AddField("embeddingspace", "token_dimensions", models.PositiveIntegerField(default=0)),
        migrations.AddField(
            "embeddingspace",
            "token_location",
            models.CharField(blank=True, default="", help_text="Folder of the token model.", max_length=500),
        ),
        migrations.AddField("embeddingspace", "token_mean", models.BinaryField(default=b"")),
        migrations.AddField("embeddingspace", "is_centred", models.BooleanField(default=False)),
        migrations.AddConstraint(
            "embeddingspace",
            models.UniqueConstraint(
                fields=[
                    "provider", "model", "dimensions", "recipe_version", "token_model", "token_dimensions", "is_centred",
                ],
                name="embeddings_space_with_tokens_unique",
            ),
        ),
        migrations.RemoveConstraint("embeddingspace", "embeddings_space_unique"),
        migrations.RunSQL(OWN_TOKENS, migrations.RunSQL.noop),
    ]
