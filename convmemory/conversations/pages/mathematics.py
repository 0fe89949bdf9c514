r"""Mathematics in Markdown as MathML, which browsers draw themselves: `$x$`, `$$x$$`, `\(x\)` and `\[x\]`.

The parser finds formulas, and latex2mathml reads them. Its elements are written with the tags and attributes below
alone, because it passes addresses, styles and tags of a formula on.
"""

import re
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MATH_CHARS = 1_000  # of a formula; longer ones are shown as they are
STEPS_A_CHAR = 5  # of the work of a page: a character takes 20 µs, a rule of the parser about 4
_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_DISPLAYED = ("$$", "\\[")
_WORD = re.compile(r"[^\W\d_]{3}")
_SIGN = re.compile(r"[\\^_=<>+*/()]|^\w{1,2}'*$")
_MARKERS = re.compile("[\ufdd0\ufdd1]")  # of a passage: highlighting.py
_FORMULA = re.compile(r'<span class="(math|math-display)">([^<]*)</span>')
_TAGS = frozenset(
    {
        *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "mpadded"),
        *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none"),
        *("mphantom", "menclose", "mtable", "mtr", "mtd"),
    }
)
_ATTRIBUTES = frozenset(
    {
        *("display", "mathvariant", "stretchy", "fence", "form", "accent", "accentunder", "movablelimits", "separator"),
        *("linethickness", "columnalign", "rowspacing", "columnspacing", "rowlines", "columnlines", "notation"),
        *("lspace", "rspace", "width", "height", "depth", "minsize", "maxsize", "displaystyle", "scriptlevel"),
    }
)


def read_mathematics(markdown: MarkdownIt) -> None:
    """Let the parser find formulas. Its renderer needs `formula_html` for them."""
    markdown.inline.ruler.before("escape", "math", _inline)
    markdown.block.ruler.before("fence", "math", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline(state: StateInline, silent: bool) -> bool:
    source, start = state.src, state.pos
    opening = next((sign for sign in _CLOSING if source.startswith(sign, start)), None)
    if opening is None:
        return False
    # Where the closing sign of the formula is that opens at `start`; -1 if this is no formula. Prices, patterns,
    # variables of a shell and escaped brackets have words, and no command.
    begin = start + len(opening)
    end = source.find(_CLOSING[opening], begin, begin + MATH_CHARS)
    formula = source[begin:end] if end >= 0 else ""
    if not formula.strip() or "`" in formula or ("\\" not in formula and _WORD.search(formula)):
        end = -1
    elif opening == "$":
        is_apart = not (source[start - 1 : start].isalnum() or source[end + 1 : end + 2].isalnum())
        is_tight = not (formula[0].isspace() or formula[-1].isspace())
        end = end if is_apart and is_tight and _SIGN.search(formula) else -1
    if end < 0:
        return False
    if not silent:
        state.env["work"].take((end - start) * STEPS_A_CHAR)
        token = state.push("math", "span", 0)
        token.content, token.markup = source[start + len(opening) : end], opening
    state.pos = end + len(opening)
    return True


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a formula in lines of its own, whose `+` and `=` would begin lists and headings."""
    if state.is_code_block(start):
        return False
    at = state.bMarks[start] + state.tShift[start]
    opening = state.src[at : at + 2]
    if opening not in _DISPLAYED:
        return False
    close = state.src.find(_CLOSING[opening], at + 2, at + 2 + MATH_CHARS)
    formula = state.src[at + 2 : close]
    last = start + formula.count("\n")
    if close < 0 or last >= end or not formula.strip() or state.src[close + 2 : state.eMarks[last]].strip():
        return False
    if not silent:
        state.env["work"].take(len(formula) * STEPS_A_CHAR)
        token = state.push("math", "span", 0)
        token.content, token.markup, token.block = formula, opening, True
        state.line = last + 1
    return True


def formula_html(formula: str, opening: str) -> str:
    """Return the place of a formula, for `with_mathematics`."""
    return f'<span class="{"math-display" if opening in _DISPLAYED else "math"}">{escape(formula)}</span>'


def with_mathematics(html: str) -> str:
    """Return sanitised HTML with the formulas in place of their sources; one that cannot be read stays as it is."""
    return _FORMULA.sub(lambda match: _mathml(unescape(match[2]), kind=match[1]), html)


def _mathml(formula: str, *, kind: str) -> str:
    source = _MARKERS.sub("", formula)
    markers = "".join(_MARKERS.findall(formula))
    display = "block" if kind == "math-display" else "inline"
    try:
        written = _written(convert_to_element(source.strip(), display=display))
    except Exception:  # the library raises whatever a formula leads to; what was written is shown
        return f'<code class="{kind}">{escape(source)}</code>{markers}'
    return f'<span class="{kind}">{written}</span>{markers}'


def _written(element: Element) -> str:
    """Return the element as HTML, with allowed tags and attributes alone."""
    inside = escape(unescape(element.text or "")) + "".join(
        _written(child) + escape(unescape(child.tail or "")) for child in element
    )
    if element.tag not in _TAGS:
        return inside
    allowed = (f' {name}="{escape(value)}"' for name, value in element.attrib.items() if name in _ATTRIBUTES)
    return f"<{element.tag}{''.join(allowed)}>{inside}</{element.tag}>"
