"""The adapters: one small program per system, run by the Python of its own environment.

They share `adapter.py` and `minilm.py` and import nothing of convmemory, except its own adapter.
"""
