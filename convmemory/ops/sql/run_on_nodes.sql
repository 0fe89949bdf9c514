-- Run a statement on every node; those that refused it, and why.
SELECT nodename || ':' || nodeport, result FROM run_command_on_workers(%s) WHERE NOT success
