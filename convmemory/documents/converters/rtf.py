"""Rich Text Format: paragraphs, tables, notes and comments, in one pass over the file.

Source: Rich Text Format Specification 1.9.1.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.structure import Block

MAX_GROUP_DEPTH = 5_000
_TOKEN = re.compile(
    rb"\\(?:(?P<word>[A-Za-z]{1,32})(?P<number>-?[0-9]{1,10})? ?|'(?P<hex>[0-9A-Fa-f]{2})|(?P<symbol>[^A-Za-z]))"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]{1,4000})",
    re.DOTALL,
)
# Groups without text of the document; a group that begins with \* and is not named below is one, too.
SKIPPED = frozenset({
    "fonttbl", "colortbl", "stylesheet", "info", "listtable", "listoverridetable", "revtbl", "rsidtbl", "generator",
    "themedata", "datastore", "colorschememapping", "latentstyles", "xmlnstbl", "fldinst", "pict", "object",
    "nonshppict", "bkmkstart", "bkmkend", "atnid", "atnauthor", "atndate", "atnref", "atnicn", "xe", "tc", "template",
    "filetbl", "pgptbl", "mmathPr", "falt", "panose", "sp",
})  # fmt: skip
READ_THOUGH_STARRED = frozenset({"annotation", "shppict", "shptxt", "footnote", "shpinst"})
COUNTED = {"footnote": "footnote", "annotation": "comment", "shptxt": "text box"}
CHARACTERS = {
    "par": "\n", "sect": "\n", "page": "\n", "row": "\n", "nestrow": "\n", "line": "\v", "tab": "\t", "cell": " | ",
    "nestcell": " | ", "emdash": "\u2014", "endash": "\u2013", "emspace": " ", "enspace": " ", "qmspace": " ",
    "bullet": "\u2022", "lquote": "\u2018", "rquote": "\u2019", "ldblquote": "\u201c", "rdblquote": "\u201d",
}  # fmt: skip
SYMBOLS = {b"~": "\u00a0", b"_": "-", b"-": "", b"\\": "\\", b"{": "{", b"}": "}", b"\n": "\n", b"\r": "\n"}
# Encodings by the numbers of Windows' character sets, which fonts name.
CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437",
}  # fmt: skip
CODE_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}


@dataclass(frozen=True, slots=True)
class _Group:
    """What holds up to the end of a group: the destination, the font, what a reader without Unicode would skip."""

    destination: str = ""
    is_skipped: bool = False
    is_deleted: bool = False
    font: int = -1
    fallback_chars: int = 1
    level: int = 0


def convert_rtf(file: SourceFile) -> Converted:
    """Convert an RTF file. Raises: Unreadable."""
    reader = _Reader()
    blocks = collected(reader.blocks(file.path.read_bytes()), file)
    return Converted(blocks, title=reader.title.strip(), coverage=reader.coverage)


def rtf_blocks(data: bytes) -> list[Block]:
    """Return the paragraphs of RTF inside another file."""
    return list(_Reader().blocks(data))


@dataclass(slots=True)
class _Reader:
    coverage: Coverage = field(default_factory=Coverage)
    title: str = ""
    encoding: str = "cp1252"
    group: _Group = field(default_factory=_Group)
    _groups: list[_Group] = field(default_factory=list)
    _fonts: dict[int, str] = field(default_factory=dict)
    _line: list[str] = field(default_factory=list)
    _bytes: bytearray = field(default_factory=bytearray)
    _to_skip: int = 0  # characters that stand for a Unicode character in readers without Unicode
    _is_starred: bool = False

    def blocks(self, data: bytes) -> Iterator[Block]:
        """Yield a block for each paragraph and row."""
        position = 0
        while token := _TOKEN.search(data, position):
            position = token.end()
            if token["word"]:
                word, number = token["word"].decode("ascii"), int(token["number"]) if token["number"] else None
                if word == "bin" and number:
                    position += max(0, number)
                yield from self._word(word, number)
            elif token["hex"]:
                self._raw(bytes.fromhex(token["hex"].decode("ascii")))
            elif token["symbol"]:
                symbol = token["symbol"]
                if symbol == b"*":
                    self._is_starred = True
                elif self._to_skip:
                    self._to_skip -= 1
                else:
                    yield from self._characters(SYMBOLS.get(symbol, ""))
            elif token["brace"]:
                self._flush()
                self._to_skip, self._is_starred = 0, False
                if token["brace"] == b"{":
                    if len(self._groups) >= MAX_GROUP_DEPTH:
                        raise Unreadable(
                            "too_large", "The file is nested too deeply to be read: save it again as .docx."
                        )
                    self._groups.append(self.group)
                elif self._groups:
                    self.group = self._groups.pop()
            else:
                self._raw(token["text"])
        yield from self._paragraph()

    def _word(self, word: str, number: int | None) -> Iterator[Block]:
        is_starred, self._is_starred = self._is_starred, False
        group = self.group
        if word == "u" and number is not None:
            yield from self._characters(chr(number & 0xFFFF))
            self._to_skip = group.fallback_chars
        elif word in CHARACTERS:
            yield from self._characters(CHARACTERS[word])
        elif word in ("f", "uc", "deleted", "outlinelevel", "pard", "plain"):
            self._flush()
            self.group = _formatted(group, word, number)
        elif word in ("ansicpg", "mac", "pc", "pca"):
            self.encoding = _usable(CODE_PAGES.get(word, f"cp{number}"))
        elif word == "fcharset" and group.destination == "fonttbl":
            self._fonts[group.font] = CHARSETS.get(number or 0, "")
        elif word == "title" and group.destination == "info":
            self.group = replace(group, destination="title")
        elif is_starred or word in SKIPPED or word in COUNTED or word == "result":
            self._flush()
            if self.group.is_skipped and word != "result":
                return
            if word in ("pict", "object"):
                self.coverage.miss("picture" if word == "pict" else "embedded file")
            if word in COUNTED:
                self.coverage.read[COUNTED[word]] += 1
                self._line.append(" ")
            is_skipped = word in SKIPPED or (is_starred and word not in READ_THOUGH_STARRED)
            self.group = replace(self.group, destination=word, is_skipped=is_skipped)

    def _raw(self, data: bytes) -> None:
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if (not self.group.is_skipped and not self.group.is_deleted) or self.group.destination == "title":
            self._bytes += data[skipped:]

    def _characters(self, text: str) -> Iterator[Block]:
        if self.group.is_skipped or self.group.is_deleted:
            return
        self._flush()
        self._line.append(text)
        if text == "\n":
            yield from self._paragraph()

    def _flush(self) -> None:
        """Decode the bytes since the last character, with the encoding of their font."""
        if self._bytes:
            text = self._bytes.decode(self._fonts.get(self.group.font) or self.encoding, "replace")
            self._bytes.clear()
            if self.group.destination == "title":
                self.title += text
            else:
                self._line.append(text)

    def _paragraph(self) -> Iterator[Block]:
        self._flush()
        # Characters beyond the first plane come as two halves.
        text = "".join(self._line).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self._line.clear()
        text = text.replace("\v", "\n").rstrip(" |\n")
        if text.strip():
            level = self.group.level
            yield Block(f"{text}\n\n", level=level, title=text if level else "")


def _formatted(group: _Group, word: str, number: int | None) -> _Group:
    """Return the group with one property changed."""
    if word == "f":
        return replace(group, font=number or 0)
    if word == "uc":
        return replace(group, fallback_chars=max(0, min(number or 0, 9)))
    if word == "outlinelevel":
        return replace(group, level=number + 1 if number is not None and 0 <= number < 6 else 0)
    if word == "pard":
        return replace(group, level=0)
    return replace(group, is_deleted=word == "deleted" and number != 0)


def _usable(name: str) -> str:
    """Return the encoding, or that of Western Windows for one that does not exist."""
    try:
        return "gb18030" if name == "cp936" else codecs.lookup(name).name
    except LookupError:
        return "cp1252"
