"""Embedding spaces, the vector cache and batches."""

import django.db.models.deletion
from django.db import migrations, models
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("embeddings", "0001_embedding_spaces"),
        ("embeddings", "0002_spaces_beside_the_active_one"),
        ("embeddings", "0003_vector_uses"),
        ("embeddings", "0004_vectors_of_owners"),
        ("embeddings", "0005_batches"),
        ("embeddings", "0006_token_models"),
        ("embeddings", "0007_vectors_of_items"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
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
                ('location', models.CharField(blank=True, default='', help_text="Folder of a local model, or an endpoint's base URL.", max_length=500)),
                ('token_model', models.CharField(blank=True, default='', max_length=200)),
                ('token_dimensions', models.PositiveIntegerField(default=0)),
                ('token_location', models.CharField(blank=True, default='', help_text='Folder of the token model.', max_length=500)),
                ('token_mean', models.BinaryField(default=b'')),
                ('is_centred', models.BooleanField(default=False)),
                ('is_active', models.BooleanField(default=False)),
                ('is_building', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('retired_at', models.DateTimeField(blank=True, help_text='When another space took over.', null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('provider', 'model', 'dimensions', 'recipe_version', 'token_model', 'token_dimensions', 'is_centred'), name='embeddings_space_with_tokens_unique'), models.UniqueConstraint(condition=models.Q(('is_active', True)), fields=('is_active',), name='embeddings_space_active'), models.UniqueConstraint(condition=models.Q(('is_building', True)), fields=('is_building',), name='embeddings_space_building'), models.CheckConstraint(condition=models.Q(('is_active', False), ('is_building', False), _connector='OR'), name='embeddings_space_active_or_building')],
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
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='batches', to='embeddings.embeddingspace')),
            ],
            options={
                'verbose_name_plural': 'embedding batches',
            },
        ),
        migrations.CreateModel(
            name='CachedVector',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content_hash', models.BinaryField(max_length=32)),
                ('vector', models.BinaryField()),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='embeddings.embeddingspace')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('archive', 'space', 'content_hash'), name='embeddings_vector_owned')],
            },
        ),
    ]
