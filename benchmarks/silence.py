"""Measures on questions with and without an answer how often a search says that nothing answers.

Questions without an answer are those that a set labels as such, its own with the answering conversations removed, and
those of its other haystacks. Reads the outcome of each search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import punctuation
from typing import Any

import numpy as np

from benchmarks.datasets.haystacks import Haystack, Question
from benchmarks.fitting import Floats, Mask, area_under_curve, share_with_interval
from benchmarks.running import OnProgress, Stored
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from search.adapters.conversations import KIND
from search.models import Item
from search.pipeline import rank_items
from search.query import SEARCHED_CHARS, SearchQuery
from search.retrieval.candidates import Scores
from search.searching import TURNS_ALONE

FIRST_HITS = 30
ELSEWHERE = 200  # the number of questions of other haystacks asked of each one
FEW_WORDS = 3
# The share of real questions with an answer, which a calibration assumes; a guess, and another share shifts all
# probabilities, not their order (ADR 58).
ANSWERED_SHARE = 0.75
BINS = np.linspace(0, 1, 11)

EVERYWHERE = Filters(kinds=TURNS_ALONE)

Turns = tuple[tuple[int, int], ...]
"""Conversation and number of turns."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome for one question: the probability of an answer, None if unknown, and the evidence for it.

    `kind` describes the question in words. `hits` are the evidence for the first hits, (n,) per name, and `right` (n,)
    says which of them answer.
    """

    kind: str
    question: Question
    is_answered: bool
    likelihood: float | None
    is_silent: bool
    evidence: Mapping[str, float]
    hits: Mapping[str, Scores]
    right: Mask


@dataclass(frozen=True, slots=True)
class _Plan:
    """A question to ask, the conversations to search, and whether these contain an answer."""

    kind: str
    question: Question
    is_answered: bool
    filters: Filters = EVERYWHERE


def ask_haystack(
    caller: Caller, haystack: Haystack, others: Sequence[Question], *, mode: str, bar: float, progress: OnProgress
) -> list[Asked]:
    """Ask each question with and without the conversations of its answer, and questions without an answer here."""
    stored = Stored.of(caller)
    rows = Item.objects.filter(archive_id=caller.archive_id, source__kind=KIND)
    items: dict[int, list[tuple[int, int]]] = {}
    for source_id, conversation_id, number in rows.values_list("source_id", "source__object_id", "number"):
        items.setdefault(source_id, []).append((conversation_id, number))
    turns = {source_id: tuple(turns) for source_id, turns in items.items()}
    plans: list[_Plan] = []
    for number, question in enumerate(haystack.questions):
        if len(stored.gold(question)):
            plans.extend(_of_question(number, question, stored, turns))
    for question in haystack.without_answer:
        plans.append(_Plan(question.category, question, is_answered=False))
    for question in others[:: max(1, len(others) // ELSEWHERE)]:
        plans.append(_Plan("asked elsewhere", question, is_answered=False))
    asked = []
    for number, plan in enumerate(plans, 1):
        query = SearchQuery(text=plan.question.text[:SEARCHED_CHARS], mode=mode, filters=plan.filters)
        ranked = rank_items(archive_id=caller.archive_id, query=query)
        evidence, first = ranked.relevance.evidence, ranked.order[:FIRST_HITS]
        gold = stored.gold(plan.question) if plan.is_answered else ranked.table.keys[:0]
        asked.append(
            Asked(
                plan.kind,
                plan.question,
                plan.is_answered,
                likelihood=ranked.relevance.answerable if len(first) else 0.0,
                is_silent=ranked.is_answered(bar) is False,
                evidence=evidence.query if evidence else {},
                hits=evidence.of_candidates(first) if evidence else {},
                right=np.isin(ranked.table.keys[first], gold),
            )
        )
        progress("asked", number, len(plans))
    return asked


def _of_question(number: int, question: Question, stored: Stored, turns: Mapping[int, Turns]) -> Iterator[_Plan]:
    """Yield the whole question, every second one also as a few words, every third one also of a single conversation."""
    homes = sorted(stored.homes(question))
    without = Filters(kinds=TURNS_ALONE, except_turns=tuple(turn for home in homes for turn in turns.get(home, ())))
    yield _Plan("answered", question, is_answered=True)
    yield _Plan("taken away", question, is_answered=False, filters=without)
    if number % 2 == 0 and (words := _few_words(question.text, 1 + number // 2 % FEW_WORDS)):
        short = replace(question, text=words)
        yield _Plan("few words", short, is_answered=True)
        yield _Plan("few words, taken away", short, is_answered=False, filters=without)
    others = sorted(turns.keys() - set(homes))
    if number % 3 == 0 and len(homes) == 1 and homes[0] in turns and others:
        for kind, source in (("its conversation", homes[0]), ("another conversation", others[number % len(others)])):
            one = Filters(kinds=TURNS_ALONE, conversation_id=turns[source][0][0])
            yield _Plan(kind, question, is_answered=source == homes[0], filters=one)


def _few_words(text: str, count: int) -> str:
    """Return the longest words, as in a keyword search."""
    words = list(dict.fromkeys(word.strip(punctuation) for word in text.split()))
    longest = sorted(words, key=len, reverse=True)[:count]
    return " ".join(word for word in words if word in longest and len(word) > FEW_WORDS)


def silence_figures(asked: Sequence[Asked], bar: float) -> dict[str, Any]:
    """Return the silenced shares by kind of question, precision and recall of silence, AUC, and reliability."""
    judged = [one for one in asked if one.likelihood is not None]
    likelihood = np.array([one.likelihood for one in judged], np.float64)
    answered = np.array([one.is_answered for one in judged], np.bool_)
    kinds = np.array([one.kind for one in judged])
    silent = np.array([one.is_silent for one in judged], np.bool_)
    return {
        "questions": len(judged),
        "not known": len(asked) - len(judged),
        "bar": bar,
        "silenced": {kind: _share(silent[kinds == kind]) for kind in sorted(set(kinds.tolist()))},
        "precision": _share(~answered[silent]),
        "precision where most are answered": precision_of_mix(silent, answered),
        "recall": _share(silent[~answered]),
        "auc": {kind: _auc(likelihood, answered, kinds == kind) for kind in sorted(set(kinds[~answered].tolist()))},
        "reliability": reliability(likelihood, answered),
    }


def _auc(likelihood: Floats, answered: Mask, others: Mask) -> float:
    """Return how well answered questions are separated from these others."""
    chosen = others | answered
    return round(area_under_curve(likelihood[chosen], answered[chosen]), 4)


def _share(hits: Mask) -> dict[str, Any]:
    share, low, high = share_with_interval(hits)
    return {"share": round(share, 4), "from": round(low, 4), "to": round(high, 4), "of": len(hits)}


def precision_of_mix(silent: Mask, answered: Mask) -> float:
    """Return the precision of silence if `ANSWERED_SHARE` of the questions is answered."""
    right = (1 - ANSWERED_SHARE) * (float(silent[~answered].mean()) if (~answered).any() else 0.0)
    wrong = ANSWERED_SHARE * (float(silent[answered].mean()) if answered.any() else 0.0)
    return round(right / (right + wrong), 4) if right + wrong else 0.0


def reliability(likelihood: Floats, answered: Mask) -> list[dict[str, float]]:
    """Return, for tenths of the likelihood, the number of questions, their mean likelihood, and the share answered.

    The share is that of the same mix of questions.
    """
    at = np.clip(np.digitize(likelihood, BINS) - 1, 0, len(BINS) - 2)
    mix = np.where(answered, ANSWERED_SHARE / max(answered.sum(), 1), (1 - ANSWERED_SHARE) / max((~answered).sum(), 1))
    return [
        {
            "from": round(float(BINS[number]), 1),
            "questions": int((at == number).sum()),
            "likelihood": round(float(np.average(likelihood[at == number], weights=mix[at == number])), 3),
            "answered": round(float(np.average(answered[at == number], weights=mix[at == number])), 3),
        }
        for number in np.unique(at).tolist()
    ]
