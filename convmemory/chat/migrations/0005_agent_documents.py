"""From commit 7f45b3b: agents that are switched off, agents' documents, running replies unique by owner."""

from importlib import import_module

from django.db import migrations

from convmemory.core.upgrading import create_tables, know_models, upgrade

INITIAL = import_module("convmemory.chat.migrations.0001_initial").Migration
CHANGE = """
ALTER TABLE chat_agent ADD COLUMN switched_off_at timestamp with time zone;
DROP INDEX reply_running_once;
CREATE UNIQUE INDEX reply_running_once ON chat_reply (owner_id, conversation_id) WHERE status = 'running';
"""


class Migration(migrations.Migration):
    dependencies = INITIAL.dependencies
    operations = upgrade(
        INITIAL,
        last="0002_interrupted_for_any_reason",
        operations=[
            migrations.RunSQL(CHANGE),
            know_models(INITIAL, "Agent", "CapturedHistory", "Reply"),
            *create_tables(INITIAL, "AgentDocument"),
        ],
    )
