"""Records of embedded messages."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("memory", "0001_passages"),
        ("memory", "0002_message_embeddings"),
        ("memory", "0003_records_of_what_is_embedded"),
        ("memory", "0004_passages_of_tool_calls"),
        ("memory", "0005_signs_of_passages"),
        ("memory", "0006_signs_by_kind"),
        ("memory", "0007_sign_blocks"),
        ("memory", "0008_pack_signs"),
        ("memory", "0009_signs_in_blocks_alone"),
        ("memory", "0010_passages_by_content_and_owner"),
        ("memory", "0011_owner_of_token_vectors"),
        ("memory", "0012_passages_to_the_index"),
        ("memory", "0013_owner_in_the_unique_constraint"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('conversations', '0001_initial'),
        ('embeddings', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='MessageEmbedding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('processing', 'Processing'), ('completed', 'Completed'), ('failed', 'Failed')], default='pending', max_length=10)),
                ('error', models.TextField(blank=True, default='')),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('token_count', models.PositiveIntegerField(default=0)),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant'), ('tool', 'Tool'), ('system', 'System')], max_length=10)),
                ('position', models.PositiveIntegerField()),
                ('content_hash', models.BinaryField(max_length=32)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='message_embeddings', to='conversations.conversation')),
                ('message', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='embeddings', to='conversations.message')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
            options={
                'indexes': [models.Index(fields=['conversation', 'space'], name='message_embedding_home'), models.Index(condition=models.Q(('status', 'completed'), _negated=True), fields=['status', 'updated_at'], name='message_embedding_open')],
                'constraints': [models.UniqueConstraint(fields=('message', 'space', 'archive'), name='message_embedding_unique'), models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'processing', 'completed', 'failed'])), name='message_embedding_status')],
            },
        ),
    ]
