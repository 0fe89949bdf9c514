"""A self-hosted archive and memory for AI conversations."""

import os

__version__ = "0.2.0"

# NumPy's matrix library reads this when it loads. The matrices here are small: a second thread waits more
# than it computes, and takes the core that PostgreSQL needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
