"""Groups of owners: distributes a database, changes its tables, moves owners, and reports the state of the groups."""
