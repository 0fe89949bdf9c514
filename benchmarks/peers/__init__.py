"""The adapters: one small program a system, run by the Python of an environment of its own.

They share `adapter.py` and `minilm.py` and import nothing of convmemory, except its own adapter.
"""
