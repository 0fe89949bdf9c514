"""Shows a cell's value as its number format does: 007, 7.50 %, 03.05.2026.

Names of months are English, and marks of thousands and decimals those of the format. Source: ECMA-376 part 1, 18.8.31.
"""

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from math import isfinite

Value = float | datetime | date | time | timedelta
Tokens = list[tuple[str, str]]
"""Kinds and texts of the pieces of one section of a format; a mark is its own kind."""

MAX_CODE_CHARS = 255
# Formats that have a number instead of a code. Dates by the reader's own settings (14, 22) are left out.
BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 15: "d-mmm-yy", 16: "d-mmm",
    17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 45: "mm:ss", 46: "[h]:mm:ss",
    47: "mm:ss.0", 48: "##0.0E+0",
}  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]{0,255})"|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]{0,255})\]|(?P<general>General)|'
    r"(?P<ampm>AM/PM|A/P)|(?P<fraction>\.0+(?![0#?]))|(?P<exponent>E[+-])|(?P<digit>[0#?])|(?P<date>y+|m+|d+|h+|s+)|"
    r"(?P<section>;)|(?P<mark>[.,%/@])|(?P<text>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)(-?[0-9.]+)")
_COMPARE = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
}  # fmt: skip


def shown(value: Value, code: str) -> str | None:
    """Return the value as the format shows it; None where it has no form of its own."""
    sections = _sections(code)
    if isinstance(value, float):
        chosen, signed = _chosen(sections, value)
        kinds = {kind for kind, _ in chosen}
        if not kinds - {"text", "condition"} and len(sections) > 1:
            return "".join(text for kind, text in chosen if kind == "text").strip() or None
        if kinds & {"date", "elapsed", "general"} or "/" in kinds or "digit" not in kinds or not isfinite(value):
            return None
        return _number(chosen, value if signed else abs(value))
    section = sections[0] if sections else []
    if isinstance(value, timedelta):
        return _elapsed(section, value) if any(kind == "elapsed" for kind, _ in section) else None
    return _date(section, value) if any(kind == "date" for kind, _ in section) else None


@lru_cache(maxsize=1_024)
def _sections(code: str) -> list[Tokens]:
    """Return the sections of a format, for positive, negative and other values; none for one that is too long."""
    sections: list[Tokens] = [[]]
    for token in _TOKEN.finditer(code) if len(code) <= MAX_CODE_CHARS else ():
        kind, text = str(token.lastgroup), token[str(token.lastgroup)]
        if kind == "section":
            sections.append([])
        elif kind == "bracket":
            sections[-1] += _of_bracket(text)
        elif kind == "mark" or kind == "exponent":
            sections[-1].append((text.upper()[:1], text))
        elif kind == "space":
            sections[-1].append(("text", " "))
        elif kind in ("quoted", "escaped", "text"):
            sections[-1].append(("text", text))
        elif kind == "fraction" and not any(each == "date" for each, _ in sections[-1]):
            sections[-1] += [(".", "."), *(("digit", "0") for _ in text[1:])]
        elif kind != "fill":
            sections[-1].append((kind, text.lower() if kind == "date" else text))
    return sections if len(code) <= MAX_CODE_CHARS else []


def _of_bracket(text: str) -> Tokens:
    """Return a currency, a condition or an elapsed unit; colours and locales show nothing."""
    if text.startswith("$"):
        return [("text", text[1:].partition("-")[0])]
    if text.lower() in ("h", "hh", "m", "mm", "s", "ss"):
        return [("elapsed", text.lower())]
    return [("condition", text)] if _CONDITION.fullmatch(text) else []


def _chosen(sections: list[Tokens], value: float) -> tuple[Tokens, bool]:
    """Return the section for a number, and whether that shows its sign."""
    conditions = [next((text for kind, text in section if kind == "condition"), "") for section in sections]
    if any(conditions):
        for section, condition in zip(sections, conditions, strict=True):
            matched = _CONDITION.fullmatch(condition)
            if matched is None or _COMPARE[matched[1]](value, float(matched[2].strip(".") or 0)):
                return section, True
        return [], True
    numbers = sections[:3]
    if len(numbers) >= 2 and value < 0:
        return numbers[1], False
    if len(numbers) == 3 and value == 0:
        return numbers[2], False
    return (numbers[0] if numbers else []), True


