"""Turning messages into what the conversation page shows. Pure: messages in, safe HTML and plain values out.

Transcripts are untrusted. Raw HTML in them is shown as text; what Markdown makes of the rest passes a
sanitiser that knows only the tags below. Links leave without telling where from; images are never
loaded, they become links; addresses that mean nothing here (relative, `file:`, `javascript:`) become text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any, Literal

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from convmemory.conversations.models import Message
from convmemory.conversations.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from convmemory.core.text import one_line

TEXT_CHARS = 12_000
TOOL_CHARS = 3_000
WHOLE_MARKDOWN_CHARS = 200_000
HIGHLIGHT_CHARS = 20_000
GIST_CHARS = 120
SHORT_FIELD_CHARS = 100
_GIST_FIELDS = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "title")

MessageKind = Literal["user", "assistant", "tool", "system", "injected"]
_SPEAKERS: Mapping[MessageKind, str] = {
    "user": "You",
    "assistant": "Assistant",
    "tool": "Tool output",
    "system": "System",
    "injected": "Added by the agent",
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
    "a": {"image-link"},
    "div": {"code", "table"},
    **{cell: {"left", "center", "right"} for cell in ("th", "td")},
}
_BARE_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?*_]")
_formatter = HtmlFormatter(nowrap=True)


def render_markdown(text: str) -> SafeString:
    """Sanitised HTML of Markdown from a transcript."""
    html = nh3.clean(
        _markdown.render(text),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=_SCHEMES,
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(html)  # noqa: S308 - the sanitiser's output


def highlight_code(code: str, language: str) -> str:
    """`code` as HTML with Pygments' classes; only escaped where the language is unknown or the code is long."""
    if not language or len(code) > HIGHLIGHT_CHARS:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return str(highlight(code, lexer, _formatter))


class _Renderer(RendererHTML):
    """Markdown's usual HTML, but for links, images, code and tables."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[idx].content
        if "://" not in content or _inside_link(tokens, idx):
            return escape(content)
        return _with_links(content)

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = token.info.strip().split(maxsplit=1)[0].strip("{}.")[:30] if token.info.strip() else ""
        code = highlight_code(token.content, language.lower())
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
        if _leads_out(address):
            return f'<a href="{escape(address)}">'
        return f'<span class="reference" title="{escape(address[:200])}">'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        level = tokens[idx].level
        opened = next(t for t in reversed(tokens[:idx]) if t.type == "link_open" and t.level == level)
        return "</a>" if _leads_out(str(opened.attrs.get("href", ""))) else "</span>"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        side = str(token.attrs.get("style", "")).removeprefix("text-align:")
        return f'<{token.tag} class="{escape(side)}">' if side else f"<{token.tag}>"

    td_open = th_open


def _inside_link(tokens: Sequence[Token], index: int) -> bool:
    near = next((t for t in reversed(tokens[:index]) if t.type in ("link_open", "link_close")), None)
    return near is not None and near.type == "link_open"


def _with_links(text: str) -> str:
    """`text` escaped, with bare addresses made into links."""
    pieces, end = [], 0
    for match in _BARE_ADDRESS.finditer(text):
        address = match.group()
        if address.endswith(")") and "(" not in address:
            address = address.rstrip(")")
        pieces += [escape(text[end : match.start()]), f'<a href="{escape(address)}">{escape(address)}</a>']
        end = match.start() + len(address)
    return "".join([*pieces, escape(text[end:])])


def _leads_out(address: str) -> bool:
    return address.lower().startswith(("http://", "https://", "mailto:"))


def _make_markdown() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": True}
    markdown = MarkdownIt("commonmark", options, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]  # the renderer turns them into text
    return markdown


_markdown = _make_markdown()

# --- parts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A named parameter of a tool call, as text."""

    name: str
    text: str

    @property
    def is_short(self) -> bool:
        return len(self.text) <= SHORT_FIELD_CHARS and "\n" not in self.text


@dataclass(frozen=True, slots=True)
class PartView:
    """One part as the page shows it. `index` is its place in the message; `left_out` counts cut characters."""

    index: int
    type: str
    html: SafeString | None = None
    text: str = ""
    fields: tuple[Field, ...] = ()
    label: str = ""
    gist: str = ""
    is_error: bool = False
    left_out: int = 0


