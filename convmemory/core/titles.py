"""Titles of conversations and documents, made of foreign text. Pure.

A title is one line without Markdown, slash commands, greetings and modes of agents.
"""

import re
from collections.abc import Iterable

from convmemory.core.text import cut

READ_CHARS = 2_000  # of a text; what follows is never part of a title
CANDIDATES = 5  # questions, of which the first that says something becomes the title

_FENCE = re.compile(r"(?m)^[ \t]{0,3}(?:```|~~~).*$")
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,500}\)")
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\([^)\n]{0,500}\)")
_LINE_MARKS = re.compile(r"(?m)^[ \t]{0,8}(?:#{1,6}[ \t]|>[ \t]?|[-*+][ \t]|\d{1,3}[.)][ \t])")
_EMPHASIS = re.compile(r"\*\*|`|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])")  # underscores are mostly those of names
_COMMAND = re.compile(r"/[a-z][\w:-]{0,40}(?=\s|$)")
_MODE = re.compile(
    r"[\[(<]?(?:plan|act|ask|agent|code|build|edit|chat|debug|architect) mode[\])>:,.-]{0,3}(?=\s|$)", re.IGNORECASE
)
_GREETING = re.compile(
    r"(?:hi|hey|hello|hallo|moin|servus|hola|salut|bonjour|ciao|good (?:morning|evening)|guten (?:tag|morgen|abend))"
    r"(?: (?:there|all|everyone|claude|chatgpt|gemini|codex|assistant))?(?:[,.!:;\u2013\u2014-]+|$|(?<=hi|ey)\s)\s*",
    re.IGNORECASE,
)
_OPENINGS = (_COMMAND, _MODE, _GREETING)
_SAYS_NOTHING = re.compile(
    r"hi|hey|hello|hallo|moin|servus|hola|salut|bonjour|ciao|there|thanks|danke|ok|okay|yes|no|y|n|ja|nein|test|testing"
    r"|ping|start|begin|continue|resume|weiter|next|go|on|please|bitte|untitled|unnamed"
    r"|plan|act|ask|agent|code|build|edit|chat|debug|architect|mode",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")


def plain_title(text: str, max_chars: int) -> str:
    """Return the beginning of the text as one line, without Markdown and without what only opens a conversation."""
    text = _FENCE.sub("", text[:READ_CHARS])
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _EMPHASIS.sub("", _LINE_MARKS.sub("", text))
    line = " ".join(text.split())
    for opening in _OPENINGS:
        match = opening.match(line)
        if match:
            line = line[match.end() :].lstrip(" ,.!:;\u2013\u2014-")
            line = line[:1].upper() + line[1:]
    return cut(line, max_chars)


def says_something(title: str) -> bool:
    """Return whether the title has a word that is more than a greeting, a mode, an assent or a number."""
    line = plain_title(title, READ_CHARS)
    return any(_LETTER.search(word) and not _SAYS_NOTHING.fullmatch(word) for word in _WORD.findall(line))


def title_from(texts: Iterable[str], max_chars: int) -> str:
    """Return a title from the first of the texts that says something, else from the first one."""
    first = ""
    for text in texts:
        if says_something(text):
            return plain_title(text, max_chars)
        first = first or cut(" ".join(text[:READ_CHARS].split()), max_chars)
    return first
