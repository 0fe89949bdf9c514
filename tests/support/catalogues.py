"""Reading catalogues of translations (.po) and what templates, code and scripts mark, without gettext's programs."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import trim_whitespace

_TRANSLATE = re.compile(
    r"""\{% translate (?P<q>["'])(?P<text>.*?)(?P=q)(?: context (?P<k>["'])(?P<context>.*?)(?P=k))?"""
)
_BLOCK = re.compile(r"\{% blocktranslate([^%]*?)%\}(.*?)(?:\{% plural %\}(.*?))?\{% endblocktranslate %\}", re.S)
_ARGUMENT = re.compile(r"""\b_\((["'])(.*?)\1\)""")
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ENTRY = re.compile(r'^(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?) ((?:"(?:[^"\\]|\\.)*"\s*)+)', re.M)
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLACES = re.compile(r"%\((\w+)\)s|\{(\w+)\}")
_CALLS = {"_": 1, "gettext": 1, "gettext_noop": 1, "ngettext": 2, "pgettext": 2}


@dataclass(frozen=True, slots=True)
class Message:
    """A message that needs a translation."""

    text: str
    plural: str = ""
    context: str = ""

    @property
    def places(self) -> set[str]:
        """The names of what is put into it."""
        return places_of(self.text) | places_of(self.plural)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message with its translations, one for each plural form of the language."""

    message: Message
    translations: tuple[str, ...]
    is_fuzzy: bool


def places_of(text: str) -> set[str]:
    return {one or other for one, other in _PLACES.findall(text)}


def marked_in_template(source: str) -> Iterator[Message]:
    """Yield the messages that `translate`, `blocktranslate` and `_()` mark."""
    for found in _TRANSLATE.finditer(source):
        yield Message(found["text"].replace("%", "%%"), context=found["context"] or "")
    for options, *texts in _BLOCK.findall(source):
        read = trim_whitespace if "trimmed" in options.split() else str
        yield Message(*(_with_places(read(text)) for text in texts))
    for _, text in _ARGUMENT.findall(source):
        yield Message(text)


def _with_places(text: str) -> str:
    return _PLACE.sub(r"%(\1)s", text.replace("%", "%%"))


def marked_in_code(source: str) -> Iterator[Message]:
    """Yield the messages that calls of gettext's functions mark."""
    for node in ast.walk(ast.parse(source)):
        name = getattr(node.func, "id", "").removesuffix("_lazy") if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in _CALLS:
            given = [ast.literal_eval(each) for each in node.args[: _CALLS[name]] if isinstance(each, ast.Constant)]
            if len(given) == _CALLS[name]:
                yield _message(name, given)


def _message(name: str, given: Sequence[str]) -> Message:
    if name == "pgettext":
        return Message(given[1], context=given[0])
    return Message(*given)


def read_catalogue(path: Path) -> list[Entry]:
    """The entries that are in use, without the header."""
    blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
    entries = (_entry(block) for block in blocks if not re.search(r"^#~", block, re.M))
    return [entry for entry in entries if entry is not None and entry.message.text]


def _entry(block: str) -> Entry | None:
    found = {name: _joined(text) for name, text in _ENTRY.findall(block)}
    if "msgid" not in found:
        return None
    message = Message(found["msgid"], found.get("msgid_plural", ""), found.get("msgctxt", ""))
    translations = tuple(text for name, text in found.items() if name.startswith("msgstr"))
    return Entry(message, translations, is_fuzzy=bool(re.search(r"^#,.*\bfuzzy\b", block, re.M)))


def _joined(text: str) -> str:
    return "".join(ast.literal_eval(piece) for piece in _PIECE.findall(text))
