-- name: begin_attempt
-- Counts a password before it is checked, unless there is a pause: whether it may be checked, whether the address is known, and the seconds to wait.
WITH place AS (
    SELECT convmemory_knows_address(%(username)s, %(address)s) AS is_known
),

rules AS (
    SELECT r.key, r.free, r.longest_s
    FROM
        unnest(%(keys)s::bytea [], %(free)s::int [], %(longest_s)s::int [], %(holds_for_known)s::bool [])
            AS r (key, free, longest_s, holds_for_known)
    WHERE r.holds_for_known OR NOT (SELECT is_known FROM place)
),

paused AS (
    SELECT max(f.paused_until) AS until
    FROM sign_in_passwordfailures AS f
    INNER JOIN rules USING (key)
    WHERE f.paused_until > clock_timestamp()
),

forgotten AS (
    DELETE FROM sign_in_passwordfailures
    WHERE id IN (
        SELECT id FROM sign_in_passwordfailures
        WHERE last_failed_at < clock_timestamp() - %(forget)s AND key <> ALL(%(keys)s::bytea [])
        ORDER BY last_failed_at LIMIT 20 FOR UPDATE SKIP LOCKED
    )
),

counted AS (
    INSERT INTO sign_in_passwordfailures AS f (key, failures, last_failed_at, paused_until)
    SELECT key, 1, clock_timestamp(), clock_timestamp() FROM rules
    WHERE (SELECT until FROM paused) IS NULL
    ORDER BY key
    ON CONFLICT (key) DO UPDATE SET
        failures = 1 + greatest(0, f.failures - floor(extract(EPOCH FROM clock_timestamp() - f.last_failed_at) / %(leak_s)s))::int,
        last_failed_at = clock_timestamp(),
        paused_until = clock_timestamp() + make_interval(secs => (
            SELECT CASE WHEN late < 0 THEN 0 ELSE least(longest_s, power(2, least(late, 20))) END
            FROM (
                SELECT
                    longest_s,
                    greatest(0, f.failures - floor(extract(EPOCH FROM clock_timestamp() - f.last_failed_at) / %(leak_s)s)) - free AS late
                FROM rules WHERE rules.key = f.key
            ) AS rule
        ))
    WHERE f.paused_until <= clock_timestamp()
    RETURNING key
)

SELECT
    (SELECT count(*) FROM counted) = (SELECT count(*) FROM rules) AS may_be_judged,
    (SELECT is_known FROM place) AS is_known,
    greatest(1, ceil(extract(EPOCH FROM (SELECT until FROM paused) - clock_timestamp())))::int AS wait_s

-- name: remember_address
-- Records that a person gave the right password from an address, and deletes their old addresses.
WITH forgotten AS (
    DELETE FROM sign_in_knownaddress
    WHERE owner_id = %(owner)s AND address_hash <> %(address)s AND succeeded_at < clock_timestamp() - %(forget)s
)

INSERT INTO sign_in_knownaddress AS k (owner_id, address_hash, succeeded_at)
VALUES (%(owner)s, %(address)s, clock_timestamp())
ON CONFLICT (owner_id, address_hash) DO UPDATE SET succeeded_at = excluded.succeeded_at

-- name: end_attempt
-- Reverts the count of an attempt, and drops the count of its name from its address.
WITH cleared AS (
    DELETE FROM sign_in_passwordfailures WHERE key = ANY(%(cleared)s::bytea [])
)

UPDATE sign_in_passwordfailures
SET failures = greatest(0, failures - 1), paused_until = least(paused_until, clock_timestamp())
WHERE key IN (
    SELECT key FROM sign_in_passwordfailures WHERE key = ANY(%(counted)s::bytea []) ORDER BY key FOR UPDATE
)
