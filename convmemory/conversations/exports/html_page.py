"""Conversations as one self-contained HTML page that runs no script and loads nothing, with pictures in it if asked.

Messages pass through the same sanitiser as on the conversation page; text that would take too much work to render is
shown as plain text.
"""

from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib.resources import files

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.messages.parts import ToolCallPart
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.pages.markdown_html import STEPS, PageWork
from convmemory.conversations.pages.part_views import PartView, view_part
from convmemory.conversations.pages.pictures import Picture
from convmemory.conversations.pages.rendering import message_kind, speaker_name
from convmemory.core.errors import NotFound

PAGES = 20  # the limit of rendering work, in pages of a conversation
# The policy forbids scripts and loading, even if the sanitiser let something pass.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
"""
# For shared pages; the mark of static/img/favicon.svg.
_BRAND = """<header><svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true">
<rect width="24" height="24" rx="6" fill="#0f6a5b"/>
<path d="M5.5 7.5A1.5 1.5 0 0 1 7 6h10a1.5 1.5 0 0 1 1.5 1.5v6
A1.5 1.5 0 0 1 17 15h-6l-4 3.5V15a1.5 1.5 0 0 1-1.5-1.5z"
 fill="#fff"/><path d="M8.5 9h7M8.5 12h4" stroke="#0f6a5b" stroke-width="1.6" stroke-linecap="round"/></svg>
<strong>convmemory</strong></header>
"""
MAX_PICTURES_BYTES = 24 * 1024**2  # of a page; further ones are named only

PictureOf = Callable[..., Picture]
"""Returns the picture of a message's `position` and the `index` of its part. Raises: NotFound."""


class HtmlWriter:
    """Writes one HTML page; `note` says below the title of each conversation which part of it the page shows.

    A page with a note is for others: it has the brand, `pictures`, the `person` by name, and of the project's path the
    last part alone.
    """

    def __init__(
        self, *, title: str = "Conversations", note: str = "", person: str = "", pictures: PictureOf | None = None
    ) -> None:
        self._title, self._note, self._person, self._pictures = title, note, person, pictures
        self._pictures_left = MAX_PICTURES_BYTES
        self._work = PageWork(left=PAGES * STEPS)
        self._tools: dict[str, str] = {}

    def begin(self) -> str:
        style = files("convmemory.conversations.exports").joinpath("page.css").read_text(encoding="utf-8")
        return _HEAD.format(style=style, title=escape(self._title)) + (_BRAND if self._note else "")

    def conversation(self, conversation: Conversation) -> str:
        self._tools = {}
        project = project_name(conversation.project) if self._note else conversation.project
        facts = (conversation.agent, project)
        return format_html(
            "<main>\n<h1>{}</h1>\n<p class=facts><time>{}</time>{}</p>\n{}",
            conversation.title or "Untitled conversation",
            f"{conversation.created_at:%-d %B %Y}" if self._note else f"{conversation.created_at:%Y-%m-%d %H:%M} UTC",
            "".join(f" · {fact}" for fact in facts if fact),
            format_html("<p class=facts>{}</p>\n", self._note) if self._note else "",
        )

    def message(self, message: ExportedMessage) -> str:
        self._tools |= {part.id: part.name for part in message.parts if isinstance(part, ToolCallPart)}
        row, kind = message.row, message_kind(message.row, message.parts)
        turn = "" if row.turn_number is None else f"turn {row.turn_number + 1}"
        at = f"{row.created_at:%Y-%m-%d %H:%M}" if row.created_at else ""
        marked = str(message.mark) if message.mark else ""
        facts = " · ".join(filter(None, (turn, at, row.model, "superseded" if row.superseded else "", marked)))
        views = (view_part(part, index, tools=self._tools, whole=True, work=self._work)
                 for index, part in enumerate(message.parts))  # fmt: skip
        body = [self._picture(row.position, view) or self._part(view) for view in views]
        return format_html(
            '<section class="{}">\n<h2>{} <small>{}</small></h2>\n{}</section>\n',
            f"{kind} superseded" if row.superseded else kind,
            self._person if self._person and kind == "user" and not row.name else speaker_name(row, kind),
            facts,
            mark_safe("".join(body)),  # noqa: S308 - escaped or sanitised below
        )

    def end_of_conversation(self) -> str:
        return "</main>\n"

    def end(self) -> str:
        return "</body>\n</html>\n"

    def _picture(self, position: int, view: PartView) -> str:
        if self._pictures is None or not view.is_image:
            return ""
        try:
            picture = self._pictures(position=position, index=view.index)
        except NotFound:
            return ""
        self._pictures_left -= len(picture.data)
        if self._pictures_left < 0:
            return ""
        address = f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"
        return format_html('<img src="{}" alt="{}">\n', address, view.label)

    def _part(self, view: PartView) -> str:
        if view.type == "text":
            return format_html("<div class=said>{}</div>\n", view.html) if view.html else _plain(view.text)
        label = {"thinking": "Thinking", "tool_call": f"Calls {view.label}", "attachment": f"Attached: {view.label}"}
        title = label.get(view.type) or f"{'Error' if view.is_error else 'Output'} {view.label}"
        inner: str = view.html or "".join(f"<h3>{escape(f.name)}</h3>{_plain(f.text)}" for f in view.fields)
        body = mark_safe(inner or (_plain(view.text) if view.text else ""))  # noqa: S308 - escaped or sanitised
        return format_html("<details><summary>{} <small>{}</small></summary>{}</details>\n", title, view.gist, body)


def _plain(text: str) -> SafeString:
    return format_html("<pre>{}</pre>\n", text)
