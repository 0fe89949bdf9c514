"""The turns and documents of each owner, counted with the bytes."""

from django.db import migrations, models

# The trash counts. The table of documents is later in the order of apps: its migration counts them.
COUNT_TURNS = """
UPDATE conversations_storeduse AS u
SET turns = (SELECT coalesce(sum(c.turn_count), 0) FROM conversations_conversation AS c WHERE c.owner_id = u.owner_id)
"""


class Migration(migrations.Migration):
    dependencies = [("conversations", "0008_trash")]

    operations = [
        migrations.AddField("StoredUse", "turns", models.BigIntegerField(db_default=0, default=0)),
        migrations.AddField("StoredUse", "documents", models.BigIntegerField(db_default=0, default=0)),
        migrations.RunSQL(COUNT_TURNS, migrations.RunSQL.noop),
    ]
