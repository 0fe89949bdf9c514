"""The parts of search that an ablation leaves out, one at a time: retrievers, features, whole stages.

The remaining parts keep their weights: nothing is refitted, so a row shows the product without the part, not how good a
product built without it could be.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from search.pipeline import PIPELINE, Pipeline, Rankers
from search.ranking.rankers import BlendedRanker, LinearRanker, Weights, weights_of
from search.retrieval.candidates import EXCHANGES, Feature
from search.retrieval.dense import ItemRetriever, PassageRetriever
from search.retrieval.retriever import Retriever


def whole() -> Pipeline:
    """Return the complete search."""
    return PIPELINE


def without_features(features: Collection[str]) -> Pipeline:
    """Return search without weights for these features."""
    return replace(PIPELINE, rankers=_rankers(partial(_weights, features)))


def without_retriever(retriever: type[Retriever], features: Collection[str]) -> Pipeline:
    """Return search without a retriever, which then finds no candidates and whose features have no weight."""
    kept = tuple(one for one in PIPELINE.retrievers if not isinstance(one, retriever))
    return Pipeline(kept, _rankers(partial(_weights, features)))


def without_late_interaction() -> Pipeline:
    """Return search in which the order of the first stage is final."""
    rankers = PIPELINE.rankers
    return replace(PIPELINE, rankers=replace(rankers, hybrid=rankers.first_stage))


def without_weights_for_people() -> Pipeline:
    """Return search that ranks conversations of named people with the weights of other conversations."""
    short, long = weights_of("hybrid"), weights_of("hybrid_long_items")
    return replace(PIPELINE, rankers=replace(PIPELINE.rankers, hybrid=BlendedRanker(short, long, short)))


def _weights(features: Collection[str], table: str) -> Weights:
    return {name: weight for name, weight in weights_of(table).items() if name not in features}


def _rankers(weights: Callable[[str], Weights]) -> Rankers:
    return Rankers(
        first_stage=LinearRanker(weights("first_stage")),
        hybrid=BlendedRanker(weights("hybrid"), weights("hybrid_long_items"), weights("hybrid_people")),
        semantic=LinearRanker(weights("semantic")),
        full_text=LinearRanker(weights("full_text")),
        sections=LinearRanker(weights("sections")),
    )


@dataclass(frozen=True, slots=True)
class Part:
    """The name of a part that is left out, and the search without it: a pipeline, a mode and settings.

    A search that `is_timeless` ignores the time that a question names.
    """

    title: str
    pipeline: Callable[[], Pipeline] = whole
    mode: str = "hybrid"
    settings: Mapping[str, float] = field(default_factory=dict)
    is_timeless: bool = False


OF_PASSAGES = frozenset({Feature.PASSAGE_COSINE, Feature.SOURCE_PASSAGE_COSINE})
OF_ITEMS = frozenset({Feature.ITEM_COSINE})
OF_NEIGHBOURS = frozenset({Feature.NEIGHBOUR_BM25, Feature.NEIGHBOUR_COVERAGE, Feature.NEIGHBOUR_MAX_SIM})
OF_CONVERSATIONS = frozenset(
    {
        Feature.SOURCE_BM25,
        Feature.SOURCE_BM25_RARE,
        Feature.SOURCE_BEST_BM25,
        Feature.SOURCE_PASSAGE_COSINE,
    }
)

COMPLETE = Part("nothing")
PARTS = (
    Part("words (search by meaning alone)", mode="semantic"),
    Part("vectors and late interaction (search by words alone)", mode="full_text"),
    Part("late interaction and all that is built on it", without_late_interaction),
    Part("vectors of sentence passages", partial(without_retriever, PassageRetriever, OF_PASSAGES)),
    Part("vectors of whole turns", partial(without_retriever, ItemRetriever, OF_ITEMS)),
    Part("the question before a turn, and who speaks", partial(without_features, EXCHANGES)),
    Part("the weights for people with names", without_weights_for_people),
    Part("the neighbouring turns", partial(without_features, OF_NEIGHBOURS)),
    Part("the conversation around a turn", partial(without_features, OF_CONVERSATIONS)),
    Part("nearness to the days that the question names", partial(without_features, {Feature.DATE})),
    Part("all that the question says about when", is_timeless=True),
    Part("diversity", settings={"MMR_LAMBDA": 1.0}),
)


def single_features() -> tuple[Part, ...]:
    """Return a part for each feature that has a weight in any table for turns."""
    tables = ("hybrid", "hybrid_long_items", "hybrid_people", "first_stage")
    weighed = {name for table in tables for name, weight in weights_of(table).items() if weight}
    return tuple(Part(f"`{name}`", partial(without_features, {name})) for name in sorted(weighed))
