"""Takes a model's thinking out of its text: `<think>…</think>`, as open models write it. Pure.

Imports, chat and proxy use the same splitter; streamed text can be fed in pieces of any size. A block begins with the
answer, or with its tag alone on a line. Code blocks and tags within a line stay as they are. A block without an end is
an answer that was cut off while the model was thinking.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from convmemory.conversations.messages.parts import Part, TextPart, ThinkingPart

_TAGS = ("<think>", "<thinking>")
_FENCE = "```"
_LAST_END = "</think>"


@dataclass(slots=True)
class ThinkingSplitter:
    """Splits a text into pieces `(is_thinking, text)`; tags are left out, as is the space after a block."""

    _held: str = ""  # may be the beginning of a tag
    _end: str = ""  # the tag that ends the current block
    _line: str = ""  # the beginning of the current line, to tell code
    _is_code: bool = False
    _at_line_start: bool = True
    _said_anything: bool = False
    _after_block: bool = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Return what can be decided with this next piece of the text."""
        text, self._held = self._held + text, ""
        pieces: list[tuple[bool, str]] = []
        at = 0
        while at < len(text):
            at, is_thinking, piece = self._thinking(text, at) if self._end else self._spoken(text, at)
            if pieces and pieces[-1][0] == is_thinking:
                pieces[-1] = (is_thinking, pieces[-1][1] + piece)
            elif piece:
                pieces.append((is_thinking, piece))
            if self._held:
                break
        return pieces

    def finish(self) -> list[tuple[bool, str]]:
        """Return the rest, when the text has ended."""
        is_thinking, rest = self.rest
        self._held = ""
        return [(is_thinking, rest)] if rest else []

    @property
    def rest(self) -> tuple[bool, str]:
        """Return the undecided rest, as `finish` would."""
        return bool(self._end), self._held

    def _thinking(self, text: str, at: int) -> tuple[int, bool, str]:
        """Read on in a block; return the next position and the piece."""
        end = text.find(self._end, at)
        if end >= 0:
            after = end + len(self._end)
            self._end, self._at_line_start, self._after_block = "", True, True
            return after, True, text[at:end]
        # The end of the text may be the beginning of the tag.
        start = max(at, len(text) - len(self._end) + 1)
        cut = next(
            (position for position in range(start, len(text)) if self._end.startswith(text[position:])), len(text)
        )
        self._held = text[cut:]
        return len(text), True, text[at:cut]

    def _spoken(self, text: str, at: int) -> tuple[int, bool, str]:
        """Read on to the end of the line, or to a tag; return the next position and the piece."""
        if self._after_block:
            while at < len(text) and text[at].isspace():
                at += 1
            if at == len(text):
                return at, False, ""
            self._after_block = False
        start = at
        if self._at_line_start:
            while start < len(text) and text[start] in " \t":
                start += 1
            if start == len(text):
                return start, False, text[at:]
            line = text[start : start + len(_TAGS[-1]) + 1]
            if any(tag.startswith(line) and (tag != line or self._said_anything) for tag in _TAGS):
                self._held = text[start:]  # more text decides if this line begins with a tag
                return len(text), False, text[at:start]
            tag = "" if self._is_code else next((tag for tag in _TAGS if line.startswith(tag)), "")
            if tag and (not self._said_anything or line[len(tag) :].startswith(("\n", "\r"))):
                self._end = f"</{tag[1:]}"
                return start + len(tag), False, text[at:start]
            self._line = ""
        end = text.find("\n", start) + 1 or len(text)
        self._at_line_start = text[end - 1] == "\n"
        self._said_anything = self._said_anything or not text[start:end].isspace()
        if len(self._line) < len(_FENCE):
            self._line += text[start : min(end, start + len(_FENCE) - len(self._line))]
            self._is_code ^= self._line == _FENCE
        return end, False, text[at:end]


def thinking_apart(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts of a model's message with the thinking in its texts as parts of their own."""
    return tuple(piece for part in parts for piece in (_apart(part) if isinstance(part, TextPart) else (part,)))


def _apart(part: TextPart) -> tuple[Part, ...]:
    text = part.text
    if "<think" not in text and _LAST_END not in text:
        return (part,)
    if not any(tag in text for tag in _TAGS):
        # The opening tag was part of the prompt: everything until a closing tag on a line of its own is thinking.
        before, mark, after = text.partition(f"\n{_LAST_END}\n")
        if not mark:
            return (part,)
        return tuple(kind(each.strip()) for kind, each in ((ThinkingPart, before), (TextPart, after)) if each.strip())
    splitter = ThinkingSplitter()
    pieces = [*splitter.feed(text), *splitter.finish()]
    if len(text) == sum(len(each) for _, each in pieces):
        return (part,)
    return tuple(
        (ThinkingPart if is_thinking else TextPart)(each.strip()) for is_thinking, each in pieces if each.strip()
    )
