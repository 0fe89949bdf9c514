"""Stored messages as the conversation page shows them: speakers, turns, parts, and what an agent did in between."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext_lazy

from convmemory.conversations.messages.outcomes import NO_OUTCOME, Outcome, Spoken, outcome_of
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart
from convmemory.conversations.models import Message
from convmemory.conversations.pages.highlighting import MarkedPassage
from convmemory.conversations.pages.markdown_html import PageWork
from convmemory.conversations.pages.part_views import PartView, view_part
from convmemory.core.marks import Mark
from convmemory.core.text import one_line

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


MessageKind = Literal["user", "assistant", "tool", "system", "injected"]
_SPEAKERS: Mapping[MessageKind, "StrOrPromise"] = {
    "user": pgettext_lazy("speaker", "You"),
    "assistant": gettext_lazy("Assistant"),
    "tool": gettext_lazy("Tool output"),
    "system": gettext_lazy("System"),
    "injected": gettext_lazy("Added by the agent"),
}
# A question up to this length is shown as a heading as it is; of a longer one, its beginning.
QUESTION_CHARS, QUESTION_LINES, HEADING_CHARS = 400, 8, 200


@dataclass(frozen=True, slots=True)
class Note:
    """A remark of the product below a message; `raw`, what another server answered, is folded."""

    text: str
    is_warning: bool = False
    address: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a question that was edited or asked again: the number of this one, and its neighbours' ids."""

    number: int
    count: int
    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message as the page shows it. `opens_turn`: the first of its turn; `headed`: the speaker has changed.

    `mark` is the owner's mark of the turn that it opens, `outcome` that of the turn that it ends.
    """

    message_id: int
    position: int
    kind: MessageKind
    speaker: str
    model: str
    turn: int | None
    opens_turn: bool
    headed: bool
    is_target: bool
    created_at: datetime | None
    parts: tuple[PartView, ...]
    notes: Sequence[Note] = ()
    superseded: bool = False
    versions: Versions | None = None
    mark: Mark | None = None
    outcome: Outcome = NO_OUTCOME

    @property
    def has_heading(self) -> bool:
        return any(part.heading is not None for part in self.parts)

    @property
    def has_actions(self) -> bool:
        """True if it can be copied and linked to, unlike tool output."""
        return bool(self.parts) and self.kind in ("user", "assistant")


def view_messages(
    messages: Iterable[Message],
    *,
    turn_before: int | None = None,
    target: int | None = None,
    passage: MarkedPassage | None = None,
    notes: Mapping[int, Sequence[Note]] = MappingProxyType({}),
    versions: Mapping[int, Versions] = MappingProxyType({}),
    marks: Mapping[tuple[int, int], Mark] = MappingProxyType({}),
    outcomes: Mapping[int, Outcome] = MappingProxyType({}),
    whole: bool = False,
    work: PageWork | None = None,
) -> list[MessageView]:
    """Return messages in order, for the page. `turn_before` is the turn of the message before the first one.

    `marks` are those of turns, by conversation and turn, `outcomes` those of turns, by the last message of each.
    Parts are cut unless `whole`; `work` is the remaining work for the page.
    """
    views: list[MessageView] = []
    tools: dict[str, str] = {}
    work = work or PageWork()
    for message in messages:
        parts = message.typed_parts
        tools |= {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
        turn = message.turn_number
        kind = message_kind(message, parts)
        speaker = speaker_name(message, kind)
        opens_turn = turn is not None and turn != turn_before
        passage_here = passage if passage and passage.message_id == message.pk else None
        spans = {passage_here.part_index: passage_here.span} if passage_here else {}
        part_views = [
            view_part(part, index, tools=tools, whole=whole, passage=spans.get(index), work=work)
            for index, part in enumerate(parts)
        ]
        if opens_turn and kind == "user":
            question = next((at for at, view in enumerate(part_views) if view.type == "text" and view.gist), None)
            if question is not None:
                part_views[question] = _as_heading(part_views[question])
        views.append(
            MessageView(
                message_id=message.pk,
                position=message.position,
                kind=kind,
                speaker=speaker,
                model=message.model,
                turn=turn,
                superseded=message.superseded,
                opens_turn=opens_turn,
                headed=opens_turn or not _continues(kind, speaker, views),
                is_target=turn is not None and turn == target,
                created_at=message.created_at,
                parts=tuple(part_views),
                notes=notes.get(message.pk, ()),
                versions=versions.get(message.pk),
                mark=marks.get((message.conversation_id, turn)) if opens_turn and turn is not None else None,
                outcome=outcomes.get(message.pk, NO_OUTCOME),
            )
        )
        if not message.superseded:
            turn_before = turn
    return views


def _as_heading(view: PartView) -> PartView:
    """Return the text of a question with its heading: all of it, or the beginning of a long one."""
    text = view.source.text.strip() if isinstance(view.source, TextPart) else ""
    is_short = len(text) <= QUESTION_CHARS and text.count("\n") < QUESTION_LINES
    return replace(view, heading="" if is_short else one_line(text, HEADING_CHARS))


def message_kind(message: Message, parts: Sequence[Part]) -> MessageKind:
    """Return the kind of message that a reader sees: tool output and injected text also have the role user."""
    if message.role == Message.Role.ASSISTANT:
        return "assistant"
    if message.role == Message.Role.SYSTEM:
        return "system"
    if message.role == Message.Role.TOOL or any(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    has_text = any(isinstance(part, TextPart) for part in parts)
    return "injected" if has_text and not message.is_real_user else "user"


def speaker_name(message: Message, kind: MessageKind) -> str:
    """Return the message's speaker, for people."""
    return message.name or str(_SPEAKERS[kind])


