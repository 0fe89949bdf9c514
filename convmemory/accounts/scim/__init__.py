"""SCIM 2.0 (RFC 7643, 7644): a directory such as Entra or Okta makes, changes and deactivates accounts and groups.

`scim2_server` does the protocol; here are the schemas that are served (`resources.py`), where they are stored
(`storage.py`, `filters.py`), the tokens, and the view. Reasons: docs/adr/0113-scim-by-scim2-server.md.
"""
