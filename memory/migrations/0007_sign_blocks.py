import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Signs hold no pattern that compression could use, and are read as a whole.
STORE_AS_THEY_ARE = "ALTER TABLE memory_signblock ALTER COLUMN signs SET STORAGE EXTERNAL"
PACK = """
INSERT INTO memory_signblock (owner_id, conversation_id, space_id, number, places, signs)
SELECT
    e.owner_id, e.conversation_id, e.space_id, e.turn_number / 64,
    string_agg(int8send(e.id) || int4send(e.turn_number) || int2send(e.kind), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(binary_quantize(e.embedding)) FROM 5), ''::bytea ORDER BY e.id)
FROM memory_passage AS e
INNER JOIN conversations_conversation AS c ON c.id = e.conversation_id AND c.owner_id = e.owner_id
GROUP BY e.owner_id, e.conversation_id, e.space_id, e.turn_number / 64
"""


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0001_conversations'),
        ('embeddings', '0003_vector_uses'),
        ('memory', '0006_signs_by_kind'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
                'indexes': [models.Index(fields=['owner', 'space'], include=('conversation', 'id'), name='sign_block_owner')],
                'constraints': [models.UniqueConstraint(fields=('conversation', 'space', 'number'), name='sign_block_unique')],
            },
        ),
        migrations.RunSQL([STORE_AS_THEY_ARE, PACK], migrations.RunSQL.noop),
    ]
