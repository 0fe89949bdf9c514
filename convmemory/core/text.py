"""Helpers for untrusted text: what PostgreSQL refuses, cutting, hashing, fences for models, masked addresses."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

Span = tuple[int, int]
"""The index of the first character of a piece of a text, and the index after its last."""

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")

CONTINUED = "| "
"""The prefix of every line of a quoted text but the first, which follows a label."""

_INVISIBLE = re.compile(  # zero-width and formatting characters, tags, and marks that turn the direction of writing
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|[\u200c\u200d](?![^\x00-\x7f])|(?<![^\x00-\x7f])[\u200c\u200d]"  # between letters of other scripts joiners stay
)
_LINE_BREAK = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")

# Characters that a reader takes for `<`, and for the letters that fences are named with. Source: Unicode's confusables.
_OPENERS = (
    "\u003c\u2039\u00ab\u2264\u226a\u227a\u22d6\u27e8\u27ea\u3008\u300a\u276c"
    "\u276e\u2770\u29fc\u2991\u2a7d\u1438\u3008\u02c2\ufe64\uff1c\U000103d2\u2aa1"
)
_LETTERS = {
    "a": "\u0430\u0251\u03b1\u2202\u1d00\u0391\u0410\u2c65",
    "c": "\u03f2\u0441\u1d04\u03f9\u0421\u217d",
    "d": "\u0501\u056a\u1d05\u217e",
    "e": "\u0435\u0454\u04bd\u1d07\u03b5\u0395\u0415\u025b",
    "i": "\u0456\u0131\u0269\u03b9\u026a\u0399\u0406\u01c0",
    "l": "\u04cf\u217c\u029f\u04c0\u2223",
    "m": "\u043c\u0271\u1d0d\u039c\u041c\u217f\u03bc",
    "n": "\u0578\u03b7\u043f\u0274\u039d",
    "o": "\u03bf\u043e\u03c3\u04e9\u1d0f\u039f\u041e",
    "p": "\u03c1\u0440\u1d18\u03a1\u0420",
    "r": "\u0433\u0280\u1d26\u044f",
    "s": "\u0455\ua731\u0405",
    "t": "\u0442\u03c4\u1d1b\u03a4\u0422",
    "u": "\u03c5\u057d\u1d1c\u028b",
    "y": "\u0443\u04af\u03b3\u028f\u03a5\u0423\u04ae",
}
_LOOK_ALIKES = dict.fromkeys(_OPENERS, "<") | {sign: letter for letter, signs in _LETTERS.items() for sign in signs}

RECALL_TAG, DOCUMENTS_TAG = "recalled-memory", "recalled-documents"
"""The fences of what a model is given from conversations and from documents."""
# Gemini CLI and Qwen Code escape the brackets of what a hook adds.
_RECALL_MARK = re.compile(f'(?:<|&lt;)(/?)({RECALL_TAG}|{DOCUMENTS_TAG})(?: mark="([0-9a-f]{{1,16}})")?(?:>|&gt;)')

MASK = "***"
SECRET_WORDS = ("key", "token", "secret", "pass", "pwd", "auth", "credential", "sig")

_AUTHORITY = re.compile(r"[^\s/?#\"'<>]*")
_RUN = re.compile(r"\S*")
_PARAMETER = re.compile(r"([?&;]([^=?&;#\s\"'<>]{1,100})=)[^&;#\s\"'<>]+")


def storable(text: str) -> str:
    """Return `text` without the characters that PostgreSQL cannot store: NUL and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    return _LONE_SURROGATES.sub("\ufffd", text)


