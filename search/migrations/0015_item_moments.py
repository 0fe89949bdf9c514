"""From commit 7f45b3b: indexes that go by owner, built on the tables of before without blocking writers.

A run that was killed leaves an invalid index behind, which the next one drops first.
"""

from django.db import migrations

BUILD = [
    "DROP INDEX CONCURRENTLY IF EXISTS passage_content_owner",
    "CREATE INDEX CONCURRENTLY passage_content_owner ON memory_passage (content_hash, owner_id)",
    "DROP INDEX CONCURRENTLY IF EXISTS passage_content",
    "DROP INDEX CONCURRENTLY IF EXISTS item_moments",
    "CREATE INDEX CONCURRENTLY item_moments "
    "ON search_turndocument (owner_id, conversation_id, turn_number) INCLUDE (created_at)",
]


class Migration(migrations.Migration):
    atomic = False
    dependencies = []
    operations = [migrations.RunSQL(BUILD)]
