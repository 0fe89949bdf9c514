-- The rows of one table that belong to one person, as JSON.
SELECT row_to_json(r)::text FROM (SELECT {columns} FROM {table} AS t WHERE {condition} {in_order}) AS r
