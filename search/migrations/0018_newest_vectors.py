"""From commit 7f45b3b: sources with items take the place of conversations with turns.

What is stored is renamed, not computed again. A conversation's source gets the conversation's number, so that the
columns that hold it need no new values. Workers read every source again afterwards: for postings, languages, token
vectors of words, and what is outside of turns. Searches are right meanwhile.
"""

from importlib import import_module

from django.conf import settings
from django.db import migrations

from convmemory.core.upgrading import create_tables, know_models, upgrade

initial = import_module("search.migrations.0001_initial")
INITIAL = initial.Migration
OWN_TOKENS = """
ALTER TABLE memory_passagetokens ADD COLUMN owner_id integer;
UPDATE memory_passagetokens AS t
SET owner_id = p.owner_id
FROM memory_passage AS p
WHERE p.id = t.passage_id;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE memory_passagetokens
    ALTER COLUMN owner_id SET NOT NULL,
    ADD CONSTRAINT memory_passagetokens_owner_id_6df4722b_fk_auth_user_id
        FOREIGN KEY (owner_id) REFERENCES auth_user (id) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX memory_passagetokens_owner_id_6df4722b ON memory_passagetokens (owner_id);
"""
# Layout 0: what is derived from the rows of items is made by workers.
FILL_SOURCES = """
INSERT INTO search_source
    (id, owner_id, kind, object_id, title, agent, project, origin, archived, created_at, updated_at, item_count,
     element_count, version, spoken_length, layout)
SELECT
    c.id, c.owner_id, 'conversation', c.id, c.title, c.agent, c.project, c.source, c.archived_at IS NOT NULL, c.created_at,
    c.updated_at, c.turn_count, c.message_count, c.turns_version, coalesce(i.spoken_length, 0), 0
FROM conversations_conversation AS c
LEFT JOIN search_conversationindex AS i ON i.conversation_id = c.id;
SELECT setval(pg_get_serial_sequence('search_source', 'id'), coalesce(max(id), 1), max(id) IS NOT NULL) FROM search_source;
"""
# `indexed_version` and `dirty_from` are 0: the sweep compares each item with what is stored and computes what is new.
FILL_STATES = """
INSERT INTO search_sourceindex
    (source_id, owner_id, space_id, indexed_version, noted_version, dirty_from, last_item, passages, refused, attempts,
     error, updated_at)
SELECT
    conversation_id, owner_id, space_id, 0, noted_version, 0, last_embedded_turn_number, passages,
    '{}', attempts, error, updated_at
FROM search_conversationindex
WHERE space_id IS NOT NULL
UNION ALL
SELECT conversation_id, owner_id, space_id, 0, 0, 0, turns - 1, passages, refused, 0, error, updated_at
FROM search_spaceprogress;
SET CONSTRAINTS ALL IMMEDIATE;
DROP TABLE search_conversationindex;
DROP TABLE search_spaceprogress;
"""
RENAME = """
DROP INDEX turn_document_owned_spoken;
DROP INDEX turn_document_owned_unspoken;
ALTER TABLE search_turndocument RENAME TO search_item;
ALTER INDEX search_turndocument_pkey RENAME TO search_item_pkey;
ALTER SEQUENCE search_turndocument_id_seq RENAME TO search_item_id_seq;
ALTER TABLE search_item RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_item RENAME COLUMN turn_number TO number;
ALTER TABLE search_item RENAME COLUMN message_id TO opening_id;
ALTER TABLE search_item RENAME COLUMN question TO heading;
ALTER TABLE search_item ALTER COLUMN opening_id DROP NOT NULL;
ALTER TABLE search_item DROP CONSTRAINT turn_document_unique;
ALTER TABLE search_item ADD CONSTRAINT item_unique UNIQUE (source_id, number, owner_id);
ALTER INDEX turn_document_newest RENAME TO item_newest;
ALTER INDEX turn_document_failed RENAME TO item_failed;

ALTER TABLE search_turnembedding RENAME TO search_itemembedding;
ALTER INDEX search_turnembedding_pkey RENAME TO search_itemembedding_pkey;
ALTER SEQUENCE search_turnembedding_id_seq RENAME TO search_itemembedding_id_seq;
ALTER TABLE search_itemembedding RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_itemembedding RENAME COLUMN turn_number TO item_number;
ALTER TABLE search_itemembedding RENAME COLUMN signs TO code;
ALTER TABLE search_itemembedding DROP CONSTRAINT turn_embedding_unique;
ALTER TABLE search_itemembedding ADD CONSTRAINT item_embedding_unique
    UNIQUE (source_id, space_id, item_number, chunk_number, owner_id);
ALTER INDEX turn_embedding_owner RENAME TO item_embedding_owner;
ALTER INDEX turn_embedding_newest RENAME TO item_embedding_newest;
ALTER INDEX turn_embedding_content RENAME TO item_embedding_content;

ALTER TABLE memory_passage RENAME TO search_passage;
ALTER INDEX memory_passage_pkey RENAME TO search_passage_pkey;
ALTER SEQUENCE memory_passage_id_seq RENAME TO search_passage_id_seq;
ALTER TABLE search_passage RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_passage RENAME COLUMN message_id TO element_id;
ALTER TABLE search_passage RENAME COLUMN turn_number TO item_number;
ALTER INDEX passage_turn RENAME TO passage_item;
ALTER INDEX passage_message RENAME TO passage_element;
ALTER TABLE search_passage ADD COLUMN asks boolean DEFAULT false NOT NULL;

ALTER TABLE memory_passagetokens RENAME TO search_tokenvectors;
ALTER INDEX memory_passagetokens_pkey RENAME TO search_tokenvectors_pkey;

ALTER TABLE memory_signblock RENAME TO search_binarycodeblock;
ALTER INDEX memory_signblock_pkey RENAME TO search_binarycodeblock_pkey;
ALTER SEQUENCE memory_signblock_id_seq RENAME TO search_binarycodeblock_id_seq;
ALTER TABLE search_binarycodeblock RENAME COLUMN conversation_id TO source_id;
ALTER TABLE search_binarycodeblock RENAME COLUMN places TO entries;
ALTER TABLE search_binarycodeblock RENAME COLUMN signs TO codes;
ALTER TABLE search_binarycodeblock DROP CONSTRAINT sign_block_unique;
ALTER TABLE search_binarycodeblock ADD CONSTRAINT code_block_unique UNIQUE (source_id, space_id, number, owner_id);
ALTER INDEX sign_block_owner RENAME TO code_block_owner;
"""
FORGET_OLD_KEYS = """
DO $$
DECLARE old record;
BEGIN
    FOR old IN
        SELECT conrelid::regclass AS home, conname FROM pg_constraint
        WHERE contype = 'f'
            AND confrelid IN ('conversations_conversation'::regclass, 'conversations_message'::regclass)
            AND conrelid IN (
                'search_item'::regclass, 'search_itemembedding'::regclass, 'search_passage'::regclass,
                'search_binarycodeblock'::regclass
            )
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', old.home, old.conname);
    END LOOP;
END $$;
"""
POINT_AT_SOURCES = "".join(
    f"ALTER TABLE {table} ADD CONSTRAINT {table}_source_fk FOREIGN KEY (source_id) "
    "REFERENCES search_source (id) DEFERRABLE INITIALLY DEFERRED;\n"
    for table in ("search_item", "search_itemembedding", "search_passage", "search_binarycodeblock")
)
# The HNSW indexes, one a space, are named by what they hold: binary codes.
RENAME_VECTOR_INDEXES = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT indexname FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename = 'search_passage' AND indexname ~ '^passage_signs_[0-9]+$'
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', name, replace(name, 'passage_signs', 'passage_codes'));
    END LOOP;
END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0010_stars_tags_and_figures"),
        ("embeddings", "0005_batches"),
        ("memory", "0013_owner_in_the_unique_constraint"),
        ("search", "0015_item_moments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = upgrade(
        INITIAL,
        last="0005_owned_words",
        operations=[
            *initial.LANGUAGES,
            migrations.RunSQL(OWN_TOKENS),
            *create_tables(INITIAL, "Source", "SourceIndex"),
            *(migrations.RunSQL(step) for step in (FILL_SOURCES, FILL_STATES, RENAME, FORGET_OLD_KEYS, POINT_AT_SOURCES)),
            migrations.RunSQL([RENAME_VECTOR_INDEXES, initial.STORE_TOKENS_IN_ROWS]),
            know_models(INITIAL, "Item", "ItemEmbedding", "Passage", "TokenVectors", "BinaryCodeBlock"),
            *create_tables(INITIAL, "PostingBlock", "PastSearch", "RerankerWeight"),
        ],
    )
