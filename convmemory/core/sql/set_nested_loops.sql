-- Allow or forbid plans with nested loops until the transaction ends.
SELECT set_config('enable_nestloop', %s, TRUE)
