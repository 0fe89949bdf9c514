"""Generates questions from an archive's own turns, to compare models without labels. Pure.

A question of each of three kinds must not find the words that it was generated from. "question": the first sentence of
a question has to find its turn by the answer alone. "title": a conversation's title has to find one of its turns by the
answers alone. "mention": the first sentence of a later turn has to find another turn of the same conversation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MIN_WORDS = 4
MAX_CHARS = 300
SAME_BEGINNING = 30

OwnKind = Literal["question", "title", "mention"]
KINDS: tuple[OwnKind, ...] = ("question", "title", "mention")


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """A turn as it is searched. `asked` and `answered` are texts of passages, `opening` is the first sentence."""

    conversation: int
    title: str
    opening: str
    asked: tuple[str, ...]
    answered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A generated question. `gold` and `hidden` are indices into the list of turns; hidden turns leave the results."""

    kind: OwnKind
    text: str
    conversation: int
    gold: frozenset[int]
    hidden: frozenset[int] = frozenset()

    @property
    def by_answers(self) -> bool:
        """Return whether only answers are searched."""
        return self.kind != "mention"


def make_questions(turns: Sequence[OwnTurn], *, at_most: int, seed: int = 0) -> list[OwnQuestion]:
    """Return at most `at_most` questions of each kind; the same seed draws the same ones."""
    by_conversation: dict[int, list[int]] = {}
    for position, turn in enumerate(turns):
        by_conversation.setdefault(turn.conversation, []).append(position)
    made: dict[OwnKind, list[OwnQuestion]] = {
        "question": [
            OwnQuestion("question", turn.opening[:MAX_CHARS], turn.conversation, frozenset({position}))
            for position, turn in enumerate(turns)
            if turn.answered and _asks_enough(turn.opening)
        ],
        "title": [],
        "mention": [],
    }
    for conversation, places in by_conversation.items():
        title, answered = turns[places[0]].title, frozenset(position for position in places if turns[position].answered)
        # Many programs name a conversation after the beginning of a message.
        beginning = title[:SAME_BEGINNING].casefold()
        is_taken = any(turns[position].opening.casefold().startswith(beginning) for position in places)
        if answered and _asks_enough(title) and not is_taken:
            made["title"].append(OwnQuestion("title", title[:MAX_CHARS], conversation, answered))
        for position in places[1:]:
            opening, others = turns[position].opening, frozenset(places) - {position}
            if _asks_enough(opening):
                question = OwnQuestion(
                    "mention", opening[:MAX_CHARS], conversation, others, hidden=frozenset({position})
                )
                made["mention"].append(question)
    drawn = random.Random(seed)  # noqa: S311 - repeatable on purpose
    return [each for kind in KINDS for each in drawn.sample(made[kind], min(at_most, len(made[kind])))]


def _asks_enough(text: str) -> bool:
    return len(text[:MAX_CHARS].split()) >= MIN_WORDS