def _continues(kind: MessageKind, speaker: str, views: Sequence[MessageView]) -> bool:
    """Return whether the message needs no heading: tool output, or the assistant continuing."""
    if kind == "tool":
        return bool(views)
    last = next((view for view in reversed(views) if view.kind != "tool"), None)
    return kind == "assistant" and last is not None and (last.kind, last.speaker) == (kind, speaker)


TOOLS_NAMED = 4
REMARK_CHARS = 280
_TOOL_PARTS = ("tool_call", "tool_result")
_IN_RUNS = ("assistant", "tool")


# Consecutive tool calls form a run, which the page collapses to one line ("12 steps, 3 files"), even across messages. A
# call and its result are one step. Short remarks between calls ("Now I run the tests.") are in the run, too: what an
# agent says before its first call and after its last one stays outside, and so does a longer text.
@dataclass(frozen=True, slots=True)
class Step:
    """A call with its result, a result whose call is not on the page, or a thought or a remark between calls.

    `position` and `result_position` are the positions of the messages of `part` and `result`.
    """

    position: int
    part: PartView
    result: PartView | None = None
    result_position: int = 0

    @property
    def label(self) -> str:
        """Return the name of the tool, or whose result it is."""
        name = self.part.label
        if self.part.type != "tool_result":
            return name or gettext("Tool")
        if name:
            text = gettext("Error of %(label)s") if self.is_error else gettext("Result of %(label)s")
            return text % {"label": name}
        return gettext("Error") if self.is_error else gettext("Result")

    @property
    def icon(self) -> str:
        return "warning" if self.is_error else "tool" if self.part.type == "tool_call" else "result"

    @property
    def gist(self) -> str:
        """Return the line after the label; a call without parameters has none."""
        return self.part.gist or ("" if self.part.type == "tool_call" else gettext("(empty)"))

    @property
    def is_error(self) -> bool:
        return self.part.is_error or (self.result is not None and self.result.is_error)

    @property
    def is_open(self) -> bool:
        """True if it contains the passage that a link leads to."""
        return self.part.passage is not None or (self.result is not None and self.result.passage is not None)

    @property
    def is_remark(self) -> bool:
        return self.part.type not in _TOOL_PARTS


@dataclass(frozen=True, slots=True)
class StepRun:
    """Consecutive steps, with their outcome: the files that they changed, the commands that passed and failed.

    `is_all_work`: the turn's last line shows the same, as all of its work is in these steps.
    """

    steps: tuple[Step, ...]
    outcome: Outcome = NO_OUTCOME
    is_all_work: bool = False

    @classmethod
    def of(cls, steps: Sequence[Step], outcome_of_turn: Outcome) -> "StepRun":
        """Return steps with their outcome."""
        views = (view for step in steps for view in (step.part, step.result) if view)
        parts = tuple(view.source for view in views if view.type in _TOOL_PARTS and view.source)
        outcome = outcome_of([Spoken("assistant", parts)])
        return cls(tuple(steps), outcome, outcome == replace(outcome_of_turn, conclusion=""))

    @property
    def count(self) -> int:
        return sum(not step.is_remark for step in self.steps)

    @property
    def failed(self) -> int:
        return sum(step.is_error for step in self.steps)

    @property
    def is_open(self) -> bool:
        return any(step.is_open for step in self.steps)

    @property
    def is_folded(self) -> bool:
        return self.count > 1

    @property
    def label(self) -> str:
        """Return the line of the fold: "12 steps, 3 files"."""
        count, files = self.count, len(self.outcome.files)
        steps = ngettext("%(count)s step", "%(count)s steps", count) % {"count": count}
        if not files:
            return steps
        changed = ngettext("%(count)s file", "%(count)s files", files) % {"count": files}
        return gettext("%(steps)s, %(files)s") % {"steps": steps, "files": changed}

    @property
    def tools(self) -> str:
        """Return the tools used, most frequent first: "8 Bash, 3 Read, 1 Edit"."""
        tools = Counter(one_line(step.part.label, 80) or "tool" for step in self.steps if not step.is_remark)
        named = [f"{count} {name}" for name, count in tools.most_common(TOOLS_NAMED)]
        others = tools.total() - sum(count for _, count in tools.most_common(TOOLS_NAMED))
        more = ngettext("%(count)s other", "%(count)s others", others) % {"count": others}
        return ", ".join([*named, more] if others else named)


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """A message, or a stretch of one, and the run of steps that follows it; `last_position` is the last message's.

    `outcome` is that of the turn that ends with it.
    """

    view: MessageView
    run: StepRun | None
    last_position: int
    outcome: Outcome = NO_OUTCOME


