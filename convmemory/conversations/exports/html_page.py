"""Conversations as one self-contained HTML page that runs no script and loads nothing, with pictures in it if asked.

Turns are rendered by the templates of the conversation page, uncut; text that would take too much work to render is
shown as plain text.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.translation import get_language, get_language_bidi

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.exports.turns import TurnPart, TurnParts
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.pages.markdown_html import STEPS, PageWork
from convmemory.conversations.pages.part_views import PartView
from convmemory.conversations.pages.pictures import Picture
from convmemory.conversations.pages.rendering import HEADING_CHARS, MessageBlock
from convmemory.core.errors import NotFound
from convmemory.core.text import one_line

STYLES = ("tokens", "base", "conversation", "reading")
ICONS = ("branch", "clip", "flag", "note", "result", "thought", "tool", "warning")
PAGES = 20  # the limit of rendering work, in pages of a conversation
# The policy forbids scripts and loading, even if the sanitiser let something pass.
_HEAD = """<!doctype html>
<html lang="{language}" dir="{direction}">
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
        self._turns, self._number = TurnParts(), 0
        self._contents: list[tuple[int | None, str]] = []

    def begin(self) -> str:
        style = _styles() + files("convmemory.conversations.exports").joinpath("page.css").read_text(encoding="utf-8")
        language = get_language() or "en"
        direction = "rtl" if get_language_bidi() else "ltr"
        head = _HEAD.format(style=style, title=escape(self._title), language=language, direction=direction)
        return head + _icons() + (_BRAND if self._note else "")

    def conversation(self, conversation: Conversation) -> str:
        self._turns, self._contents, self._number = TurnParts(), [], self._number + 1
        project = project_name(conversation.project) if self._note else conversation.project
        context = {
            "title": conversation.title,
            "created_at": conversation.created_at,
            "facts": [fact for fact in (conversation.agent, project) if fact],
            "note": self._note,
        }
        return render_to_string("conversations/export.html#begin", context)

    def message(self, message: ExportedMessage) -> Iterator[str]:
        for part in self._turns.take(message):
            yield from self._rendered(part)

    def end_of_conversation(self) -> Iterator[str]:
        for part in self._turns.rest():
            yield from self._rendered(part)
        context = {"contents": self._contents, "anchor": self._anchor}
        yield render_to_string("conversations/export.html#end", context)

    def end(self) -> str:
        return "</body>\n</html>\n"

    @property
    def _anchor(self) -> str:
        """Return what ids begin with, so that those of several conversations differ."""
        return f"c{self._number}-" if self._number > 1 else ""

    def _rendered(self, part: TurnPart) -> Iterator[str]:
        """Yield the HTML of each block, and note the headings for the contents."""
        blocks = [self._with_pictures(block) for block in part.blocks(work=self._work, person=self._person)]
        for view in (block.view for block in blocks if block.view.opens_turn):
            opening = next((part for part in view.parts if part.heading is not None), None)
            heading = ""
            if opening and isinstance(opening.source, TextPart):
                heading = opening.heading or one_line(opening.source.text, HEADING_CHARS)
            self._contents.append((view.turn, heading))
        for is_superseded, group in groupby(blocks, key=lambda block: block.view.superseded):
            for shown in [list(group)] if is_superseded else ([block] for block in group):  # one fold, or each block
                context = {"blocks": shown, "is_file": True, "anchor": self._anchor}
                yield render_to_string("conversations/blocks.html", context)

    def _with_pictures(self, block: MessageBlock) -> MessageBlock:
        views = (replace(view, picture=self._picture(block.view.position, view)) for view in block.view.parts)
        return replace(block, view=replace(block.view, parts=tuple(views)))

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
        return f"data:{picture.media_type};base64,{b64encode(picture.data).decode()}"


@cache
def _styles() -> str:
    """Return the style sheets of the conversation page without what they load."""
    sheets = (Path(str(finders.find(f"css/{name}.css"))).read_text(encoding="utf-8") for name in STYLES)
    return "".join(f"{line}\n" for sheet in sheets for line in sheet.splitlines() if "url(" not in line)


@cache
def _icons() -> str:
    """Return the icons that messages show."""
    text = Path(str(finders.find("img/icons.svg"))).read_text(encoding="utf-8")
    symbols = [line for line in text.splitlines() if any(f'id="{name}"' in line for name in ICONS)]
    return f'<svg hidden xmlns="http://www.w3.org/2000/svg">{"".join(symbols)}</svg>\n'
