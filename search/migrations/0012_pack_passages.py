"""The passages that exist are packed into blocks, in one transaction, and the tables that had them go.

Of a million passages that takes minutes, in which no search runs.
"""

from itertools import groupby
from typing import Any

import numpy as np
from django.db import migrations

from search.vectors.codes import HALF, encode, short_bytes

TYPES = "SELECT id FROM django_content_type WHERE app_label = 'search' AND model IN ('passage', 'binarycodeblock')"
PERMISSIONS = f"SELECT id FROM auth_permission WHERE content_type_id IN ({TYPES})"
FORGET = [
    f"DELETE FROM auth_group_permissions WHERE permission_id IN ({PERMISSIONS})",
    f"DELETE FROM auth_user_user_permissions WHERE permission_id IN ({PERMISSIONS})",
    f"DELETE FROM auth_permission WHERE content_type_id IN ({TYPES})",
    f"DELETE FROM django_content_type WHERE id IN ({TYPES})",
]
# A code is two parts with a scale each, the first of two bits for each dimension, the second of four.
PACK = """
INSERT INTO search_passageblock
    (owner_id, source_id, space_id, number, is_kept, last_item, passages, entries, digests, codes, fine, tokens)
SELECT
    e.owner_id, e.source_id, e.space_id, e.item_number / 8, e.is_kept, max(e.item_number), count(*),
    string_agg(
        int8send(e.element_id) || int4send(e.item_number) || int4send(e."start") || int4send(e."end")
        || int2send(e.part_index::int2) || int2send((least(e.kind, 7) * 256 + e.asks::int)::int2)
        || int2send(e.token_count::int2)
        || int2send((octet_length(coalesce(e.tokens, '')) * 8 / greatest(e.token_dimensions, 1))::int2),
        ''::bytea ORDER BY e.item_number, e.id
    ),
    string_agg(uuid_send(e.content_hash), ''::bytea ORDER BY e.item_number, e.id),
    string_agg(substring(e.code FOR e.short), ''::bytea ORDER BY e.item_number, e.id),
    string_agg(substring(e.code FROM e.short + 1), ''::bytea ORDER BY e.item_number, e.id),
    string_agg(coalesce(e.tokens, ''), ''::bytea ORDER BY e.item_number, e.id)
FROM (
    SELECT
        p.*, p.kind = 8 OR s.version = 0 AS is_kept, v.token_dimensions, (octet_length(p.code) - 4) / 3 + 2 AS short
    FROM search_passage AS p
    INNER JOIN search_source AS s ON s.id = p.source_id
    INNER JOIN embeddings_embeddingspace AS v ON v.id = p.space_id
) AS e
GROUP BY e.owner_id, e.source_id, e.space_id, e.item_number / 8, e.is_kept
"""
READ = """
SELECT e.owner_id, e.source_id, e.space_id, e.item_number / 8, v.dimensions, e.id, e.item_number, e.chunk_number,
    substring(halfvec_send(e.embedding) FROM 5)
FROM search_itemembedding AS e
INNER JOIN embeddings_embeddingspace AS v ON v.id = e.space_id
WHERE e.id > %s
ORDER BY e.id
LIMIT %s
"""
ADD = """
INSERT INTO search_passageblock AS b
    (owner_id, source_id, space_id, number, is_kept, last_item, passages, entries, digests, codes, fine, tokens)
SELECT t.owner, t.source, t.space, t.number, FALSE, t.last_item, 0, t.entries, '', t.codes, '', ''
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::int[], %s::bytea[], %s::bytea[])
    AS t (owner, source, space, number, last_item, entries, codes)
ON CONFLICT (source_id, space_id, number, owner_id) WHERE NOT is_kept DO UPDATE SET
    entries = b.entries || EXCLUDED.entries,
    codes = b.codes || EXCLUDED.codes,
    last_item = greatest(b.last_item, EXCLUDED.last_item)
"""
AT_ONCE = 20_000
ENTRY = np.dtype([
    ("element", ">i8"), ("item", ">i4"), ("start", ">i4"), ("end", ">i4"), ("part", ">i2"), ("kind", "u1"),
    ("asks", "u1"), ("tokens", ">u2"), ("words", ">u2"),
])  # fmt: skip


def add_items(apps: Any, schema_editor: Any) -> None:
    """Add the codes of the vectors of items to the blocks, some vectors at a time."""
    last = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(READ, [last, AT_ONCE])
            rows = cursor.fetchall()
            if not rows:
                return
            last = rows[-1][5]
            blocks = []
            rows.sort(key=lambda row: row[:6])
            for (*block, dimensions), of_block in groupby(rows, key=lambda row: row[:5]):
                vectors = list(of_block)
                entries = np.zeros(len(vectors), ENTRY)
                entries["element"], entries["item"] = [row[5] for row in vectors], [row[6] for row in vectors]
                entries["part"], entries["kind"] = [min(row[7], 2**15 - 1) for row in vectors], 255
                halves = np.frombuffer(b"".join(bytes(row[8]) for row in vectors), HALF).reshape(-1, dimensions)
                codes = b"".join(code[: short_bytes(dimensions)] for code in encode(halves.astype(np.float32)))
                blocks.append((*block, int(entries["item"].max()), entries.tobytes(), codes))
            cursor.execute(ADD, list(map(list, zip(*blocks, strict=True))))


class Migration(migrations.Migration):
    dependencies = [("search", "0011_passage_blocks")]

    operations = [
        migrations.RunSQL(PACK, migrations.RunSQL.noop),
        migrations.RunPython(add_items, migrations.RunPython.noop, elidable=False),
        migrations.DeleteModel("Passage"),
        migrations.DeleteModel("BinaryCodeBlock"),
        migrations.RunSQL(FORGET, migrations.RunSQL.noop, hints={"shared": True}),
    ]
