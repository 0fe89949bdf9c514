from django.db import migrations

# Archives from before the records: what has passages is embedded.
BACKFILL = """
INSERT INTO memory_messageembedding
    (owner_id, conversation_id, space_id, message_id, status, error, attempts, token_count, role, "position",
     content_hash, created_at, updated_at)
SELECT
    p.owner_id, p.conversation_id, p.space_id, m.id, 'completed', '', 0, sum(p.token_count), m.role, m."position",
    m.content_hash, now(), now()
FROM memory_passage AS p
INNER JOIN conversations_message AS m ON m.id = p.message_id
WHERE m.is_real_user OR m.role = 'assistant'
GROUP BY p.owner_id, p.conversation_id, p.space_id, m.id
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):

    dependencies = [
        ("memory", "0002_message_embeddings"),
        ("conversations", "0001_conversations"),
    ]

    operations = [migrations.RunSQL(BACKFILL, migrations.RunSQL.noop)]
