"""Of the vectors of passages only codes are stored, after a rotation; blocks of codes are packed anew.

The ones that exist are coded here, some at a time: of a million passages that takes minutes, in which no search runs.
"""

from typing import Any

import numpy as np
from django.db import migrations, models

from search.vectors.codes import encode

AT_ONCE = 20_000
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision
READ = """
SELECT e.id, s.dimensions, substring(halfvec_send(e.embedding) FROM 5)
FROM {table} AS e
INNER JOIN embeddings_embeddingspace AS s ON s.id = e.space_id
WHERE e.id > %s
ORDER BY e.id
LIMIT %s
"""
WRITE = "UPDATE {table} AS e SET code = t.code FROM unnest(%s::bigint[], %s::bytea[]) AS t (id, code) WHERE e.id = t.id"
# Rewrites the rows without the dropped vectors.
REWRITE = """
ALTER TABLE search_passage ALTER COLUMN code TYPE bytea USING code || ''::bytea;
ALTER TABLE search_setasidepassage ALTER COLUMN code TYPE bytea USING code || ''::bytea;
"""
PACK = """
TRUNCATE search_binarycodeblock;
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    e.owner_id,
    e.source_id,
    e.space_id,
    e.item_number / 32,
    string_agg(
        int8send(e.id) || int4send(e.item_number) || int2send((e.kind * 256 + e.asks::int)::int2), ''::bytea ORDER BY e.id
    ),
    string_agg(substring(e.code FOR (octet_length(e.code) - 4) / 3 + 2), ''::bytea ORDER BY e.id)
FROM search_passage AS e
GROUP BY e.owner_id, e.source_id, e.space_id, e.item_number / 32
"""


def code_vectors(apps: Any, schema_editor: Any) -> None:
    """Store the codes of all vectors."""
    with schema_editor.connection.cursor() as cursor:
        for table in ("search_passage", "search_setasidepassage"):
            last = 0
            while True:
                cursor.execute(READ.format(table=table), [last, AT_ONCE])
                rows = cursor.fetchall()
                if not rows:
                    break
                last = rows[-1][0]
                for dimensions in {row[1] for row in rows}:
                    own = [row for row in rows if row[1] == dimensions]
                    halves = np.frombuffer(b"".join(bytes(vector) for *_, vector in own), HALF)
                    codes = encode(halves.reshape(-1, dimensions).astype(np.float32))
                    cursor.execute(WRITE.format(table=table), [[pk for pk, *_ in own], codes])


class Migration(migrations.Migration):
    dependencies = [("search", "0003_without_vector_index"), ("embeddings", "0001_initial")]

    operations = [
        migrations.AddField(
            "passage",
            "code",
            models.BinaryField(default=b"", help_text="Its vector's, see `search.vectors.codes`."),
            preserve_default=False,
        ),
        migrations.AddField("setasidepassage", "code", models.BinaryField(default=b""), preserve_default=False),
        migrations.RunPython(code_vectors, migrations.RunPython.noop, elidable=False),
        migrations.RemoveField("passage", "embedding"),
        migrations.RemoveField("setasidepassage", "embedding"),
        migrations.RunSQL(REWRITE, migrations.RunSQL.noop),
        migrations.RunSQL(PACK, migrations.RunSQL.noop),
    ]
