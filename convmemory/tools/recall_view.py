"""The view of a recall for its page: what came back, what did not and why, and the budget bar. Pure."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memory.context import Chunk, MemoryContext, Outcome, Part, RecalledMessage
from search.pages.snippets import without_markup

PieceState = Literal["brought", "alive", "missing"]
ANY_SIDE: Mapping[Part, str] = {"target": "Found", "further": "Found", "earlier": "The turn before"}
LABELS: Mapping[bool, Mapping[Part, str]] = {  # keyed by whether the found message is the question
    True: {"other opening": "Its answer", "own opening": "Its opening", **ANY_SIDE},
    False: {"other opening": "Its question", "own opening": "Its opening", **ANY_SIDE},
}


@dataclass(frozen=True, slots=True)
class PieceView:
    """A passage of a group with its outcome: it came back, was alive already, or did not fit."""

    label: str
    text: str
    state: PieceState
    reason: str = ""
    tokens: int = 0
    tokens_left: int = 0


@dataclass(frozen=True, slots=True)
class GroupView:
    """One found message with the openings of its turn. `untried` pieces were dropped with the target."""

    number: int
    message: RecalledMessage
    tokens: int
    left_out: bool
    pieces: tuple[PieceView, ...]
    untried: int

    @property
    def percent(self) -> int:
        return round(100 * (self.message.similarity or 0))


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of the budget bar, in percent of its width. `number` is the group's; 0 is the fence and links."""

    number: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class RecallView:
    """The recalled messages as the page shows them."""

    groups: tuple[GroupView, ...]
    segments: tuple[Segment, ...]
    tokens: int
    max_tokens: int
    context: str

    @property
    def brought(self) -> int:
        return sum(not group.left_out for group in self.groups)

    @property
    def left_out(self) -> int:
        return len(self.groups) - self.brought


def view_recall(messages: Sequence[RecalledMessage], context: MemoryContext, max_tokens: int) -> RecallView:
    """Return the view of recalled messages and of the context that was built from them."""
    groups = tuple(
        _group(number, message, outcome)
        for number, (message, outcome) in enumerate(zip(messages, context.resurrection.outcomes, strict=True), start=1)
    )
    return RecallView(
        groups=groups,
        segments=tuple(_segments(groups, context.tokens, max_tokens)),
        tokens=context.tokens,
        max_tokens=max_tokens,
        context=context.text,
    )


def _group(number: int, message: RecalledMessage, outcome: Outcome) -> GroupView:
    texts: dict[Hashable, str] = {passage.key: passage.text for passage in message.passages}
    for opening in (message.question_opening, message.answer_opening, *message.earlier):
        if opening:
            texts.setdefault(opening.passage.key, opening.passage.text)
    labels = LABELS[message.role == "user"]
    parts = list(outcome.group.parts())
    shown = [_piece(labels[part], chunk, without_markup(texts[chunk.key]), outcome) for part, chunk in parts]
    pieces = tuple(piece for piece in shown if piece is not None)
    return GroupView(number, message, outcome.tokens, outcome.left_out, pieces, len(parts) - len(pieces))


def _piece(label: str, chunk: Chunk, text: str, outcome: Outcome) -> PieceView | None:
    for bought in outcome.brought:
        if bought.key == chunk.key:
            return PieceView(label, text[: bought.chars], "brought", tokens=bought.tokens)
    if chunk in outcome.alive:
        return PieceView(label, text, "alive", "came back above already, costs nothing")
    left = {missing.chunk.key: missing.tokens_left for missing in outcome.missing}
    if chunk.key not in left:
        return None
    return PieceView(label, text, "missing", tokens=chunk.tokens, tokens_left=left[chunk.key])


def _segments(groups: tuple[GroupView, ...], tokens: int, max_tokens: int) -> Iterator[Segment]:
    """Yield each group's share of the budget from the left; the fence and the links come last."""
    spent = [(group.number, group.tokens) for group in groups if group.tokens]
    around = tokens - sum(count for _, count in spent)
    start = 0.0
    for number, count in [*spent, (0, max(0, around))]:
        width = 100 * count / max_tokens
        if width:
            yield Segment(number, round(start, 2), round(min(width, 100 - start), 2))
        start += width
