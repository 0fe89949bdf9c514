"""Decides whether a search asks something, and which passage is shown as the answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from convmemory.conversations.messages.outcomes import NO_OUTCOME, Outcome
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.core.config import config
from search.pages.groups import HitGroup, HitView, group_hits
from search.query import SearchQuery
from search.ranking.exchanges import is_question
from search.results.hits import Hit, SectionPlace
from search.searching import SearchResults
from search.steering import is_steering

_WORD = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class BestPassage:
    """The passage that answers a question, or the nearest one if none does, with its conversation and its outcome."""

    group: HitGroup
    outcome: Outcome
    is_answer: bool

    @property
    def view(self) -> HitView:
        return self.group.shown[0]


def asks(query: SearchQuery) -> bool:
    """Return whether a query is a question about something: no operators, no words alone, no "what is this?"."""
    parsed = query.parsed
    if parsed.operators or not is_question(parsed.text):
        return False
    return not all(map(is_steering, _WORD.findall(parsed.text)))


def answering_hits(query: SearchQuery, results: SearchResults) -> Sequence[Hit]:
    """Return the hits that are likely to answer a question, best first, without what is marked as wrong.

    None unless the search says that one does.
    """
    if not results.answered or not asks(query):
        return ()
    bar = config.search_min_relevance
    # Without a relevance of hits a title alone may be what answers.
    return [
        hit
        for hit in results.hits
        if (not results.titles if hit.relevance is None else hit.relevance >= bar) and not is_wrong(hit)
    ]


def is_wrong(hit: Hit) -> bool:
    """Return whether its owner marked a turn as wrong."""
    mark = None if isinstance(hit.where, SectionPlace) else hit.where.mark
    return mark is not None and mark.kind == "wrong"


def best_passage(query: SearchQuery, results: SearchResults, box: SearchBox, *, asked: str) -> BestPassage | None:
    """Return the passage that answers a question best; where nothing answers, the nearest. None for other queries."""
    answering = answering_hits(query, results)
    is_nearest = results.answered is False and results.is_unlikely and not box.nearest and asks(query)
    hits = answering or [hit for hit in results.hits if is_nearest and not is_wrong(hit)]
    if not hits:
        return None
    [group] = group_hits(hits[:1], box, is_calibrated=results.is_calibrated, asked=asked)
    where = hits[0].where
    outcome = NO_OUTCOME if isinstance(where, SectionPlace) else where.outcome
    return BestPassage(group, outcome, is_answer=bool(answering))
