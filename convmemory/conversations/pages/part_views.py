"""The parts of a message as a page shows them: safe HTML, plain text and call parameters, cut to a length.

The passage of a link is marked, and the number of characters cut off is counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.utils.safestring import SafeString, mark_safe

from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    tool_call_text,
)
from convmemory.conversations.pages.ansi import ansi_html, has_sequences, without_sequences
from convmemory.conversations.pages.diffs import Diff, diff_of
from convmemory.conversations.pages.highlighting import MarkedSpan, highlight_markdown, highlight_text, without_markers
from convmemory.conversations.pages.markdown_html import SHOWN_AS_IT_IS, PageWork, TooMuchWork, sanitised_html
from convmemory.conversations.pages.tool_cards import Todo, card_line, plain_value, todos_of
from convmemory.core.text import one_line, recalled_spans, without_recalled

TEXT_CHARS = 12_000
TOOL_CHARS = 3_000
# Longer text is shown as plain text, even on a page of its own.
WHOLE_MARKDOWN_CHARS = 200_000
GIST_CHARS = 120
GIST_SOURCE_CHARS = GIST_CHARS * 8  # before white space is folded
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
SHORT_FIELD_CHARS = 100
AROUND_PASSAGE_CHARS = 600
EVERYTHING = MarkedSpan(0, 2**31)


@dataclass(frozen=True, slots=True)
class Field:
    """A named parameter of a tool call, as text; `marked` is its HTML if it contains a passage."""

    name: str
    text: str
    marked: SafeString | None = None

    @property
    def is_short(self) -> bool:
        return len(self.text) <= SHORT_FIELD_CHARS and "\n" not in self.text


@dataclass(frozen=True, slots=True)
class PartView:
    """One part as the page shows it. `index` is its position in the message; `left_out` counts cut characters.

    `passage` is the passage within it, `is_marked` whether that is marked. A call and its result share `call_id`;
    `diff` is a call's change to a file, `todos` the list that it sets; `is_image` says that the part has a picture to
    show, `picture` is its address in a file of its own. `recalled` is what our own recall has added to a text, shown
    folded. `source` is the part itself. `heading` is set in the question that opens a turn: its beginning, or "" if all
    of it is short enough for a heading.
    """

    index: int
    type: str
    html: SafeString | None = None
    text: str = ""
    fields: tuple[Field, ...] = ()
    label: str = ""
    gist: str = ""
    is_error: bool = False
    left_out: int = 0
    passage: MarkedSpan | None = None
    is_marked: bool = False
    remark: str = ""
    call_id: str = ""
    diff: Diff | None = None
    todos: tuple[Todo, ...] = ()
    is_image: bool = False
    picture: str = ""
    recalled: str = ""
    source: Part | None = field(default=None, repr=False)
    heading: str | None = None

    @property
    def chars(self) -> int:
        """Return the length of a text, without what is only shown folded."""
        return len(self.source.text) if isinstance(self.source, (TextPart, ThinkingPart)) else 0

    @property
    def is_unmarked_passage(self) -> bool:
        """Return whether it contains the passage and cannot mark it, so that the whole part is marked."""
        return self.passage is not None and not self.is_marked


def view_part(
    part: Part,
    index: int,
    *,
    tools: Mapping[str, str],
    whole: bool = False,
    passage: MarkedSpan | None = None,
    work: PageWork | None = None,
) -> PartView:
    """Return the part for the page, cut to what a page can show unless `whole`. `tools` names tools by call id.

    `work` is the remaining work for the page; without it the part is a page of its own.
    """
    if isinstance(part, TextPart) and (spans := recalled_spans(part.text)):
        recalled = "\n\n".join(part.text[start:end] for start, end in spans)
        without = replace(part, text=without_recalled(part.text))
        view = _view_text(without, index, whole=whole, passage=passage, work=work or PageWork())
        return replace(view, recalled=_cut(recalled, TOOL_CHARS, whole=whole)[0])
    if isinstance(part, (TextPart, ThinkingPart)):
        return _view_text(part, index, whole=whole, passage=passage, work=work or PageWork())
    if isinstance(part, ToolCallPart):
        return _view_call(part, index, whole=whole, passage=passage)
    if isinstance(part, ToolResultPart):
        view = PartView(
            index,
            part.type,
            label=part.name or tools.get(part.call_id, ""),
            gist=_first_line(without_sequences(part.text[:GIST_SOURCE_CHARS])),
            is_error=part.is_error,
            call_id=part.call_id,
            source=part,
        )
    else:
        facts = [part.media_type, _size(part.size_bytes) if part.size_bytes else ""]
        is_image = part.media_type in SHOWN_IMAGES and part.size_bytes > 0
        view = PartView(index, part.type, label=part.name, gist=", ".join(filter(None, facts)), is_image=is_image)
    return _with_output(view, part.text, whole=whole, passage=passage)


def _with_output(view: PartView, full: str, *, whole: bool, passage: MarkedSpan | None) -> PartView:
    """Return the view with plain text; for a passage far down, with the beginning and the text around it."""
    if passage is None:
        text, left_out = _cut(full, TOOL_CHARS, whole=whole)
        return replace(view, text=ansi_html(text) if has_sequences(text) else text, left_out=left_out)
    if whole or passage.end <= TOOL_CHARS + AROUND_PASSAGE_CHARS or passage.start >= len(full):
        text, left_out = _cut(full, TOOL_CHARS, whole=whole, keep=passage.end)
        marked = highlight_text(text, passage)
    else:
        head, _ = _cut(full, TOOL_CHARS - AROUND_PASSAGE_CHARS, whole=False)
        start = max(len(head), passage.start - AROUND_PASSAGE_CHARS)
        near = full[start : passage.end + AROUND_PASSAGE_CHARS]
        left_out = len(full) - len(head) - len(near)
        text = f"{head}\n[…]\n{near}"
        marked = highlight_text(text, passage.shifted(len(text) - len(near) - start))
    return replace(view, text=marked or text, left_out=left_out, passage=passage, is_marked=marked is not None)


def _view_text(
    part: TextPart | ThinkingPart, index: int, *, whole: bool, passage: MarkedSpan | None, work: PageWork
) -> PartView:
    view = PartView(index, part.type, gist=_first_line(part.text), passage=passage, source=part)
    shown = passage and passage.shifted(len(part.text.lstrip("\n")) - len(part.text))
    text, left_out = _cut(part.text.strip("\n"), TEXT_CHARS, whole=whole, keep=shown.end if shown else 0)
    if len(text) > WHOLE_MARKDOWN_CHARS:
        return replace(_with_output(view, text, whole=whole, passage=shown), passage=passage)
    try:
        marked = highlight_markdown(text, shown, lambda marked: sanitised_html(marked, work)) if shown else None
        html = marked or mark_safe(sanitised_html(without_markers(text), work))  # noqa: S308 - the sanitiser's output
    except TooMuchWork:
        plain = _with_output(view, part.text, whole=whole, passage=passage)
        return replace(plain, remark=SHOWN_AS_IT_IS)
    return replace(view, html=html, left_out=left_out, is_marked=marked is not None)


def _view_call(part: ToolCallPart, index: int, *, whole: bool, passage: MarkedSpan | None) -> PartView:
    diff = diff_of(part.name, part.input)
    if diff and passage:
        # Values that are no text are part of it as JSON, in which an escape stands for the end of a line.
        diff = diff.marking(tool_call_text(part)[passage.start : passage.end].replace("\\n", "\n"))
    if diff:
        gist = f"{one_line(diff.path, GIST_CHARS)} +{diff.added} -{diff.removed}".strip()
        shown, left_out = (diff, 0) if whole else diff.cut(TOOL_CHARS)
        view = PartView(index, part.type, label=part.name, gist=gist, call_id=part.id, diff=shown, left_out=left_out)
        is_marked = bool(view.diff and any(line.mark for line in view.diff.lines))
        return replace(view, passage=passage, is_marked=is_marked, source=part)
    fields: list[Field] = []
    left_out, room = 0, TOOL_CHARS
    if passage:
        # The span of a passage of the call's text in each parameter; all of a value that is not text.
        spans, at = {}, len(part.name)
        for name, value in part.input.items():
            start = at + len(f" {name}:")
            at += len(tool_call_text(ToolCallPart("", "", {name: value})))
            if passage.start < at and passage.end > start:
                is_text = isinstance(value, str)
                spans[name] = MarkedSpan(passage.start, min(passage.end, at)).shifted(-start) if is_text else EVERYTHING
    else:
        spans = {}
    is_marked = False
    for name, value in part.input.items():
        text, cut_off = _cut(plain_value(value), max(room, 0), whole=whole)
        room -= len(text)
        left_out += cut_off
        span = spans.get(name)
        marked = highlight_text(text, span, is_first=not is_marked) if span else None
        is_marked = is_marked or marked is not None
        if text or not cut_off:
            fields.append(Field(str(name), text, marked))
    view = PartView(
        index,
        part.type,
        fields=tuple(fields),
        label=part.name,
        gist=card_line(part.input, GIST_CHARS),
        call_id=part.id,
        todos=() if passage or whole else todos_of(part.input),
        source=part,
    )
    return replace(view, left_out=left_out, passage=passage, is_marked=is_marked)


def _cut(text: str, max_chars: int, *, whole: bool, keep: int = 0) -> tuple[str, int]:
    """Return `text` cut at a line that ends near `max_chars`, but not before `keep`, and the number of cut
    characters.
    """
    max_chars = max(max_chars, keep + AROUND_PASSAGE_CHARS) if keep else max_chars
    if whole or len(text) <= max_chars:
        return text, 0
    head = text[:max_chars]
    line_end = head.rfind("\n", max(max_chars * 3 // 4, keep))
    head = head[:line_end] if line_end > 0 else head
    return head, len(text) - len(head)


def _first_line(text: str) -> str:
    start = text[:GIST_SOURCE_CHARS].lstrip()
    return one_line(start.split("\n", 1)[0], GIST_CHARS)


def _size(size_bytes: int) -> str:
    for unit, size in (("MB", 1024**2), ("KB", 1024)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"
