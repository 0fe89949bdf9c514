"""Labels the clusters of a map: groups its points by position, and finds typical words of each group. Pure.

Source: the words are weighed by their share in a group against their share everywhere, as in c-TF-IDF (Grootendorst
2022, BERTopic), counted by heading so that one heading cannot name a group.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

POINTS_A_CLUSTER = 20
MAX_CLUSTERS = 8
# A fixed number of rounds of k-means bounds its time.
ROUNDS = 25
WORDS_SHOWN = 3
MIN_LETTERS, MAX_LETTERS = 3, 24
# A word names a cluster only if it is this many times as frequent there as in the whole map.
MIN_LIFT = 1.5
HEADING_CHARS = 500
EDGES = "\"'`.,;:!?()[]{}<>«»„“”*_#…"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The centre of a group of points, the number of points, and their words, the most typical first."""

    x: float
    y: float
    count: int
    words: tuple[str, ...]


def clusters_of(places: NDArray[np.float64], headings: Sequence[str]) -> list[Cluster]:
    """Return the groups of the points at `places` (n, 2), the largest first, without groups that have no typical words.

    The same points give the same groups. A few points have none.
    """
    groups = min(MAX_CLUSTERS, len(places) // POINTS_A_CLUSTER)
    if groups < 2:
        return []
    # The group of each point by k-means, starting from points far apart.
    centres = places[[int(np.square(places - places.mean(axis=0)).sum(axis=1).argmax())]]
    while len(centres) < groups:
        centres = np.vstack([centres, places[_distances(places, centres).min(axis=1).argmax()]])
    for _ in range(ROUNDS):
        group_of = _distances(places, centres).argmin(axis=1)
        centres = np.array(
            [places[group_of == number].mean(axis=0) if (group_of == number).any() else centres[number]
             for number in range(groups)]
        )  # fmt: skip
    group_of = np.asarray(_distances(places, centres).argmin(axis=1))
    words = [_words(heading) for heading in headings]
    everywhere = Counter(word for heading in words for word in heading)
    clusters: list[Cluster] = []
    for number in range(groups):
        members = np.flatnonzero(group_of == number)
        here = Counter(word for member in members.tolist() for word in words[member])
        scores = {}
        for word, count in here.items():
            share = count / len(members)
            lift = share * len(words) / everywhere[word]
            if count > 1 and lift >= MIN_LIFT:
                scores[word] = share * log(lift)
        best = sorted(scores, key=lambda word: (-scores[word], word))[:WORDS_SHOWN]
        x, y = np.median(places[members], axis=0).tolist() if len(members) else (0.0, 0.0)
        clusters.append(Cluster(x, y, len(members), tuple(best)))
    return sorted((each for each in clusters if each.words), key=lambda each: -each.count)


def _distances(places: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squared distances, (points, centres)."""
    return np.asarray(np.square(places[:, None, :] - centres[None, :, :]).sum(axis=2))


def _words(heading: str) -> frozenset[str]:
    words = (word.strip(EDGES) for word in heading[:HEADING_CHARS].lower().split())
    return frozenset(word for word in words if word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS)
