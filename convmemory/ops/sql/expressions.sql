-- Every expression that PostgreSQL computes when rows are written: defaults, generated columns, checks, indexes.
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
UNION ALL
SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid >= 16384
UNION ALL
SELECT pg_get_expr(indexprs, indrelid) FROM pg_index WHERE indexprs IS NOT NULL AND indrelid >= 16384
UNION ALL
SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indpred IS NOT NULL AND indrelid >= 16384
UNION ALL
SELECT pg_get_expr(partexprs, partrelid) FROM pg_partitioned_table WHERE partexprs IS NOT NULL
