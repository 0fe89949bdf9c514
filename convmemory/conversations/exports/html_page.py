"""Conversations as one self-contained HTML page that runs no script and loads nothing.

Messages pass through the same sanitiser as on the conversation page; text that would take too much work to render is
shown as plain text.
"""

from html import escape
from importlib.resources import files

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.messages.parts import ToolCallPart
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.markdown_html import STEPS, PageWork
from convmemory.conversations.pages.part_views import PartView, view_part
from convmemory.conversations.pages.rendering import message_kind, speaker_name

PAGES = 20  # the limit of rendering work, in pages of a conversation
# The policy forbids scripts and loading, even if the sanitiser let something pass.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
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


class HtmlWriter:
    """Writes one HTML page; `note` says below the title of each conversation which part of it the page shows."""

    def __init__(self, *, title: str = "Conversations", note: str = "") -> None:
        self._title, self._note = title, note
        self._work = PageWork(left=PAGES * STEPS)
        self._tools: dict[str, str] = {}

    def begin(self) -> str:
        style = files("convmemory.conversations.exports").joinpath("page.css").read_text(encoding="utf-8")
        return _HEAD.format(style=style, title=escape(self._title))

    def conversation(self, conversation: Conversation) -> str:
        self._tools = {}
        facts = (conversation.agent, conversation.project)
        return format_html(
            "<main>\n<h1>{}</h1>\n<p class=facts><time>{}</time>{}</p>\n{}",
            conversation.title or "Untitled conversation",
            f"{conversation.created_at:%Y-%m-%d %H:%M} UTC",
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
        body = [self._part(view_part(part, index, tools=self._tools, whole=True, work=self._work))
                for index, part in enumerate(message.parts)]  # fmt: skip
        return format_html(
            '<section class="{}">\n<h2>{} <small>{}</small></h2>\n{}</section>\n',
            f"{kind} superseded" if row.superseded else kind,
            speaker_name(row, kind),
            facts,
            mark_safe("".join(body)),  # noqa: S308 - escaped or sanitised below
        )

    def end_of_conversation(self) -> str:
        return "</main>\n"

    def end(self) -> str:
        return "</body>\n</html>\n"

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
