"""Renders the Markdown of transcripts as safe HTML, within a limit of work for each page.

Transcripts are untrusted. Raw HTML in them is shown as text, and the HTML rendered from Markdown passes through a
sanitiser that allows only the tags below; formulas become MathML after it (`mathematics.py`). Links send no referrer,
or lead to a turn or section of the archive. Images are never loaded; they become links. Other addresses (relative,
`file:`, `javascript:`) become text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from convmemory.conversations.pages.highlighting import around_markers, unmarked, without_markers
from convmemory.conversations.pages.mathematics import formula_html, read_mathematics, with_mathematics

STEPS = 300_000
"""Tried rules and created tokens for one page; 120,000 characters of ordinary Markdown take about 40,000."""
HIGHLIGHT_CHARS = 20_000  # longer code is only escaped
PIECE_CHARS = 2_000  # of code per call: most lexers take quadratic time
LINE_CHARS = 1_000
CHARS_A_STEP = 2  # of code

# Their patterns take cubic time, or they take seconds to load.
_NEVER = frozenset({"autohotkey", "ahk", "systemd", "tnt", "mcschema", "lilypond", "xpp", "x++", "gherkin", "cucumber"})
_SLOW_PIECE_CHARS = {"csharp": 500, "c#": 500, "cs": 500}
_BLANKS = re.compile(r"(?<!\s)\s{100}")
_formatter = HtmlFormatter(nowrap=True)


# The parser counts every rule that it tries, so the same text always gives the same result, on any machine.
class TooMuchWork(Exception):
    """The remaining work of a page is too little for this text."""


@dataclass(slots=True)
class PageWork:
    """The remaining steps of one page."""

    left: int = STEPS

    def take(self, steps: int) -> None:
        """Subtract the steps. Raises: TooMuchWork."""
        if steps > self.left:
            raise TooMuchWork
        self.left -= steps


def count_work(markdown: MarkdownIt) -> None:
    """Let the parser take its steps from the `PageWork` in `env["work"]`."""
    markdown.block.ruler.before("table", "work", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    markdown.inline.ruler.before("text", "work", _inline)
    markdown.inline.ruler2.before("balance_pairs", "work", _marks)
    markdown.core.ruler.after("block", "work", _tokens)


def _inline(state: StateInline, silent: bool) -> bool:
    state.env["work"].take(1)
    return False


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    state.env["work"].take(1)
    return False


def _marks(state: StateInline) -> None:
    state.env["work"].take(len(state.tokens))


def _tokens(state: StateCore) -> None:
    state.env["work"].take(len(state.tokens))


def highlight_code(code: str, language: str, work: PageWork | None = None) -> str:
    """Return `code` as HTML with Pygments' classes.

    It is only escaped if the language is unknown or the code is long or unusual.
    """
    if not language or language in _NEVER or len(code) > HIGHLIGHT_CHARS:
        return escape(code)
    if _BLANKS.search(code) or any(len(line) > LINE_CHARS for line in code.split("\n")):
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        (work or PageWork()).take(len(code) // CHARS_A_STEP)
    except (ClassNotFound, TooMuchWork):
        return escape(code)
    size = _SLOW_PIECE_CHARS.get(language, PIECE_CHARS)
    # The code in runs of whole lines of at most `size` characters, cut at blank lines if possible. A longer line is a
    # run of its own.
    pieces = []
    start = 0
    while len(code) - start > size:
        at = code.rfind("\n\n", start + size // 2, start + size) + 2
        at = at if at > 1 else code.rfind("\n", start, start + size) + 1
        at = at if at > start else code.find("\n", start) + 1
        if not at:
            break
        pieces.append(code[start:at])
        start = at
    return "".join(str(highlight(piece, lexer, _formatter)) for piece in [*pieces, code[start:]])


SHOWN_AS_IT_IS = "Shown as it is: to lay out all of this page's Markdown would take too long."
_TAGS = {
    *("p", "br", "hr", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "a", "span", "div"),
    *("code", "pre", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "span": {"title"}, "ol": {"start"}, "div": {"data-language"}}
_SCHEMES = {"http", "https", "mailto"}
_CLASSES = {
    "span": {name for name in STANDARD_TYPES.values() if name} | {"reference", "math", "math-display"},
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
    """Return sanitised HTML of Markdown from a transcript.

    If rendering would take too much work, it is the plain text with a remark.
    """
    text = without_markers(text)
    try:
        return mark_safe(sanitised_html(text, PageWork()))  # noqa: S308 - the sanitiser's output
    except TooMuchWork:
        plain = f'<pre class="output">{escape(text)}</pre><p class="muted">{SHOWN_AS_IT_IS}</p>'
        return mark_safe(plain)  # noqa: S308 - escaped


def sanitised_html(text: str, work: PageWork, *, has_breaks: bool = True) -> str:
    """Return HTML of Markdown, in which the markers of a passage stay in place. Raises: TooMuchWork.

    With `has_breaks`, a line break stays one, as people write in a chat; in files it is a space.
    """
    html = nh3.clean(
        _MARKDOWN[has_breaks].render(text, {"work": work}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=_SCHEMES,
        url_relative="pass_through",  # the renderer creates relative links only to this archive
        link_rel="noopener noreferrer nofollow",
    )
    return with_mathematics(html)


class _Renderer(RendererHTML):
    """Renders links, images, code and tables differently from the base class."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        content = tokens[idx].content
        if "://" not in content or env.get("links"):
            return escape(content)
        # Bare addresses become links.
        pieces, end = [], 0
        for match in _BARE_ADDRESS.finditer(content):
            address = match.group()
            if address.endswith(")") and "(" not in address:
                address = address.rstrip(")")
            pieces += [
                escape(content[end : match.start()]),
                f'<a href="{escape(unmarked(address))}">{escape(address)}</a>',
            ]
            end = match.start() + len(address)
        return "".join([*pieces, escape(content[end:])])

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<{_below_title(tokens[idx])}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"</{_below_title(tokens[idx])}>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = token.info.strip().split(maxsplit=1)[0].strip("{}.")[:30] if token.info.strip() else ""
        code = around_markers(token.content, lambda plain: highlight_code(plain, language.lower(), env["work"]))
        return f'<div class="code" data-language="{escape(language)}"><pre><code>{code}</code></pre></div>\n'

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<div class="code"><pre><code>{escape(tokens[idx].content)}</code></pre></div>\n'

    def math(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        html = formula_html(tokens[idx].content, tokens[idx].markup)
        return f"<p>{html}</p>\n" if tokens[idx].block else html

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


def _below_title(heading: Token) -> str:
    """Return the tag one level below the heading's own: the only `h1` of a page is its title."""
    return f"h{min(int(heading.tag[1]) + 1, 6)}"


def _is_own_place(address: str) -> bool:
    """Return whether the address is a turn or section of this archive, which models cite."""
    return len(address) < 100 and _OWN_PLACE.fullmatch(address) is not None


def _leads_out(address: str) -> bool:
    return address.lower().startswith(("http://", "https://", "mailto:"))


def _make_markdown(*, breaks: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": breaks}
    markdown = MarkdownIt("commonmark", options, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    read_mathematics(markdown)
    count_work(markdown)
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]  # the renderer shows invalid links as text
    return markdown


_MARKDOWN = {breaks: _make_markdown(breaks=breaks) for breaks in (True, False)}
