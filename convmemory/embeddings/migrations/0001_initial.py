"""The extension `vector`, which all tables of vectors need, embedding spaces, cached vectors and batches."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    replaces = [
        ("embeddings", "0001_embedding_spaces"),
        ("embeddings", "0002_spaces_beside_the_active_one"),
        ("embeddings", "0003_vector_uses"),
        ("embeddings", "0004_vectors_of_owners"),
        ("embeddings", "0005_batches"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name='EmbeddingSpace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('provider', models.CharField(max_length=32)),
                ('model', models.CharField(max_length=200)),
                ('dimensions', models.PositiveIntegerField()),
                ('recipe_version', models.PositiveIntegerField()),
                ('is_active', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('is_building', models.BooleanField(default=False)),
                ('location', models.CharField(blank=True, default='', help_text="Folder of a local model, or an endpoint's base URL.", max_length=500)),
                ('retired_at', models.DateTimeField(blank=True, help_text='When another space took over.', null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('provider', 'model', 'dimensions', 'recipe_version'), name='embeddings_space_unique'), models.UniqueConstraint(condition=models.Q(('is_active', True)), fields=('is_active',), name='embeddings_space_active'), models.UniqueConstraint(condition=models.Q(('is_building', True)), fields=('is_building',), name='embeddings_space_building'), models.CheckConstraint(condition=models.Q(('is_active', False), ('is_building', False), _connector='OR'), name='embeddings_space_active_or_building')],
            },
        ),
        migrations.CreateModel(
            name='CachedVector',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_hash', models.BinaryField(max_length=32)),
                ('vector', models.BinaryField()),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='embeddings.embeddingspace')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'space', 'content_hash'), name='embeddings_vector_owned')],
            },
        ),
        migrations.CreateModel(
            name='EmbeddingBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('remote_id', models.CharField(blank=True, default='', max_length=200)),
                ('requests', models.PositiveIntegerField()),
                ('vectors', models.PositiveIntegerField(default=0)),
                ('status', models.CharField(blank=True, default='', max_length=50)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='batches', to='embeddings.embeddingspace')),
            ],
            options={
                'verbose_name_plural': 'embedding batches',
            },
        ),
    ]
