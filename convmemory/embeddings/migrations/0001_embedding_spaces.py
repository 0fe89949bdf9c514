"""The extension `vector`, which every later table of vectors needs, embedding spaces and the vector cache."""

import django.db.models.deletion
from django.db import migrations, models
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name="EmbeddingSpace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider", models.CharField(max_length=32)),
                ("model", models.CharField(max_length=200)),
                ("dimensions", models.PositiveIntegerField()),
                ("recipe_version", models.PositiveIntegerField()),
                ("is_active", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("provider", "model", "dimensions", "recipe_version"), name="embeddings_space_unique"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_active", True)), fields=("is_active",), name="embeddings_space_active"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CachedVector",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("content_hash", models.BinaryField(max_length=32)),
                ("vector", models.BinaryField()),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="embeddings.embeddingspace"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("space", "content_hash"), name="embeddings_vector_unique")
                ],
            },
        ),
    ]
