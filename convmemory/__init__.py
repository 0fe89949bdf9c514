"""A self-hosted archive and memory for AI conversations."""

import os

__version__ = "0.2.0"

# NumPy's matrix library reads this when it loads. The matrices here are small: a second thread waits more
# than it computes, and takes the core that PostgreSQL needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# ONNX Runtime reads this when it loads. Its builds for Linux otherwise write an id of the machine into the user's
# cache, and report to Microsoft how models are run.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
