"""Late interaction features of the best items, and of the questions just before them.

The question contains the words that a later query uses, and the answer often does not. An item therefore also counts
for the question just before it, the named speaker's words count separately, and an item that asks without answering
counts less. Source: docs/adr/0045-score-answers-with-their-question.md.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import pipelined
from search.ranking.late_interaction import (
    LatePassages,
    PassageMatches,
    find_passages,
    max_sim_features,
    weighted,
)
from search.retrieval.candidates import (
    EXCHANGES,
    ITEM_BITS,
    ITEM_MASK,
    LATE_INTERACTION,
    Feature,
    Ints,
    ItemKeys,
    Scores,
    are_among,
    distinct,
    median,
    spread_all,
)
from search.retrieval.retriever import SearchState
from search.sources import Utterance, adapter_of

# The smallest spread of scores that a difference is divided by; below it a difference is noise.
LEAST_SPREAD = 0.02
STRICT_QUANTILE = 0.9
# At this share of named elements, half of the weights come from the table for people (ADR 45).
SHARE_MIDDLE, STEEPNESS = 0.4, 4
_WORD = re.compile(r"\w+")
_OPEN_QUESTIONS = frozenset(
    _WORD.findall(
        "what when where who whom whose which why how is are was were do does did can could will would should has have "
        "had wer wann wo wie warum welche welcher welches qui que quand comment pourquoi quién qué cuándo cómo"
    )
)

NO_UTTERANCE = Utterance(place=-1)


@dataclass(frozen=True, slots=True)
class Spoken:
    """The speakers of passages (p,). `places` number the element of each passage, -1 if its speaker is unknown."""

    places: Ints
    by_named: NDArray[np.bool_]
    next_by_named: NDArray[np.bool_]
    ends_item: NDArray[np.bool_]

    @classmethod
    def of(cls, utterances: Iterable[Utterance], named: Collection[str]) -> "Spoken":
        """Create the values; `named` are the names in the query: unless it is exactly one, all speakers count as
        named.
        """
        all_utterances = list(utterances)
        one = next(iter(named)) if len(named) == 1 else None
        return cls(
            np.array([utterance.place for utterance in all_utterances], np.int64),
            np.array([one is None or utterance.name == one for utterance in all_utterances], np.bool_),
            np.array([one is None or utterance.next_name == one for utterance in all_utterances], np.bool_),
            np.array([utterance.ends_item for utterance in all_utterances], np.bool_),
        )


def names_in(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names of which a word occurs in the text."""
    words = set(_WORD.findall(text.lower()))
    return frozenset(name for name in names if not words.isdisjoint(_WORD.findall(name.lower())))


def is_question(text: str) -> bool:
    """Return whether a query is phrased as a question."""
    first_word = _WORD.search(text)
    return text.rstrip().endswith(("?", "\uff1f", "\u061f")) or (
        first_word is not None and first_word[0].lower() in _OPEN_QUESTIONS
    )


def named_share(utterances: Iterable[Utterance]) -> float:
    """Return how much the speakers are people with names, from 0 to 1 without a step.

    It is 0 if all have the same name or hardly any has a name.
    """
    by_name = Counter(utterance.name for utterance in utterances)
    counts = sorted((count for name, count in by_name.items() if name), reverse=True)
    if len(counts) < 2:
        return 0.0
    share = sum(counts) / by_name.total() * min(1.0, 3 * sum(counts[1:]) / sum(counts))
    return float(share**STEEPNESS / (share**STEEPNESS + SHARE_MIDDLE**STEEPNESS))


