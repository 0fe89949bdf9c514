"""Blocks contain the places of passages, too, and codes of items, of which no bits are stored elsewhere.

The codes of items are made here, some at a time: of a million passages that takes minutes, in which no search runs.
"""

from typing import Any

import numpy as np
from django.db import migrations, models

from search.vectors.codes import encode

AT_ONCE = 20_000
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision
BEGIN = "CREATE TEMPORARY TABLE codes_of_items (id bigint PRIMARY KEY, code bytea NOT NULL)"
READ = """
SELECT e.id, s.dimensions, substring(halfvec_send(e.embedding) FROM 5)
FROM search_itemembedding AS e
INNER JOIN embeddings_embeddingspace AS s ON s.id = e.space_id
WHERE e.id > %s
ORDER BY e.id
LIMIT %s
"""
WRITE = "INSERT INTO codes_of_items (id, code) SELECT * FROM unnest(%s::bigint[], %s::bytea[])"
PACK = """
TRUNCATE search_binarycodeblock;
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    e.owner_id,
    e.source_id,
    e.space_id,
    e.item_number / 32,
    string_agg(
        int8send(e.id) || int8send(e.element_id) || int4send(e.item_number) || int4send(e.first) || int4send(e.last)
        || int2send(e.part::int2) || int2send((e.kind * 256 + e.asks::int - 65536 * (e.kind > 127)::int)::int2),
        ''::bytea ORDER BY e.kind = 255, e.id
    ),
    string_agg(substring(e.code FOR (octet_length(e.code) - 4) / 3 + 2), ''::bytea ORDER BY e.kind = 255, e.id)
FROM (
    SELECT p.id, p.owner_id, p.source_id, p.space_id, p.element_id, p.item_number, p."start" AS first, p."end" AS last,
        p.part_index::int AS part, p.kind::int AS kind, p.asks, p.code
    FROM search_passage AS p
    UNION ALL
    SELECT v.id, v.owner_id, v.source_id, v.space_id, 0, v.item_number, 0, 0, v.chunk_number, 255, FALSE, c.code
    FROM search_itemembedding AS v
    INNER JOIN codes_of_items AS c ON c.id = v.id
) AS e
GROUP BY e.owner_id, e.source_id, e.space_id, e.item_number / 32;
DROP TABLE codes_of_items;
"""


def pack_blocks(apps: Any, schema_editor: Any) -> None:
    """Pack all blocks anew."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(BEGIN)
        last = 0
        while True:
            cursor.execute(READ, [last, AT_ONCE])
            rows = cursor.fetchall()
            if not rows:
                break
            last = rows[-1][0]
            for dimensions in {row[1] for row in rows}:
                own = [row for row in rows if row[1] == dimensions]
                halves = np.frombuffer(b"".join(bytes(vector) for *_, vector in own), HALF)
                codes = encode(halves.reshape(-1, dimensions).astype(np.float32))
                cursor.execute(WRITE, [[pk for pk, *_ in own], codes])
        cursor.execute(PACK)


class Migration(migrations.Migration):
    dependencies = [("search", "0005_current_layouts"), ("embeddings", "0001_initial")]

    operations = [
        migrations.RemoveIndex("itemembedding", "item_embedding_owner"),
        migrations.RemoveField("itemembedding", "code"),
        migrations.RemoveField("sourceindex", "newest_vector"),
        migrations.RunPython(pack_blocks, migrations.RunPython.noop, elidable=False),
    ]
