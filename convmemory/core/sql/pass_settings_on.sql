-- Let SET LOCAL reach the servers that hold the groups; no other setting does.
SET citus.propagate_set_commands = 'local'
