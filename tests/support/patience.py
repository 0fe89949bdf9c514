"""Timeouts of waiting tests: long, for slow and busy machines. A wait that ends early costs nothing."""

ANSWER_S = 60.0
"""For an answer over HTTP, or for a page to show something."""

PROCESSES_S = 300.0
"""For a chain of processes that start one after the other, and their work."""
