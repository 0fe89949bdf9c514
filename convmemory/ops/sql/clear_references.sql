-- Set a nullable reference to rows of one person to null, in rows that may be others'.
UPDATE {table} SET "{column}" = NULL WHERE {rows} AND "{column}" IN (SELECT "{pk}" FROM {target} WHERE {condition})
