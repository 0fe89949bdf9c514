"""Stores the weight of each reranker, fitted by `manage.py evaluate --fit-reranker`.

One row per model, for the installation.
"""

from search.query_models import RerankerWeight
from search.ranking.blending import UNFITTED_WEIGHT, WeightFit
from search.ranking.rerank_endpoint import RerankOptions


def weight_of(options: RerankOptions) -> float:
    """Return the fitted weight of this reranker, or the default weight if it was never fitted. One query."""
    found = RerankerWeight.objects.filter(name=options.name).values_list("weight", flat=True).first()
    return UNFITTED_WEIGHT if found is None else found


def keep_weight(options: RerankOptions, fit: WeightFit) -> None:
    """Store the fitted weight of this reranker for all searches."""
    values = {"weight": fit.weight, "questions": fit.questions, "gain": fit.after - fit.before}
    RerankerWeight.objects.update_or_create(name=options.name, defaults=values)
