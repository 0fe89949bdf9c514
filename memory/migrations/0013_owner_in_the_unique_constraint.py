"""From commit 7f45b3b: records of what is embedded are unique by owner; passages are tables of `search` from now on."""

from importlib import import_module

from django.db import migrations

from convmemory.core.upgrading import know_models, upgrade

INITIAL = import_module("memory.migrations.0001_initial").Migration
NAME_OWNER = """
ALTER TABLE memory_messageembedding
    DROP CONSTRAINT message_embedding_unique,
    ADD CONSTRAINT message_embedding_unique UNIQUE (message_id, space_id, owner_id);
"""


class Migration(migrations.Migration):
    dependencies = INITIAL.dependencies
    operations = upgrade(
        INITIAL,
        last="0009_signs_in_blocks_alone",
        operations=[migrations.RunSQL(NAME_OWNER), know_models(INITIAL, "MessageEmbedding")],
    )
