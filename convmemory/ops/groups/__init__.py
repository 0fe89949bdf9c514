"""Owners spread over groups: distributing a database, changing its tables, moving owners, and how the groups are."""
