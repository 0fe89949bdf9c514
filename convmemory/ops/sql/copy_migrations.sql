-- Record in a group which migrations its tables have seen.
INSERT INTO {target} (app, name, applied) SELECT app, name, applied FROM {source} ORDER BY id
