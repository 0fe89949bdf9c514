"""Terminal colours in the output of tools, as HTML. Takes text, returns safe HTML, in linear time.

Escape sequences that set colours and weight become classes (`ansi-*`); all others are removed.
Source: ECMA-48, "Select Graphic Rendition".
"""

import re
from dataclasses import dataclass, replace
from html import escape

from django.utils.safestring import SafeString, mark_safe

# Every repeat is bounded, so that hostile output costs linear time.
_SEQUENCE = re.compile(
    r"\x1b(?:\[([0-9;:]{0,60})m"  # colours and weight
    r"|\[[0-9;:<=>?!]{0,60}[ -/]{0,4}[@-~]"  # the cursor, erasing
    r"|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)"  # titles and links
    r"|[()][0-9A-Za-z]|[=>78cDEHM])"
)
# The 16 colours of VS Code's terminal.
_PALETTE = (
    (0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16), (36, 114, 200), (188, 63, 188), (17, 168, 205),
    (229, 229, 229), (102, 102, 102), (241, 76, 76), (35, 209, 139), (245, 245, 67), (59, 142, 234), (214, 112, 214),
    (41, 184, 219), (255, 255, 255),
)  # fmt: skip
# The other 240 colours of xterm: a cube of 6 x 6 x 6, then 24 greys.
_CUBE = (0, 95, 135, 175, 215, 255)
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "struck"}
_OFF = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}, 27: {"inverse"}, 29: {"struck"}}


@dataclass(frozen=True, slots=True)
class _Style:
    """The style of the text that follows; colours are numbers of the palette."""

    colour: int | None = None
    background: int | None = None
    weights: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        names = [f"ansi-{name}" for name in sorted(self.weights)]
        names += [] if self.colour is None else [f"ansi-{self.colour}"]
        names += [] if self.background is None else [f"ansi-on-{self.background}"]
        return " ".join(names)


def has_sequences(text: str) -> bool:
    return "\x1b" in text


def ansi_html(text: str) -> SafeString:
    """Return `text` as HTML, with its colours as classes and everything else escaped."""
    pieces, style, end = [], _Style(), 0
    for match in _SEQUENCE.finditer(text):
        pieces.append(_shown(text[end : match.start()], style))
        style = style if match[1] is None else _styled(style, match[1])
        end = match.end()
    pieces.append(_shown(text[end:], style))
    return mark_safe("".join(pieces))  # noqa: S308 - escaped, with classes of this module alone


def without_sequences(text: str) -> str:
    """Return `text` without escape sequences."""
    return _SEQUENCE.sub("", text) if has_sequences(text) else text


def _shown(text: str, style: _Style) -> str:
    escaped = escape(text.replace("\x1b", ""))
    return f'<span class="{style.classes}">{escaped}</span>' if escaped and style.classes else escaped


def _styled(style: _Style, parameters: str) -> _Style:
    """Return the style after one sequence; unknown codes are ignored."""
    codes = iter([int(code) if code else 0 for code in parameters.replace(":", ";").split(";")])
    for code in codes:
        if code == 0:
            style = _Style()
        elif code in _ON:
            style = replace(style, weights=style.weights | {_ON[code]})
        elif code in _OFF:
            style = replace(style, weights=style.weights - _OFF[code])
        else:
            # The style with the colour given by `code` and, if it needs more, by the codes after it.
            if code in (38, 48):
                # The nearest colour of the palette to one of 256 (`5;n`) or of 16 million (`2;r;g;b`).
                kind = next(codes, None)
                if kind == 5:
                    number = min(next(codes, 0), 255)
                    colour = number if number < 16 else _nearest(_of_256(number))
                elif kind == 2:
                    red, green, blue = (min(next(codes, 0), 255) for _ in range(3))
                    colour = _nearest((red, green, blue))
                else:
                    colour = None
                style = style if colour is None else _with_colour(style, colour, is_background=code == 48)
            elif code in (39, 49):
                style = _with_colour(style, None, is_background=code == 49)
            else:
                for first, start in ((30, 0), (90, 8)):
                    if first <= code < first + 8:
                        style = _with_colour(style, code - first + start, is_background=False)
                        break
                    if first + 10 <= code < first + 18:
                        style = _with_colour(style, code - first - 10 + start, is_background=True)
                        break
    return style


def _with_colour(style: _Style, colour: int | None, *, is_background: bool) -> _Style:
    return replace(style, background=colour) if is_background else replace(style, colour=colour)


def _of_256(number: int) -> tuple[int, int, int]:
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    in_cube = number - 16
    return _CUBE[in_cube // 36], _CUBE[in_cube // 6 % 6], _CUBE[in_cube % 6]


def _nearest(colour: tuple[int, int, int]) -> int:
    def distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(_PALETTE[number], colour, strict=True))

    return min(range(len(_PALETTE)), key=distance)
