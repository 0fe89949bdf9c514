"""Limits the work of rendering a page: parsing Markdown and highlighting code.

Beyond the limit, text stays unformatted.

The parser counts every rule that it tries, so the same text always gives the same result, on any machine.
"""

import re
from dataclasses import dataclass
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

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


class TooMuchWork(Exception):
    """The remaining work of a page is too little for this text."""


@dataclass(slots=True)
class Work:
    """The remaining steps of one page."""

    left: int = STEPS

    def take(self, steps: int) -> None:
        """Subtract the steps. Raises: TooMuchWork."""
        if steps > self.left:
            raise TooMuchWork
        self.left -= steps


def count_work(markdown: MarkdownIt) -> None:
    """Let the parser take its steps from the `Work` in `env["work"]`."""
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


def highlight_code(code: str, language: str, work: Work | None = None) -> str:
    """Return `code` as HTML with Pygments' classes.

    It is only escaped if the language is unknown or the code is long or unusual.
    """
    if not language or language in _NEVER or len(code) > HIGHLIGHT_CHARS or not _is_ordinary(code):
        return escape(code)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        (work or Work()).take(len(code) // CHARS_A_STEP)
    except (ClassNotFound, TooMuchWork):
        return escape(code)
    size = _SLOW_PIECE_CHARS.get(language, PIECE_CHARS)
    return "".join(str(highlight(piece, lexer, _formatter)) for piece in _pieces(code, size))


def _is_ordinary(code: str) -> bool:
    return not _BLANKS.search(code) and all(len(line) <= LINE_CHARS for line in code.split("\n"))


def _pieces(code: str, size: int) -> list[str]:
    """Return the code in runs of whole lines of at most `size` characters, cut at blank lines if possible.

    A longer line is a run of its own.
    """
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
    return [*pieces, code[start:]]