def view_part(part: Part, index: int, *, tools: Mapping[str, str], whole: bool = False) -> PartView:
    """The part for the page, cut to what a page can hold unless `whole`. `tools` names tools by call id."""
    if isinstance(part, (TextPart, ThinkingPart)):
        return _view_text(part, index, whole=whole)
    if isinstance(part, ToolCallPart):
        return _view_call(part, index, whole=whole)
    if isinstance(part, ToolResultPart):
        text, left_out = _cut(part.text, TOOL_CHARS, whole=whole)
        label = part.name or tools.get(part.call_id, "")
        gist = _first_line(part.text)
        return PartView(index, part.type, text=text, label=label, gist=gist, is_error=part.is_error, left_out=left_out)
    return _view_attachment(part, index, whole=whole)


def _view_text(part: TextPart | ThinkingPart, index: int, *, whole: bool) -> PartView:
    text, left_out = _cut(part.text.strip("\n"), TEXT_CHARS, whole=whole)
    gist = _first_line(part.text)
    if len(text) > WHOLE_MARKDOWN_CHARS:
        return PartView(index, part.type, text=text, gist=gist)
    return PartView(index, part.type, html=render_markdown(text), gist=gist, left_out=left_out)


def _view_call(part: ToolCallPart, index: int, *, whole: bool) -> PartView:
    fields, left_out, room = [], 0, TOOL_CHARS
    for name, value in part.input.items():
        text, cut_off = _cut(_plain(value), max(room, 0), whole=whole)
        room -= len(text)
        left_out += cut_off
        if text or not cut_off:
            fields.append(Field(str(name), text))
    return PartView(
        index, part.type, fields=tuple(fields), label=part.name, gist=_call_gist(part.input), left_out=left_out
    )


def _call_gist(parameters: Mapping[str, Any]) -> str:
    """The parameter that says most of a call, in one line."""
    told = {name: _words(value) for name, value in parameters.items()}
    text = next((told[name] for name in _GIST_FIELDS if told.get(name)), "") or next(filter(None, told.values()), "")
    return one_line(text, GIST_CHARS)


def _words(value: Any) -> str:
    """A string, or the strings of a list (commands come as either); else nothing."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return value if isinstance(value, str) else ""


def _view_attachment(part: AttachmentPart, index: int, *, whole: bool) -> PartView:
    text, left_out = _cut(part.text, TOOL_CHARS, whole=whole)
    facts = [part.media_type, _size(part.size_bytes) if part.size_bytes else ""]
    return PartView(
        index, part.type, text=text, label=part.name, gist=", ".join(filter(None, facts)), left_out=left_out
    )


def _cut(text: str, max_chars: int, *, whole: bool) -> tuple[str, int]:
    """`text` cut at a line where one ends near, and how many characters were left out."""
    if whole or len(text) <= max_chars:
        return text, 0
    head = text[:max_chars]
    line_end = head.rfind("\n", max_chars * 3 // 4)
    head = head[:line_end] if line_end > 0 else head
    return head, len(text) - len(head)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _first_line(text: str) -> str:
    start = text[: GIST_CHARS * 8].lstrip()
    return one_line(start.split("\n", 1)[0], GIST_CHARS)


def _size(size_bytes: int) -> str:
    for unit, size in (("MB", 1024**2), ("KB", 1024)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"


# --- messages -------------------------------------------------------------------------------------


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


def view_messages(
    messages: Iterable[Message], *, turn_before: int | None = None, target: int | None = None
) -> list[MessageView]:
    """Messages in order, for the page. `turn_before` is the turn of the message before the first one."""
    views: list[MessageView] = []
    tools: dict[str, str] = {}
    for message in messages:
        parts = message.typed_parts
        tools |= {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
        turn = message.turn_number
        kind = message_kind(message, parts)
        speaker = message.name or _SPEAKERS[kind]
        opens_turn = turn is not None and turn != turn_before
        views.append(
            MessageView(
                message_id=message.pk,
                position=message.position,
                kind=kind,
                speaker=speaker,
                model=message.model,
                turn=turn,
                opens_turn=opens_turn,
                headed=opens_turn or not _continues(kind, speaker, views),
                is_target=turn is not None and turn == target,
                created_at=message.created_at,
                parts=tuple(view_part(part, index, tools=tools) for index, part in enumerate(parts)),
            )
        )
        turn_before = turn
    return views


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


def _continues(kind: MessageKind, speaker: str, views: Sequence[MessageView]) -> bool:
    """Whether the message needs no heading of its own: tool output, or the assistant going on."""
    if kind == "tool":
        return bool(views)
    last = next((view for view in reversed(views) if view.kind != "tool"), None)
    return kind == "assistant" and last is not None and (last.kind, last.speaker) == (kind, speaker)
