from django.db import migrations

CONVERSATIONS_AT_ONCE = 200
# A migration that was cut off begins again: what is packed stays.
PACK = """
INSERT INTO memory_signblock (owner_id, conversation_id, space_id, number, places, signs)
SELECT
    e.owner_id, e.conversation_id, e.space_id, e.turn_number / 32,
    string_agg(int8send(e.id) || int4send(e.turn_number) || int2send(e.kind), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(binary_quantize(e.embedding)) FROM 5), ''::bytea ORDER BY e.id)
FROM memory_passage AS e
INNER JOIN conversations_conversation AS c ON c.id = e.conversation_id AND c.owner_id = e.owner_id
WHERE e.conversation_id = ANY(%s)
GROUP BY e.owner_id, e.conversation_id, e.space_id, e.turn_number / 32
ON CONFLICT DO NOTHING
"""


def pack(apps, schema_editor):
    Conversation = apps.get_model("conversations", "Conversation")
    last = 0
    while ids := list(
        Conversation.objects.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:CONVERSATIONS_AT_ONCE]
    ):
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(PACK, [ids])
        last = ids[-1]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("memory", "0007_sign_blocks"),
    ]

    operations = [
        migrations.RunPython(pack, migrations.RunPython.noop),
    ]
