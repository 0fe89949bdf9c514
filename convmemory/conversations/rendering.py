"""Turning messages into what the conversation page shows. Messages in, safe HTML and plain values out.

Transcripts are untrusted. Raw HTML in them is shown as text; what Markdown makes of the rest passes a
sanitiser that knows only the tags below. Links leave without telling where from, or lead to a turn or section of the
archive; images are never loaded, they become links; other addresses (relative, `file:`, `javascript:`) become text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import nh3
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy, pgettext_lazy
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]

from convmemory.conversations.ansi import ansi_html, has_sequences, without_sequences
from convmemory.conversations.diffs import Diff, diff_of
from convmemory.conversations.highlighting import (
    MarkedSpan,
    Passage,
    around_markers,
    highlight_markdown,
    highlight_text,
    unmarked,
    without_markers,
)
from convmemory.conversations.models import Message
from convmemory.conversations.parts import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    tool_call_text,
)
from convmemory.conversations.rendering_work import TooMuchWork, Work, count_work, highlight_code
from convmemory.core.text import one_line

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEXT_CHARS = 12_000
TOOL_CHARS = 3_000
WHOLE_MARKDOWN_CHARS = 200_000
GIST_CHARS = 120
GIST_SOURCE_CHARS = GIST_CHARS * 8
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
SHOWN_AS_IT_IS = "Shown as it is: to lay out all of this page's Markdown would take too long."
SHORT_FIELD_CHARS = 100
AROUND_PASSAGE_CHARS = 600
EVERYTHING = MarkedSpan(0, 2**31)
_GIST_FIELDS = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "title")

MessageKind = Literal["user", "assistant", "tool", "system", "injected"]
_SPEAKERS: Mapping[MessageKind, "StrOrPromise"] = {
    "user": pgettext_lazy("speaker", "You"),
    "assistant": gettext_lazy("Assistant"),
    "tool": gettext_lazy("Tool output"),
    "system": gettext_lazy("System"),
    "injected": gettext_lazy("Added by the agent"),
}

# --- Markdown -------------------------------------------------------------------------------------

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "a", "span", "div"),
    *("code", "pre", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "span": {"title"}, "ol": {"start"}, "div": {"data-language"}}
_SCHEMES = {"http", "https", "mailto"}
_CLASSES = {
    "span": {name for name in STANDARD_TYPES.values() if name} | {"reference"},
    "a": {"image-link", "citation"},
    "div": {"code", "table"},
    **{cell: {"left", "center", "right"} for cell in ("th", "td")},
}
_OWN_PLACE = re.compile(
    r"/conversations/[0-9]{1,18}(?:\?turn=[0-9]{1,9})?(?:#turn-[0-9]{1,9})?|/documents/[0-9]{1,18}"
    r"(?:\?section=[0-9]{1,9}(?:&from=[0-9]{1,9}&to=[0-9]{1,9})?)?(?:#section-[0-9]{1,9})?"
)
_BARE_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?*_]")


def render_markdown(text: str) -> SafeString:
    """Sanitised HTML of Markdown from a transcript; the text itself, with a remark, where that takes too much work."""
    text = without_markers(text)
    try:
        return mark_safe(_sanitised(text, Work()))  # noqa: S308 - the sanitiser's output
    except TooMuchWork:
        plain = f'<pre class="output">{escape(text)}</pre><p class="muted">{SHOWN_AS_IT_IS}</p>'
        return mark_safe(plain)  # noqa: S308 - escaped


def _sanitised(text: str, work: Work) -> str:
    """HTML of Markdown; a passage's markers stay where they stand in text. Raises: TooMuchWork."""
    return nh3.clean(
        _markdown.render(text, {"work": work}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=_SCHEMES,
        url_relative="pass_through",  # the renderer makes links of addresses in this archive alone
        link_rel="noopener noreferrer nofollow",
    )


class _Renderer(RendererHTML):
    """Markdown's usual HTML, but for links, images, code and tables."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[idx].content
        if "://" not in content or env.get("links"):
            return escape(content)
        return _with_links(content)

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = token.info.strip().split(maxsplit=1)[0].strip("{}.")[:30] if token.info.strip() else ""
        code = around_markers(token.content, lambda plain: highlight_code(plain, language.lower(), env["work"]))
        return f'<div class="code" data-language="{escape(language)}"><pre><code>{code}</code></pre></div>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<div class="code"><pre><code>{escape(tokens[idx].content)}</code></pre></div>\n'

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        label = escape(token.content or "image")
        address = str(token.attrs.get("src", ""))
        if _leads_out(address):
            return f'<a class="image-link" href="{escape(address)}">{label}</a>'
        return f'<span class="reference" title="{escape(address[:200])}">{label}</span>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        address = str(tokens[idx].attrs.get("href", ""))
        env.setdefault("links", []).append(_leads_out(address) or _is_own_place(address))
        if env["links"][-1]:
            is_citation = _is_own_place(address) and tokens[idx + 1].content.isdigit()
            kind = ' class="citation"' if is_citation else ""
            return f'<a href="{escape(address)}"{kind}>'
        return f'<span class="reference" title="{escape(address[:200])}">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</a>" if env["links"].pop() else "</span>"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        side = str(token.attrs.get("style", "")).removeprefix("text-align:")
        return f'<{token.tag} class="{escape(side)}">' if side else f"<{token.tag}>"

    td_open = th_open


def _with_links(text: str) -> str:
    """`text` escaped, with bare addresses made into links."""
    pieces, end = [], 0
    for match in _BARE_ADDRESS.finditer(text):
        address = match.group()
        if address.endswith(")") and "(" not in address:
            address = address.rstrip(")")
        pieces += [escape(text[end : match.start()]), f'<a href="{escape(unmarked(address))}">{escape(address)}</a>']
        end = match.start() + len(address)
    return "".join([*pieces, escape(text[end:])])


def _is_own_place(address: str) -> bool:
    """Whether the address is a turn or a section of this archive, as models cite what they found."""
    return len(address) < 100 and _OWN_PLACE.fullmatch(address) is not None


def _leads_out(address: str) -> bool:
    return address.lower().startswith(("http://", "https://", "mailto:"))


def _make_markdown() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": True}
    markdown = MarkdownIt("commonmark", options, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    count_work(markdown)
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]  # the renderer turns them into text
    return markdown


_markdown = _make_markdown()

# --- parts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A named parameter of a tool call, as text; `marked` is its HTML where it holds a passage."""

    name: str
    text: str
    marked: SafeString | None = None

    @property
    def is_short(self) -> bool:
        return len(self.text) <= SHORT_FIELD_CHARS and "\n" not in self.text


@dataclass(frozen=True, slots=True)
class PartView:
    """One part as the page shows it. `index` is its place in the message; `left_out` counts cut characters.

    `passage` is the passage that it holds, `is_marked` whether that stands marked in it. `call_id` is a call's and its
    result's, `diff` what a call changes in a file, `is_image` says that the part has a picture to show.
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
    is_image: bool = False


def view_part(
    part: Part,
    index: int,
    *,
    tools: Mapping[str, str],
    whole: bool = False,
    passage: MarkedSpan | None = None,
    work: Work | None = None,
) -> PartView:
    """The part for the page, cut to what a page can hold unless `whole`. `tools` names tools by call id.

    `work` is what is left for the page; without it the part is a page of its own.
    """
    if isinstance(part, (TextPart, ThinkingPart)):
        return _view_text(part, index, whole=whole, passage=passage, work=work or Work())
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
        )
    else:
        facts = [part.media_type, _size(part.size_bytes) if part.size_bytes else ""]
        is_image = part.media_type in SHOWN_IMAGES and part.size_bytes > 0
        view = PartView(index, part.type, label=part.name, gist=", ".join(filter(None, facts)), is_image=is_image)
    return _with_output(view, part.text, whole=whole, passage=passage)


def _with_output(view: PartView, full: str, *, whole: bool, passage: MarkedSpan | None) -> PartView:
    """The view with plain text; where a passage stands far down, with the head and what is around it."""
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
    part: TextPart | ThinkingPart, index: int, *, whole: bool, passage: MarkedSpan | None, work: Work
) -> PartView:
    view = PartView(index, part.type, gist=_first_line(part.text), passage=passage)
    shown = passage and passage.shifted(len(part.text.lstrip("\n")) - len(part.text))
    text, left_out = _cut(part.text.strip("\n"), TEXT_CHARS, whole=whole, keep=shown.end if shown else 0)
    if len(text) > WHOLE_MARKDOWN_CHARS:
        return replace(_with_output(view, text, whole=whole, passage=shown), passage=passage)
    try:
        marked = highlight_markdown(text, shown, lambda marked: _sanitised(marked, work)) if shown else None
        html = marked or mark_safe(_sanitised(without_markers(text), work))  # noqa: S308 - the sanitiser's output
    except TooMuchWork:
        plain = _with_output(view, part.text, whole=whole, passage=passage)
        return replace(plain, remark=SHOWN_AS_IT_IS)
    return replace(view, html=html, left_out=left_out, is_marked=marked is not None)


def _view_call(part: ToolCallPart, index: int, *, whole: bool, passage: MarkedSpan | None) -> PartView:
    diff = None if passage else diff_of(part.name, part.input)
    if diff:
        return _view_diff(part, index, diff, whole=whole)
    fields: list[Field] = []
    left_out, room = 0, TOOL_CHARS
    spans = _spans_of_parameters(part, passage) if passage else {}
    is_marked = False
    for name, value in part.input.items():
        text, cut_off = _cut(_plain(value), max(room, 0), whole=whole)
        room -= len(text)
        left_out += cut_off
        span = spans.get(name)
        marked = highlight_text(text, span, is_first=not is_marked) if span else None
        is_marked = is_marked or marked is not None
        if text or not cut_off:
            fields.append(Field(str(name), text, marked))
    gist = _call_gist(part.input)
    view = PartView(index, part.type, fields=tuple(fields), label=part.name, gist=gist, call_id=part.id)
    return replace(view, left_out=left_out, passage=passage, is_marked=is_marked)


def _view_diff(part: ToolCallPart, index: int, diff: Diff, *, whole: bool) -> PartView:
    """A call that edits a file, as the lines that it takes out and puts in."""
    gist = f"{one_line(diff.path, GIST_CHARS)} +{diff.added} -{diff.removed}".strip()
    shown, left_out = (diff, 0) if whole else diff.cut(TOOL_CHARS)
    return PartView(index, part.type, label=part.name, gist=gist, call_id=part.id, diff=shown, left_out=left_out)


def _spans_of_parameters(part: ToolCallPart, passage: MarkedSpan) -> dict[str, MarkedSpan]:
    """Where a passage of the call's text stands in its parameters; a value that is not text counts as a whole."""
    spans, at = {}, len(part.name)
    for name, value in part.input.items():
        start = at + len(f" {name}:")
        at += len(tool_call_text(ToolCallPart("", "", {name: value})))
        if passage.start < at and passage.end > start:
            is_text = isinstance(value, str)
            spans[name] = MarkedSpan(passage.start, min(passage.end, at)).shifted(-start) if is_text else EVERYTHING
    return spans


def _call_gist(parameters: Mapping[str, Any]) -> str:
    """The parameter that says most of a call, in one line."""
    words = {name: _words(value) for name, value in parameters.items()}
    text = next((words[name] for name in _GIST_FIELDS if words.get(name)), "") or next(filter(None, words.values()), "")
    return one_line(text, GIST_CHARS)


def _words(value: Any) -> str:
    """A string, or the strings of a list (commands come as either); else nothing."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return value if isinstance(value, str) else ""


def _cut(text: str, max_chars: int, *, whole: bool, keep: int = 0) -> tuple[str, int]:
    """`text` cut at a line where one ends near but not before `keep`, and how many characters were left out."""
    max_chars = max(max_chars, keep + AROUND_PASSAGE_CHARS) if keep else max_chars
    if whole or len(text) <= max_chars:
        return text, 0
    head = text[:max_chars]
    line_end = head.rfind("\n", max(max_chars * 3 // 4, keep))
    head = head[:line_end] if line_end > 0 else head
    return head, len(text) - len(head)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _first_line(text: str) -> str:
    start = text[:GIST_SOURCE_CHARS].lstrip()
    return one_line(start.split("\n", 1)[0], GIST_CHARS)


def _size(size_bytes: int) -> str:
    for unit, size in (("MB", 1024**2), ("KB", 1024)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"


# --- messages -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Note:
    """A remark of the product's own below a message."""

    text: str
    is_warning: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message as the page shows it. `opens_turn`: the first of its turn; `headed`: another speaker than before."""

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

    @property
    def has_actions(self) -> bool:
        """Whether it can be copied and linked to: what somebody wrote, not what tools answered."""
        return bool(self.parts) and self.kind in ("user", "assistant")


def view_messages(
    messages: Iterable[Message],
    *,
    turn_before: int | None = None,
    target: int | None = None,
    passage: Passage | None = None,
    notes: Mapping[int, Sequence[Note]] = MappingProxyType({}),
) -> list[MessageView]:
    """Messages in order, for the page. `turn_before` is the turn of the message before the first one."""
    views: list[MessageView] = []
    tools: dict[str, str] = {}
    work = Work()
    for message in messages:
        parts = message.typed_parts
        tools |= {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
        turn = message.turn_number
        kind = message_kind(message, parts)
        speaker = speaker_name(message, kind)
        opens_turn = turn is not None and turn != turn_before
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
                parts=_view_parts(
                    parts, tools, passage if passage and passage.message_id == message.pk else None, work
                ),
                notes=notes.get(message.pk, ()),
            )
        )
        if not message.superseded:
            turn_before = turn
    return views


def _view_parts(
    parts: Sequence[Part], tools: Mapping[str, str], passage: Passage | None, work: Work
) -> tuple[PartView, ...]:
    held = {passage.part_index: passage.span} if passage else {}
    return tuple(
        view_part(part, index, tools=tools, passage=held.get(index), work=work) for index, part in enumerate(parts)
    )


def message_kind(message: Message, parts: Sequence[Part]) -> MessageKind:
    """What the message is to a reader: tool output and injected text stand under the role user, too."""
    if message.role == Message.Role.ASSISTANT:
        return "assistant"
    if message.role == Message.Role.SYSTEM:
        return "system"
    if message.role == Message.Role.TOOL or any(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    has_text = any(isinstance(part, TextPart) for part in parts)
    return "injected" if has_text and not message.is_real_user else "user"


def speaker_name(message: Message, kind: MessageKind) -> str:
    """Who speaks in the message, for people."""
    return message.name or str(_SPEAKERS[kind])


def _continues(kind: MessageKind, speaker: str, views: Sequence[MessageView]) -> bool:
    """Whether the message needs no heading of its own: tool output, or the assistant going on."""
    if kind == "tool":
        return bool(views)
    last = next((view for view in reversed(views) if view.kind != "tool"), None)
    return kind == "assistant" and last is not None and (last.kind, last.speaker) == (kind, speaker)