def _number(tokens: Tokens, value: float) -> str | None:
    kinds = [kind for kind, _ in tokens]
    first, last = kinds.index("digit"), len(kinds) - 1 - kinds[::-1].index("digit")
    point = kinds.index(".") if "." in kinds else last + 1
    decimals = sum(kind == "digit" for kind in kinds[point:])
    if "E" in kinds:
        exponent = kinds.index("E")
        decimals = sum(kind == "digit" for kind in kinds[point:exponent]) if point < exponent else 0
        return f"{value:.{decimals}E}"
    # Commas among the digits divide thousands; those after the last one divide the number itself.
    scale = sum(kind == "," for kind in kinds[last + 1 :]) + sum(kind == "," for kind in kinds[point - 1 : point])
    try:
        exact = Decimal(repr(value)).scaleb(2 * kinds.count("%") - 3 * scale)
        rounded = abs(exact).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    except ArithmeticError:
        return None  # infinite, or with more digits than the context holds
    whole, _, part = f"{rounded:f}".partition(".")
    places = [index for index in range(first, min(point, last + 1)) if kinds[index] == "digit"]
    minimum = sum(tokens[index][1] == "0" for index in places)
    whole = whole.lstrip("0").rjust(minimum, "0")
    is_grouped = any(kind == "," for kind in kinds[first : max(first, places[-1] if places else first)])
    shown = _filled(tokens, places, whole, is_grouped) | _decimals(tokens, range(point, last + 1), part)
    if not any(shown.get(index) for index in range(point + 1, last + 1)):
        shown[point] = ""
    pieces = []
    for index, (kind, text) in enumerate(tokens):
        if kind in ("digit", "."):
            pieces.append(shown.get(index, ""))
        elif kind in ("text", "%", "@", "/"):
            pieces.append(text)
    sign = "-" if value < 0 and rounded else ""
    return (sign + "".join(pieces)).strip()


def _filled(tokens: Tokens, places: list[int], whole: str, is_grouped: bool) -> dict[int, str]:
    """Return the digits of the whole number by place, from the right; the first place takes all that are left."""
    if is_grouped:
        padded, groups = whole, []
        while len(padded) > 3:
            padded, group = padded[:-3], padded[-3:]
            groups.append(group)
        return {places[0]: ",".join([padded, *reversed(groups)])} if places else {}
    filled = {}
    for index in reversed(places[1:]):
        filled[index], whole = whole[-1:], whole[:-1]
    return filled | ({places[0]: whole} if places else {})


def _decimals(tokens: Tokens, indexes: range, part: str) -> dict[int, str]:
    places = [index for index in indexes if tokens[index][0] == "digit"]
    digits = dict(zip(places, part, strict=False))
    for index in reversed(places):
        if tokens[index][1] == "0" or digits.get(index, "0") != "0":
            break
        digits[index] = ""
    return digits | {index: "." for index in indexes if tokens[index][0] == "."}


def _elapsed(tokens: Tokens, value: timedelta) -> str:
    seconds = round(value.total_seconds())
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    total = {"h": seconds // 3600, "m": seconds // 60, "s": seconds}
    rest = {"h": seconds // 3600, "m": seconds // 60 % 60, "s": seconds % 60}
    pieces = []
    for kind, text in tokens:
        if kind == "elapsed":
            pieces.append(str(total[text[0]]).rjust(len(text), "0"))
        elif kind == "date" and text[0] in rest:
            pieces.append(str(rest[text[0]]).rjust(min(len(text), 2), "0"))
        elif kind in ("text", "/", ".", ","):
            pieces.append(text)
    return sign + "".join(pieces)


def _date(tokens: Tokens, value: datetime | date | time) -> str | None:
    has_date, has_time = not isinstance(value, time), not isinstance(value, date) or isinstance(value, datetime)
    units = [(index, text[0]) for index, (kind, text) in enumerate(tokens) if kind == "date"]
    # An m after an hour or before a second is a minute.
    around = ["", *(unit for _, unit in units), ""]
    minutes = {
        index
        for unit_number, (index, unit) in enumerate(units)
        if unit == "m" and (around[unit_number] == "h" or around[unit_number + 2] == "s")
    }
    is_twelve = any(kind == "ampm" for kind, _ in tokens)
    day = date(1900, 1, 1) if isinstance(value, time) else value
    clock = value if isinstance(value, time) else time()
    moment = value if isinstance(value, datetime) else datetime.combine(day, clock)
    pieces = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "date":
            unit = "minute" if index in minutes else text[0]
            if unit in "ymd" and not has_date:
                return None
            pieces.append(_unit(unit, min(len(text), 5), moment, is_twelve))
        elif kind == "ampm":
            pieces.append("PM" if moment.hour >= 12 else "AM")
        elif kind == "fraction":
            pieces.append(f".{moment.microsecond:06d}"[: len(text)])
        elif kind in ("text", "/", ".", ",", "@"):
            pieces.append("" if kind == "@" else text)
    return "".join(pieces).strip() if has_time or has_date else None


def _unit(unit: str, length: int, moment: datetime, is_twelve: bool) -> str:
    if unit == "y":
        return f"{moment:%Y}" if length > 2 else f"{moment.year % 100:02d}"
    if unit == "m" and length > 2:
        name = MONTHS[moment.month - 1]
        return name[:3] if length == 3 else name if length == 4 else name[0]
    if unit == "d" and length > 2:
        name = DAYS[moment.weekday()]
        return name[:3] if length == 3 else name
    hour = (moment.hour % 12 or 12) if is_twelve else moment.hour
    number = {"m": moment.month, "d": moment.day, "h": hour, "minute": moment.minute, "s": moment.second}[unit]
    return f"{number:02d}" if length >= 2 else str(number)
