"""The client that sends transcripts from another machine: standard library only, installed without the rest.

`stores.py`, the folders of agents' conversations, is also used by the server's own `sync` and `watch`.
"""