def exchange_features(
    keys: ItemKeys, wide_keys: ItemKeys, matches: PassageMatches, utterances: Mapping[int, Utterance], text: str
) -> dict[str, Scores]:
    """Return the features of late interaction of the items `keys`.

    The passages belong to `wide_keys`: these items and the items before them.
    """
    named = names_in(text, {spoken.name for spoken in utterances.values() if spoken.name})
    spoken = Spoken.of((utterances.get(element, NO_UTTERANCE) for element in matches.elements.tolist()), named)
    count, homes = len(keys), wide_keys[matches.items]
    inside, places = are_among(homes, keys), np.searchsorted(keys, homes)
    features = max_sim_features(keys, matches, places, inside)
    scores = features[Feature.MAX_SIM]
    spread = max(float(scores.max() - scores.min()), LEAST_SPREAD)
    middle = median(scores)
    # MaxSim of the question at the end of the preceding item, if the named speaker answers it.
    precedes, places_after = are_among(homes + 1, keys), np.searchsorted(keys, homes + 1)
    is_asked = matches.asks & spoken.ends_item & spoken.next_by_named & precedes
    asked = matches.max_sim(places_after, count, is_asked)
    strictly: Scores = np.zeros_like(scores)
    if is_question(text):  # the margin over nearly all items: a question that resembles many of them counts for nothing
        strictly = np.maximum(0, asked - np.quantile(scores, STRICT_QUANTILE)).astype(np.float32) / spread
    of_speaker = _of_speaker(keys, homes, matches, spoken) - middle if len(named) == 1 else np.zeros_like(scores)
    # What an item's score rests on a question that it leaves to the next item.
    loss = scores - matches.max_sim(places, count, inside & ~(matches.asks & spoken.ends_item))
    most = float(loss.max())
    with_before = np.maximum(matches.best_at(places, count, inside), matches.best_at(places_after, count, precedes))
    return features | {
        Feature.ANSWERS: np.maximum(0, asked - middle) / spread,
        Feature.ANSWERS_QUESTION: strictly,
        Feature.NAMED_SPEAKER: np.maximum(0, of_speaker) / spread,
        Feature.SETTLED: 1 - loss / most if most > 0 else np.ones_like(scores),
        Feature.MAX_SIM_BEFORE: weighted(matches.weights, with_before),
    }


def _of_speaker(keys: ItemKeys, homes: ItemKeys, matches: PassageMatches, spoken: Spoken) -> Scores:
    """Return the best MaxSim of an element of the named speaker, together with the question just before it."""
    tells = spoken.by_named & ~matches.asks
    asked = matches.asks & spoken.next_by_named
    items = np.where(asked & spoken.ends_item, homes + 1, homes)
    places = spoken.places + asked
    chosen = (tells | asked) & (spoken.places >= 0) & are_among(items, keys)
    best = np.zeros(len(keys), np.float32)
    if not chosen.any():
        return best
    elements = ((items >> ITEM_BITS) << 32) | places
    distinct, first, group = np.unique(elements[chosen], return_index=True, return_inverse=True)
    groups = np.zeros(len(elements), np.int64)
    groups[chosen] = group
    at = np.searchsorted(keys, items[chosen][first])
    np.maximum.at(best, at, matches.max_sim(groups, len(distinct), chosen))
    return best


def passages_of_best(state: SearchState, keys: ItemKeys) -> LatePassages | None:
    """Return the passages to compare for the best items, by their keys (sorted). One query; None if there are none.

    Of the items that only precede a best item, only passages that ask count.
    """
    wide_keys = _with_items_before(keys)
    return find_passages(state, wide_keys, ~are_among(wide_keys, keys))


def _with_items_before(keys: ItemKeys) -> ItemKeys:
    return distinct(np.concatenate([keys, keys[keys & ITEM_MASK > 0] - 1]))


def add_late_features(state: SearchState, keys: ItemKeys, near: LatePassages | None) -> None:
    """Add these features of the best items `keys` to the table. One query for each kind of source.

    `near` are the passages that `passages_of_best` returned for them.
    """
    if near is None:
        state.table = state.table.with_columns({}, of=LATE_INTERACTION | EXCHANGES)
        return
    wide_keys = _with_items_before(keys)
    archive_id = state.query.archive_id
    with pipelined():  # PostgreSQL looks up the speakers during the comparison
        pending = [
            adapter_of(kind).send_utterances_query(archive_id, ids) for kind, ids in near.elements_by_kind().items()
        ]
        matches = near.matched()
    utterances = {element: utterance for read in pending for element, utterance in read().items()}
    features = exchange_features(keys, wide_keys, matches, utterances, state.query.text.text)
    table = replace(state.table, named_share=named_share(utterances.values()))
    state.table = table.with_columns(spread_all(table.keys, keys, features), of=LATE_INTERACTION | EXCHANGES)
