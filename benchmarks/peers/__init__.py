"""The adapters: one small program per system, run by the Python of its own environment.

They share `adapter.py` and `minilm.py`. Only convmemory's own adapter imports convmemory.
"""
