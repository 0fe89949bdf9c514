"""Loads the local models when a process starts, so that the first turn or the first search need not wait for it."""

import logging
from importlib import import_module
from typing import Any

import numpy as np
from django_q.signals import post_spawn

from convmemory.embeddings.options import LOCAL
from convmemory.embeddings.spaces import active_space, embedder_for
from convmemory.embeddings.token_codes import bit_products
from convmemory.embeddings.token_model import PairedEmbedder
from convmemory.ops.observability import tracing

logger = logging.getLogger(__name__)


def connect() -> None:
    post_spawn.connect(on_spawn, dispatch_uid="ops.warm_worker")


def on_spawn(sender: Any, **kwargs: Any) -> None:
    """Load the local models in a new worker process, before its first task, and send its spans from now on."""
    tracing.start()
    load_models()


def load_models(*, for_searches: bool = False) -> None:
    """Load the local models of the active space; `for_searches` also the product of bits and a part of NumPy.

    An error here occurs again, and is reported, at the first text.
    """
    if for_searches:
        import_module("numpy.ma")  # its first use, by np.unique, took a quarter of a process's first search
    try:
        embedder = embedder_for(active_space())
        models = [embedder.sentences, embedder.tokens] if isinstance(embedder, PairedEmbedder) else [embedder]
        for model in models:
            if model.card.provider == LOCAL:
                model.embed_passages(["warm up"])
        if for_searches:
            bit_products(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.int8))
    except Exception:  # the boundary of a process: without a model it still does other work
        logger.warning("The embedding model is not loaded yet", exc_info=True)
