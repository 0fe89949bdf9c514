-- Add counts to the row of one name, label and hour.
INSERT INTO ops_measure AS m (name, label, hour, count, items, failures, seconds, buckets)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name, label, hour) DO UPDATE SET
    count = m.count + EXCLUDED.count,
    items = m.items + EXCLUDED.items,
    failures = m.failures + EXCLUDED.failures,
    seconds = m.seconds + EXCLUDED.seconds,
    buckets = ARRAY(
        SELECT old + new
        FROM unnest(m.buckets, EXCLUDED.buckets) WITH ORDINALITY AS pair (old, new, n)
        ORDER BY n
    )
