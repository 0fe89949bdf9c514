"""The vectors of passages of objects in the trash."""

import django.db.models.deletion
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('embeddings', '0006_token_models'),
        ('search', '0004_unpacked_from'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SetAsidePassage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('object_id', models.BigIntegerField()),
                ('content_hash', models.UUIDField()),
                ('token_count', models.PositiveSmallIntegerField()),
                ('embedding', pgvector.django.halfvec.HalfVectorField()),
                ('vectors', models.BinaryField(help_text='Its token vectors.', null=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'kind', 'object_id'], name='set_aside_object'), models.Index(fields=['content_hash', 'owner'], name='set_aside_content')],
            },
        ),
    ]
