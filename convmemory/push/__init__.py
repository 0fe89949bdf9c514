"""The client that sends transcripts from another machine: standard library only, installed without the rest.

`places.py`, where agents keep their conversations, serves the server's own `sync` and `watch`, too.
"""
