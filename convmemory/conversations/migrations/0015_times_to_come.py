"""Conversations dated later than in two days lose that time: they were the newest of every list."""

from django.db import migrations

LATE = "now() + interval '2 days'"
DATED = """
    SELECT {end}(m.created_at) FROM conversations_message AS m
    WHERE m.owner_id = c.owner_id AND m.conversation_id = c.id
"""
UNDATE = [
    f"""
    UPDATE conversations_message AS m SET created_at = NULL
    FROM conversations_conversation AS c
    WHERE
        c.owner_id = m.owner_id AND c.id = m.conversation_id AND m.created_at > {LATE}
        AND (c.updated_at > {LATE} OR c.created_at > {LATE})
    """,
    f"""
    UPDATE conversations_conversation AS c
    SET
        created_at = CASE WHEN c.created_at > {LATE} THEN coalesce(({DATED.format(end="min")}), now()) ELSE c.created_at END,
        updated_at = coalesce(({DATED.format(end="max")}), least(c.created_at, now())),
        turns_version = c.turns_version + 1
    WHERE c.updated_at > {LATE} OR c.created_at > {LATE}
    """,
]


class Migration(migrations.Migration):
    dependencies = [("conversations", "0014_points_of_decisions")]

    operations = [migrations.RunSQL(UNDATE, migrations.RunSQL.noop)]
