"""convmemory: an archive and memory for AI conversations."""

__version__ = "0.1.0"
