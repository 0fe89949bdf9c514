"""What people wrote, and what was computed of it, outlives the migrations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

BEFORE = [
    ("conversations", "0001_conversations"),
    ("memory", "0009_signs_in_blocks_alone"),
    ("search", "0005_owned_words"),
    ("embeddings", "0003_vector_uses"),
]
FILL = """
CREATE INDEX passage_signs_3 ON memory_passage USING hnsw
    ((binary_quantize(embedding::halfvec(8))::bit(8)) bit_hamming_ops) WHERE space_id = 3;
INSERT INTO auth_user (id, username, password, first_name, last_name, email, is_superuser, is_staff, is_active,
    date_joined)
SELECT n, 'user' || n, '', '', '', '', false, false, true, now() FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO embeddings_embeddingspace (id, provider, model, dimensions, recipe_version, location, is_active,
    is_building, created_at)
VALUES (3, 'local', 'old', 8, 1, '', true, false, now()), (4, 'local', 'new', 8, 1, '', false, true, now());
INSERT INTO conversations_conversation (id, owner_id, title, agent, project, source, source_id, parent_source_id,
    status, created_at, updated_at, archived_at, message_count, turn_count, turns_version)
SELECT n * 10, n, 'Eggs', 'cook', 'kitchen', 'api', '', '', 'idle', now(), now(), CASE n WHEN 6 THEN now() END, 1, 1, 2
FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO conversations_message (id, conversation_id, position, role, is_real_user, name, model, parts, turn_number,
    source_key, content_hash)
SELECT n * 100, n * 10, 0, 'user', true, '', '', '[{"type": "text", "text": "Six minutes?"}]', 0, 'k', '\\x00'
FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO conversations_messagesource (message_id, data) VALUES (500, 'raw');
INSERT INTO search_turndocument (owner_id, conversation_id, turn_number, message_id, question, created_at, content_hash,
    length, spoken, unspoken, error)
SELECT n, n * 10, 0, n * 100, 'Six minutes?', now(), '\\x01', 2, 'six minutes', '', '' FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO search_turnembedding (owner_id, conversation_id, space_id, turn_number, chunk_number, content_hash,
    token_count, embedding, created_at)
SELECT n, n * 10, 3, 0, 0, '\\x01', 4, '[1,-1,1,1,1,1,1,1]', now() FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO memory_passage (id, owner_id, conversation_id, message_id, content_hash, space_id, turn_number, start,
    "end", part_index, kind, token_count, embedding)
SELECT n, n, n * 10, n * 100, gen_random_uuid(), 3, 0, 0, 12, 0, 0, 4, '[1,-1,1,1,1,1,1,1]'
FROM unnest(ARRAY[5, 6]) AS n;
INSERT INTO memory_passagetokens (passage_id, vectors) VALUES (5, 'tokens');
INSERT INTO memory_signblock (owner_id, conversation_id, space_id, number, places, signs)
VALUES (5, 50, 3, 0, 'p', 's');
INSERT INTO search_conversationindex (conversation_id, owner_id, space_id, indexed_version, noted_version, dirty_from,
    last_embedded_turn_number, spoken_length, passages, attempts, error, updated_at)
VALUES (50, 5, 3, 2, 2, NULL, 0, 2, 1, 0, '', now()), (60, 6, NULL, 0, 1, 0, -1, 0, 0, 0, '', now());
INSERT INTO search_spaceprogress (conversation_id, owner_id, space_id, indexed_version, turns, passages, refused, error,
    updated_at)
VALUES (50, 5, 4, 2, 1, 1, '{"0": "too strange"}', '', now());
"""


@contextmanager
def scratch_database() -> Iterator[None]:
    """An empty database, which is the default one meanwhile."""
    own = connections["default"]
    name = f"{own.settings_dict['NAME']}_migrating"
    with own._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    scratch = connections.create_connection("default")
    scratch.settings_dict = {**own.settings_dict, "NAME": name}
    connections["default"] = scratch
    try:
        yield
    finally:
        scratch.close()
        connections["default"] = own
        with own._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.django_db(transaction=True)
def test_an_archive_of_an_earlier_version_keeps_its_messages_and_its_vectors() -> None:
    with scratch_database():
        MigrationExecutor(connection).migrate([*BEFORE, ("auth", "0012_alter_user_first_name_max_length")])
        with connection.cursor() as cursor:
            cursor.execute(FILL)
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
        assert rows("SELECT id, owner_id, parts -> 0 ->> 'text' FROM conversations_message ORDER BY id") == [
            (500, 5, "Six minutes?"),
            (600, 6, "Six minutes?"),
        ]
        assert rows("SELECT message_id, owner_id FROM conversations_messagesource") == [(500, 5)]
        sources = (
            "SELECT kind, object_id, owner_id, title, origin, archived, version FROM search_source ORDER BY object_id"
        )
        assert rows(sources) == [
            ("conversation", 50, 5, "Eggs", "api", False, 2),
            ("conversation", 60, 6, "Eggs", "api", True, 2),
        ]
        home = "SELECT s.object_id, {} FROM {} AS r INNER JOIN search_source AS s ON s.id = r.source_id ORDER BY r.id"
        assert rows(home.format("number, heading, opening_id", "search_item")) == [
            (50, 0, "Six minutes?", 500), (60, 0, "Six minutes?", 600),
        ]  # fmt: skip
        assert rows(home.format("item_number, code::text", "search_itemembedding"))[0] == (50, 0, "10111111")
        assert rows(home.format("element_id, item_number", "search_passage")) == [(50, 500, 0), (60, 600, 0)]
        assert rows("SELECT passage_id, owner_id FROM search_tokenvectors") == [(5, 5)]
        assert rows(home.format("number, codes", "search_binarycodeblock"))[0][0] == 50
        columns = "space_id, indexed_version, last_item, passages, refused ->> '0'"
        states = f"SELECT {columns} FROM search_sourceindex ORDER BY space_id"
        assert rows(states) == [(3, 0, 0, 1, None), (4, 0, 0, 1, "too strange")]  # to be read again
        indexes = "SELECT indexname FROM pg_indexes WHERE indexname ~ '^passage_(signs|codes)_' ORDER BY 1"
        assert rows(indexes) == [("passage_codes_3",)]
        ((new,),) = rows("SELECT nextval(pg_get_serial_sequence('search_source', 'id'))")
        assert new > max(pk for (pk,) in rows("SELECT id FROM search_source"))
