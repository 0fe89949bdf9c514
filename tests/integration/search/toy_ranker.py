"""A ranker of one file, as `search/ranking/rankers.py` describes it: by one feature alone."""

from dataclasses import dataclass

import numpy as np

from search.retrieval.candidates import FeatureTable, Scores


@dataclass(frozen=True, slots=True)
class SingleFeatureRanker:
    """The feature itself; 0 where the query has not got it."""

    feature: str

    @property
    def features(self) -> tuple[str, ...]:
        return (self.feature,)

    def score(self, table: FeatureTable) -> Scores:
        column = table.columns.get(self.feature)
        return np.zeros(len(table.keys), np.float32) if column is None else np.nan_to_num(column)
