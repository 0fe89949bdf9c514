"""Passages, their token vectors and their signs belong to the index: other models, the same tables."""

import django.db.models.deletion
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0003_owner_of_messages'),
        ('embeddings', '0003_vector_uses'),
        ('search', '0005_owned_words'),
        ('memory', '0011_owner_of_token_vectors'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Passage',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('content_hash', models.UUIDField()),
                        ('turn_number', models.PositiveIntegerField()),
                        ('start', models.PositiveIntegerField()),
                        ('end', models.PositiveIntegerField()),
                        ('part_index', models.PositiveSmallIntegerField()),
                        ('kind', models.PositiveSmallIntegerField(choices=[(0, 'User'), (1, 'Assistant'), (2, 'Thinking'), (3, 'Tool'), (4, 'Tool call')])),
                        ('token_count', models.PositiveSmallIntegerField()),
                        ('embedding', pgvector.django.halfvec.HalfVectorField()),
                        ('conversation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='conversations.conversation')),
                        ('message', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='conversations.message')),
                        ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
                    ],
                    options={
                        'db_table': 'memory_passage',
                    },
                ),
                migrations.CreateModel(
                    name='SignBlock',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('number', models.PositiveIntegerField()),
                        ('places', models.BinaryField()),
                        ('signs', models.BinaryField()),
                        ('conversation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                        ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
                    ],
                    options={
                        'db_table': 'memory_signblock',
                    },
                ),
                migrations.CreateModel(
                    name='PassageTokens',
                    fields=[
                        ('passage', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='tokens', serialize=False, to='search.passage')),
                        ('vectors', models.BinaryField(help_text='one bit a dimension, token after token')),
                        ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'db_table': 'memory_passagetokens',
                    },
                ),
                migrations.AddIndex(
                    model_name='passage',
                    index=models.Index(fields=['owner', 'space', 'kind'], name='passage_owner'),
                ),
                migrations.AddIndex(
                    model_name='passage',
                    index=models.Index(fields=['conversation', 'turn_number'], name='passage_turn'),
                ),
                migrations.AddIndex(
                    model_name='passage',
                    index=models.Index(fields=['message'], name='passage_message'),
                ),
                migrations.AddIndex(
                    model_name='passage',
                    index=models.Index(fields=['content_hash', 'owner'], name='passage_content_owner'),
                ),
                migrations.AddIndex(
                    model_name='signblock',
                    index=models.Index(fields=['owner', 'space'], include=('id',), name='sign_block_owner'),
                ),
                migrations.AddConstraint(
                    model_name='signblock',
                    constraint=models.UniqueConstraint(fields=('conversation', 'space', 'number'), name='sign_block_unique'),
                ),
            ],
        ),
    ]
