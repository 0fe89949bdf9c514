"""Brings recalled passages back into a context under a token budget, together with their openings. Pure.

A hit comes back with the openings of its turn: a passage of an answer with the first sentence of the question and of
the answer, a passage of a question with those of the answer and of the question. Passages already alive in the context
cost nothing and are not brought back again. If a group does not fit, as much of it is brought back as fits: the target
first, then the opening of the other side, then the opening of its own side. If not even the target fits, the group is
left out and the next one is tried.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Part = Literal["target", "other opening", "own opening"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of text, named by its key, and its number of tokens in the context."""

    key: Hashable
    tokens: int


@dataclass(frozen=True, slots=True)
class Group:
    """One hit: the chunks of its target, the most similar first, and its partners.

    If the target has several chunks, the first must come back, and the others precede the partners. A partner may be
    one of the target's own chunks; it is counted once.
    """

    target: tuple[Chunk, ...]
    other_opening: Chunk | None = None
    own_opening: Chunk | None = None

    def parts(self) -> Iterator[tuple[Part, Chunk]]:
        """Yield each chunk once, by priority."""
        chunks: list[tuple[Part, Chunk | None]] = [
            *(("target", chunk) for chunk in self.target),
            ("other opening", self.other_opening),
            ("own opening", self.own_opening),
        ]
        seen: set[Hashable] = set()
        for part, chunk in chunks:
            if chunk is not None and chunk.key not in seen:
                seen.add(chunk.key)
                yield part, chunk


@dataclass(frozen=True, slots=True)
class Missing:
    """A chunk that did not fit: its size, and the remaining budget."""

    part: Part
    chunk: Chunk
    tokens_left: int

    @property
    def reason(self) -> str:
        return f"needs {self.chunk.tokens} tokens, {self.tokens_left} were left"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for one group: chunks brought back, chunks already alive, chunks that did not fit."""

    group: Group
    brought: tuple[Chunk, ...] = ()
    alive: tuple[Chunk, ...] = ()
    missing: tuple[Missing, ...] = ()

    @property
    def left_out(self) -> bool:
        """Return whether the group is absent from the context because its target did not fit."""
        return any(missing.chunk == self.group.target[0] for missing in self.missing)

    @property
    def tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.brought)


@dataclass(frozen=True, slots=True)
class Resurrection:
    """The outcomes of all groups, in their order, under `budget` tokens."""

    budget: int
    outcomes: tuple[Outcome, ...] = ()

    @property
    def brought(self) -> tuple[Chunk, ...]:
        """Return each chunk that comes back, once, in the order of choice."""
        return tuple(chunk for outcome in self.outcomes for chunk in outcome.brought)

    @property
    def tokens(self) -> int:
        """Return the used part of the budget."""
        return sum(outcome.tokens for outcome in self.outcomes)

    @property
    def left_out(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.left_out)


def resurrect(groups: Iterable[Group], *, budget: int, alive: Collection[Hashable] = frozenset()) -> Resurrection:
    """Choose the chunks that come back, group by group in the given order, the best first.

    `alive` are the keys of the chunks already in the context.
    """
    living = set(alive)
    left = budget
    outcomes = []
    for group in groups:
        outcome = _bring_back(group, left, living)
        living.update(chunk.key for chunk in outcome.brought)
        left -= outcome.tokens
        outcomes.append(outcome)
    return Resurrection(budget, tuple(outcomes))


def _bring_back(group: Group, left: int, living: set[Hashable]) -> Outcome:
    brought: list[Chunk] = []
    alive: list[Chunk] = []
    missing: list[Missing] = []
    for part, chunk in group.parts():
        if chunk.key in living:
            alive.append(chunk)
        elif chunk.tokens <= left:
            brought.append(chunk)
            left -= chunk.tokens
        else:
            missing.append(Missing(part, chunk, left))
            if chunk == group.target[0]:
                # A partner without its target says nothing.
                break
    return Outcome(group, tuple(brought), tuple(alive), tuple(missing))