def fold_steps(views: Iterable[MessageView]) -> list[MessageBlock]:
    """Return the messages of a page with their tool calls in runs."""
    folding = _Folding()
    for view in views:
        folding.take(view)
    drafts: list[_Draft] = []
    for draft in folding.drafts:
        if drafts and drafts[-1].steps and draft.is_remark:
            drafts[-1].take_remark(draft)
        else:
            drafts.append(draft)
    blocks: list[MessageBlock] = []
    outcome_of_turn = NO_OUTCOME
    for draft in reversed(drafts):
        if draft.outcome != NO_OUTCOME or (blocks and blocks[-1].view.turn != draft.view.turn):
            outcome_of_turn = draft.outcome
        blocks.append(draft.block(outcome_of_turn))
    return blocks[::-1]


@dataclass(slots=True)
class _Draft:
    view: MessageView
    last_position: int
    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    outcome: Outcome = NO_OUTCOME

    @property
    def is_remark(self) -> bool:
        """Return whether it holds only short texts of an agent between its steps."""
        view = self.view
        goes_on = bool(self.steps) and view.kind in _IN_RUNS and not (view.headed or view.opens_turn or view.superseded)
        is_text = all(part.type in ("text", "thinking") for part in view.parts)
        return goes_on and is_text and sum(part.chars for part in view.parts if part.type == "text") <= REMARK_CHARS

    def take_remark(self, remark: "_Draft") -> None:
        """Take a remark and the steps that follow it into the run."""
        self.steps += [Step(remark.view.position, part) for part in remark.view.parts] + remark.steps
        self.notes += remark.notes
        self.last_position, self.outcome = remark.last_position, remark.outcome

    def block(self, outcome_of_turn: Outcome) -> MessageBlock:
        run = StepRun.of(self.steps, outcome_of_turn) if self.steps else None
        return MessageBlock(replace(self.view, notes=tuple(self.notes)), run, self.last_position, self.outcome)


class _Folding:
    """The blocks so far, and the places of calls that still lack a result."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self._waiting: dict[str, tuple[_Draft, int]] = {}

    def take(self, view: MessageView) -> None:
        is_first = True
        for has_steps, parts in self._stretches(view):
            if has_steps:
                for part in parts:
                    if part.type == "tool_result" and part.call_id in self._waiting:
                        draft, index = self._waiting.pop(part.call_id)
                        draft.steps[index] = replace(draft.steps[index], result=part, result_position=view.position)
                        continue
                    draft = self.drafts[-1] if self._goes_on(view) else self._begin(view, (), is_first=is_first)
                    if part.type == "tool_call" and part.call_id:
                        self._waiting[part.call_id] = draft, len(draft.steps)
                    draft.steps.append(Step(view.position, part))
            else:
                self._begin(view, parts, is_first=is_first)
            is_first = False
        if is_first:
            self._begin(view, (), is_first=True)
        self.drafts[-1].last_position = view.position
        self.drafts[-1].notes += view.notes
        self.drafts[-1].outcome = view.outcome

    def _stretches(self, view: MessageView) -> Iterator[tuple[bool, tuple[PartView, ...]]]:
        """Yield the message's parts, split where steps begin and end; a thought after a step is itself a step."""
        if view.superseded or view.kind not in _IN_RUNS:
            yield False, view.parts
            return
        is_step, kinds = bool(self.drafts and self.drafts[-1].steps and self._goes_on(view)), []
        for part in view.parts:
            is_step = part.type in _TOOL_PARTS or (is_step and part.type == "thinking")
            kinds.append((is_step, part))
        for has_steps, stretch in groupby(kinds, key=lambda pair: pair[0]):
            yield has_steps, tuple(part for _, part in stretch)

    def _goes_on(self, view: MessageView) -> bool:
        """Return whether the steps of this message belong to the last block."""
        if not self.drafts:
            return False
        last = self.drafts[-1].view
        is_same = last.message_id == view.message_id
        may = last.kind in _IN_RUNS and not last.superseded and last.turn == view.turn
        return is_same or (may and not view.headed and not view.opens_turn)

    def _begin(self, view: MessageView, parts: tuple[PartView, ...], *, is_first: bool) -> _Draft:
        begun = view if is_first else replace(view, headed=False, opens_turn=False)
        draft = _Draft(replace(begun, parts=parts), view.position)
        self.drafts.append(draft)
        return draft
