"""From commit 7f45b3b: messages by owner, superseded messages, words of events, and the tables made since.

Keys that are unique and indexes begin with the owner. Words of events that are stored come from their JSON as it is.
"""

from importlib import import_module

from django.db import migrations

from convmemory.core.upgrading import create_tables, upgrade

INITIAL = import_module("convmemory.conversations.migrations.0001_initial").Migration
OWN_MESSAGES = """
ALTER TABLE conversations_message ADD COLUMN owner_id integer;
UPDATE conversations_message AS m
SET owner_id = c.owner_id
FROM conversations_conversation AS c
WHERE c.id = m.conversation_id;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE conversations_message
    ALTER COLUMN owner_id SET NOT NULL,
    ADD COLUMN superseded boolean DEFAULT false NOT NULL,
    DROP CONSTRAINT message_position_unique,
    ADD CONSTRAINT message_position_unique
        UNIQUE (owner_id, conversation_id, position) DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT conversations_message_owner_id_839de730_fk_auth_user_id
        FOREIGN KEY (owner_id) REFERENCES auth_user (id) DEFERRABLE INITIALLY DEFERRED;
DROP INDEX message_turn;
CREATE INDEX message_turn ON conversations_message (owner_id, conversation_id, turn_number);
DROP INDEX message_source_key_unique;
CREATE UNIQUE INDEX message_source_key_unique ON conversations_message (owner_id, conversation_id, source_key)
WHERE NOT (source_key = '');
"""
OWN_SOURCES = """
ALTER TABLE conversations_messagesource ADD COLUMN owner_id integer;
UPDATE conversations_messagesource AS s
SET owner_id = m.owner_id
FROM conversations_message AS m
WHERE m.id = s.message_id;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE conversations_messagesource
    ALTER COLUMN owner_id SET NOT NULL,
    ADD CONSTRAINT conversations_messagesource_owner_id_fbd3c662_fk_auth_user_id
        FOREIGN KEY (owner_id) REFERENCES auth_user (id) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX conversations_messagesource_owner_id_fbd3c662 ON conversations_messagesource (owner_id);
"""
FIND_EVENTS = """
ALTER TABLE conversations_event
    ADD COLUMN words tsvector,
    DROP CONSTRAINT event_line_unique,
    ADD CONSTRAINT event_line_unique UNIQUE (owner_id, conversation_id, line_number);
UPDATE conversations_event AS e
SET words = array_to_tsvector(coalesce(
    (
        SELECT array_agg(DISTINCT left(word, 64))
        FROM regexp_split_to_table(
            lower(concat_ws(' ', e.type, e.level, e.tool, regexp_replace(e.payload::text, E'\\\\[bfnrt]', ' ', 'g'))),
            '[^[:alnum:]]+'
        ) AS word
        WHERE word <> ''
    ),
    ARRAY[]::text[]
));
SET CONSTRAINTS ALL IMMEDIATE;
CREATE INDEX event_owned_words ON conversations_event
USING gin ((array_to_tsvector(ARRAY['owner ' || owner_id::text]) || words)) WITH (fastupdate = off);
"""
STAR_CONVERSATIONS = """
ALTER TABLE conversations_conversation
    ADD COLUMN pinned_at timestamp with time zone,
    ADD COLUMN starred_at timestamp with time zone;
CREATE INDEX conversation_star ON conversations_conversation (owner_id, starred_at DESC) WHERE starred_at IS NOT NULL;
CREATE INDEX conversation_pin ON conversations_conversation (owner_id, pinned_at DESC) WHERE pinned_at IS NOT NULL;
"""
NEW = (
    "KeptUpload", "KeptConversation", "Import", "ImportedConversation", "HiddenKey", "SyncedFile", "Figures", "Tag",
)  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("conversations", "0001_conversations")]
    operations = upgrade(
        INITIAL,
        last="0001_conversations",
        operations=[
            *(migrations.RunSQL(change) for change in (OWN_MESSAGES, OWN_SOURCES, FIND_EVENTS, STAR_CONVERSATIONS)),
            *create_tables(INITIAL, *NEW),
        ],
    )