def json_storable(value: Any) -> Any:
    """Return `value` as JSON that PostgreSQL's jsonb accepts: no NUL, no lone surrogates, no NaN."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        return {storable(str(key)): json_storable(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [json_storable(item) for item in value]
    return storable(str(value))


def quoted_lexeme(lexeme: str) -> str:
    """Return the lexeme as a literal in tsquery syntax."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def cut(text: str, max_chars: int) -> str:
    """Return `text` in at most `max_chars` characters, ending in an ellipsis if it was cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"


def one_line(text: str, max_chars: int) -> str:
    """Return `text` with white space folded, cut to `max_chars` characters."""
    # Only the beginning is split, so that a text of many megabytes costs no more than a short one.
    return cut(" ".join(text[: max_chars * 4].split()), max_chars)


def content_hash(text: str) -> bytes:
    """Return the SHA-256 of the text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def visible(text: str) -> str:
    """Return `text` without invisible and control characters, its line breaks all of one kind."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub("", _LINE_BREAK.sub("\n", _INVISIBLE.sub("", text)))


def fenced(text: str, tag: str) -> str:
    """Return untrusted `text` for a place between `<tag>` and `</tag>`: nothing in it can open or close that fence.

    Whatever resembles the fence's own mark is defused, including in other cases, widths and scripts, and with other
    characters between its letters.
    """
    text = visible(text)
    skeleton = text if text.isascii() else "".join(map(_skeleton, text))
    places = [match.start() for match in _mark(tag).finditer(skeleton)]
    if not places:
        return text
    starts = [0, *(position + 1 for position in places)]
    return "&lt;".join(text[start:end] for start, end in zip(starts, [*places, len(text)], strict=True))


def quoted(text: str, tag: str) -> str:
    """Return `text` for a place after a label inside the fence `tag`: none of its lines can pass for a
    labelled line.
    """
    return fenced(text, tag).replace("\n", f"\n{CONTINUED}")


def recalled_spans(text: str) -> list[Span]:
    """Return the places of recalled text with its fences, in order. A fence counts if its closing mark follows."""
    if "recalled-" not in text:
        return []
    spans: list[Span] = []
    opened: dict[tuple[str, str | None], int] = {}
    for mark in _RECALL_MARK.finditer(text):
        name = (mark[2], mark[3])
        if not mark[1]:
            opened.setdefault(name, mark.start())
        elif name in opened:
            spans.append((opened[name], mark.end()))
            opened.clear()
    return spans


def without_recalled(text: str) -> str:
    """Return `text` with line breaks in place of recalled text, so that all other places stay as they are."""
    kept, position = [], 0
    for start, end in recalled_spans(text):
        kept += [text[position:start], "\n" * (end - start)]
        position = end
    return "".join([*kept, text[position:]])


@lru_cache(maxsize=4096)
def _skeleton(char: str) -> str:
    """Return the character that a reader takes `char` for."""
    if char in _LOOK_ALIKES:
        return _LOOK_ALIKES[char]
    # NFKD folds full-width, mathematical and accented letters to their plain form.
    folded = unicodedata.normalize("NFKD", char).casefold()[:1]
    return _LOOK_ALIKES.get(folded, folded) or "\0"


@lru_cache(maxsize=16)
def _mark(tag: str) -> re.Pattern[str]:
    """Return a pattern for the beginning of the fence's mark in a skeleton; it allows other signs between
    the letters.
    """
    letters = [re.escape(char) for char in tag.lower() if char.isalnum()]
    # Possessive, bounded repeats keep the search linear on hostile text.
    return re.compile("<[^a-z0-9<]{0,40}+" + "[^a-z0-9<]{0,8}+".join(letters), re.IGNORECASE)


def masked(text: str) -> str:
    """Return `text` without user names and passwords in addresses, and with `***` for values of secret parameters.

    Every address that is shown or logged passes through it: error messages, log lines, doctor, pages. It takes any
    text, in linear time, so that whole messages of other libraries can go through it.

    A parameter is secret if its name contains one of `SECRET_WORDS`. A password with unquoted slashes, which makes the
    address invalid, is found as well.
    """
    before, *addresses = text.split("://")
    joined = "://".join([before, *map(_without_user, addresses)])
    return _PARAMETER.sub(_without_value, joined)


def _without_user(rest: str) -> str:
    """Mask `rest`, the text from one `://` up to the next."""
    authority = _AUTHORITY.match(rest)
    assert authority is not None
    run = authority[0]
    # A host name or address, IPv6 in brackets included, has a numeric port or none.
    port = run.rpartition("]")[2].partition(":")[2]
    if "@" not in run and port and not port.isdecimal():
        whole = _RUN.match(rest)
        run = whole[0] if whole else run
    return rest[run.rfind("@") + 1 :]


def _without_value(match: re.Match[str]) -> str:
    is_secret = any(word in match[2].lower() for word in SECRET_WORDS)
    return match[1] + MASK if is_secret else match[0]
