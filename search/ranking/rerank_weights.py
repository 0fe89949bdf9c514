"""What each reranker counts, as `manage.py evaluate --fit-reranker` found it: one row a model, for the installation."""

from search.models import RerankerWeight
from search.ranking.blending import UNFITTED_WEIGHT, WeightFit
from search.ranking.rerank_endpoint import RerankOptions


def weight_of(options: RerankOptions) -> float:
    """The weight of this reranker; that of any other if nobody has measured it. One query."""
    found = RerankerWeight.objects.filter(name=options.name).values_list("weight", flat=True).first()
    return UNFITTED_WEIGHT if found is None else found


def keep_weight(options: RerankOptions, fit: WeightFit) -> None:
    """Let searches count this reranker as it was found to be worth."""
    values = {"weight": fit.weight, "questions": fit.questions, "gain": fit.after - fit.before}
    RerankerWeight.objects.update_or_create(name=options.name, defaults=values)
