-- Lets conditions on stored words use their index under a policy, if the current role may declare that: a superuser.
-- PostgreSQL checks policies before functions that could tell of a row by an error; these tell of none.
DO $body$
DECLARE
    named regprocedure;
BEGIN
    IF current_setting('is_superuser') = 'off' THEN
        RETURN;
    END IF;
    FOR named IN
        SELECT p.oid
        FROM pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND NOT p.proleakproof AND p.proname IN (
            'int4out', 'int8out', 'textin', 'textcat', 'array_to_tsvector', 'tsvector_concat', 'tsquery_and', 'ts_match_vq'
        )
    LOOP
        EXECUTE format('ALTER FUNCTION %s LEAKPROOF', named);
    END LOOP;
END
$body$
