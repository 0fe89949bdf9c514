"""A retriever of one file, as `search/retrieval/retriever.py` describes it: it finds the newest items."""

import numpy as np

from search.models import Item
from search.retrieval.candidates import item_keys
from search.retrieval.corpus import Corpus
from search.retrieval.retriever import SearchState

RECENCY = "recency"


class NewestRetriever:
    """Finds the owner's newest items; `recency` falls with their rank."""

    features = (RECENCY,)
    needs_vector = False

    def add_candidates(self, state: SearchState, corpus: Corpus) -> None:
        if "newest" not in state.query.text.text:
            return
        rows = Item.objects.filter(archive_id=state.query.archive_id).order_by("-created_at", "-id")[:50]
        found = list(rows.values_list("source_id", "number"))
        keys = item_keys([source for source, _ in found], [item for _, item in found])
        recency = np.linspace(1, 0, len(keys), dtype=np.float32)
        order = np.argsort(keys)
        state.add(keys[order], {RECENCY: recency[order]}, unseen=0.0)
