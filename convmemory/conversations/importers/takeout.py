# ruff: noqa: RUF001  # months and hours in the letters of other languages
"""Google Takeout's "My Activity" of the Gemini apps: prompts with their answers, as HTML or as JSON.

An entry links its conversation, by whose id it is named; the entries of a day without a link become one conversation.
In HTML, the answer follows the line with the time, which is written in the user's language.

Source: the archives themselves; there is no published schema.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.lines import unreadable
from convmemory.conversations.importers.values import (
    clean,
    list_of,
    mapping_of,
    short_hash,
    text_of,
    time_of,
    without_payloads,
)
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, Part, TextPart

MAX_CELL_CHARS = 4 * 1024**2
MAX_TIME_CHARS = 80
CHUNK_CHARS = 1024**2
_CELL = '<div class="outer-cell'
_CONTENT = re.compile(r'<div class="content-cell[^"<>]{0,200}mdl-typography--body-1">')
_NEXT_CONTENT = '<div class="content-cell'
_BREAK = re.compile(r"<(?:br|/p|/li|/tr|/h[1-6]|/div|/pre)[^<>]{0,200}>")
_COLUMN = re.compile(r"</t[dh]>")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_CHAT = re.compile(r"(?:gemini|bard)\.google\.com/(?:u/\d{1,3}/)?(?:app|chat|gem/[\w-]{1,64})/([\w-]{4,64})")
_PROMPTED = (
    *("Prompted ", "Prompted\u00a0", "Asked ", "Asked\u00a0", "Said ", "Said\u00a0"),
    "Eingegebener Prompt:",
)
_OTHER_ACTIVITY = ("Used ", "Gave ", "Viewed ", "Selected ")
_PRODUCT = r"(?:Gemini|Bard)[^\"<>]{0,40}"
_JSON_MARK = re.compile(rf'"(?:header|products)"\s*:\s*\[?\s*"{_PRODUCT}"'.encode())
_PRODUCTS = ("Gemini", "Bard")
_CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:.](\d\d)[:.](\d\d)(?!\d)")
_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)")
_NUMBER = re.compile(r"\d{1,2}")
_WORD = re.compile(r"[^\W\d_]{3,12}")
_OFFSET = re.compile(r"(?:GMT|UTC)([+\-\u2212])(\d{1,2})(?::?(\d\d))?")
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069"))
_AFTER_NOON = re.compile(r"(?i)\bp\.?\s?m\b|下午|午後|오후|\bμ\.?μ\b|\bCH\b|(?<!\w)م(?!\w)|अपराह्न")
_BEFORE_NOON = re.compile(r"(?i)\ba\.?\s?m\b|上午|午前|오전|\bπ\.?μ\b|\bSA\b|(?<!\w)ص(?!\w)|पूर्वाह्न")
# The beginnings of the months' names in languages whose dates name them.
_MONTHS = (
    "jan gen ene oca янв січ ian sty ιαν ינו يناير जन",
    "feb fév fev şub фев лют lut φεβ פבר فبراير फ़र",
    "mar mär mrt már бер μαρ מרץ مارس मार्च",
    "apr avr abr ápr nis апр кві kwi απρ אפר أبريل अप्रै",
    "mai may mag maj mei máj май мая тра μαΐ μαϊ מאי مايو",
    "jun juin giu jún iun haz июн чер cze ιουν יונ يونيو जून",
    "jul juil lug júl iul tem июл лип lip ιουλ יול يوليو जुल",
    "aug aoû ago agu ağu авг сер sie αυγ אוג أغسطس अग",
    "sep set szept eyl сен вер wrz σεπ ספט سبتمبر सित",
    "oct okt ott out eki окт жов paź οκτ אוק أكتوبر अक्तू",
    "nov noi kas ноя лис lis νοε נוב نوفمبر नव",
    "dec déc des dez dic ara дек гру gru δεκ דצמ ديسمبر दिस",
)
_MONTH_OF = sorted(
    ((name, month) for month, names in enumerate(_MONTHS, 1) for name in names.split()),
    key=lambda named: -len(named[0]),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One entry: the prompt, the answer ("" if missing), the time, and the id of the linked conversation."""

    prompt: str
    answer: str
    at: datetime | None
    chat: str
    raw: bytes
    files: tuple[AttachmentPart, ...] = ()


@dataclass(frozen=True, slots=True)
class TakeoutImporter:
    """Reads one `My Activity` file."""

    name: str = "gemini-takeout"
    checked: Checked = Checked("Google Takeout", "2026-11")
    reads: Reads = Reads(suffixes=frozenset({".html", ".json"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if _JSON_MARK.search(source.head) and b'"title"' in source.head:
            return 90
        is_activity = b"outer-cell" in source.head and any(name.encode() in source.head for name in _PRODUCTS)
        return 85 if is_activity else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        as_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{"))
        entries = _from_json(source.path, report) if as_json else _from_html(source.path, report)
        chats: dict[tuple[date, str], list[_Asked]] = {}
        for entry in entries:
            day = date.min if entry.chat or not entry.at else entry.at.date()
            chats.setdefault((day, entry.chat), []).append(entry)
        for asked in chats.values():
            # The newest entry is first; entries of one second keep their order in time.
            asked.sort(key=lambda entry: entry.at or datetime.min.replace(tzinfo=UTC))
        for (day, chat), asked in sorted(chats.items(), key=lambda item: (item[1][0].at is not None, item[0])):
            days = {f"day:{entry.at.date() if entry.at else 'unknown'}" for entry in asked}
            dated = f"Gemini prompts of {day}" if day != date.min else "Gemini prompts without a date"
            yield ConversationDraft(
                messages=_messages(asked),
                source="gemini-takeout",
                source_id=chat or next(iter(days)),
                former_ids=tuple(days) if chat and len(days) == 1 else (),
                title="" if chat else dated,
                agent="gemini",
                created_at=asked[0].at,
            )
        if any(not chat for _, chat in chats):
            report.note("Entries without a link to their conversation: those of a day are one conversation")


def _messages(entries: Iterable[_Asked]) -> Iterator[MessageDraft]:
    for entry in entries:
        key = short_hash(f"{entry.at}:{entry.prompt}", 20)
        parts: tuple[Part, ...] = (TextPart(entry.prompt), *entry.files)
        yield MessageDraft("user", parts, created_at=entry.at, source_key=key, raw=entry.raw)
        if entry.answer:
            yield MessageDraft("assistant", (TextPart(entry.answer),), created_at=entry.at, source_key=f"{key}:answer")


def _from_json(path: Path, report: FileReport) -> Iterator[_Asked]:
    others: Counter[str] = Counter()
    for element in read_elements(path, report=report):
        value = mapping_of(element.value)
        names = [value.get("header"), *list_of(value.get("products"))]
        if not any(text_of(name).startswith(_PRODUCTS) for name in names):
            continue
        title = text_of(value.get("title"))
        prompt = _prompt(title)
        if not prompt:
            others[title.partition(" ")[0][:40]] += 1
            continue
        names = [text_of(mapping_of(item).get("name")).strip("- \u00a0") for item in list_of(value.get("subtitles"))]
        items = (text_of(mapping_of(item).get("html")) for item in list_of(value.get("safeHtmlItem")))
        linked = _CHAT.search(text_of(value.get("titleUrl")))
        yield _Asked(
            prompt,
            "\n\n".join(filter(None, (_plain(item[:MAX_CELL_CHARS]) for item in items))),
            time_of(value.get("time")),
            linked[1] if linked else "",
            element.raw,
            tuple(named_file(name) for name in names if name),
        )
    _note_others(others, report)


def _from_html(path: Path, report: FileReport) -> Iterator[_Asked]:
    others: Counter[str] = Counter()
    for number, cell in enumerate(_cells(path, report)):  # the first piece is what precedes the entries
        opened = _CONTENT.search(cell)
        if not opened:
            if number and cell.strip():
                report.skip(f"entry {number}", "it has no content")
            continue
        content = cell[opened.end() :].partition(_NEXT_CONTENT)[0]
        lines = _plain(content).split("\n")
        prompt = _prompt(lines[0])
        if not prompt:
            others[lines[0].partition(" ")[0][:40]] += 1
            continue
        dated = next((at for at, line in enumerate(lines) if at and _is_time(line)), len(lines))
        at = _shown_time(lines[dated]) if dated < len(lines) else None
        if at is None:
            report.repair(f"entry {number}", "its time is written in a way that is not known: kept without one")
        linked = _CHAT.search(_asked_markup(content)) or _CHAT.search(cell, opened.end() + len(content))
        yield _Asked(
            "\n".join([prompt, *filter(str.strip, lines[1:dated])]),
            "\n".join(lines[dated + 1 :]).strip(),
            at,
            linked[1] if linked else "",
            json.dumps(cell).encode(),
        )
    _note_others(others, report)


def _asked_markup(content: str) -> str:
    """Return the markup without the answer, whose links name other conversations: up to the time, else one line."""
    start = 0
    for ends in _BREAK.finditer(content):
        if start and _is_time(_plain(content[start : ends.start()])):
            return content[: ends.start()]
        start = ends.end()
    return content.partition("<br")[0]


def _note_others(others: "Counter[str]", report: FileReport) -> None:
    if others:
        counted = ", ".join(f"{name} ({count})" for name, count in others.most_common(5))
        report.note(f"{others.total()} entries record no prompt: {counted}")


def _cells(path: Path, report: FileReport) -> Iterator[str]:
    """Yield what precedes the first entry of the page, and the entries, one at a time."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = ""
            while chunk := file.read(CHUNK_CHARS):
                *whole, text = (text + chunk).split(_CELL)
                yield from whole
                if len(text) > MAX_CELL_CHARS:
                    report.skip("entry", f"it is longer than {MAX_CELL_CHARS // 1024**2} MB")
                    text = ""
            yield text
    except OSError as error:
        raise unreadable(path, error) from error


def _prompt(line: str) -> str:
    """Return the prompt of a line "Prompted …" (in other languages the whole line); empty for other activity."""
    mark = next((mark for mark in _PROMPTED if line.startswith(mark)), "")
    return "" if line.startswith(_OTHER_ACTIVITY) else line[len(mark) :].strip()


def _plain(markup: str) -> str:
    """Return the text of some HTML, with a line per break."""
    text = html.unescape(_TAG.sub("", _BREAK.sub("\n", _COLUMN.sub("\t", markup))))
    return clean(without_payloads("\n".join(line.strip() for line in text.split("\n")).strip()))


def _is_time(line: str) -> bool:
    """Return whether the line is a time with its date, in any language."""
    return len(line) <= MAX_TIME_CHARS and bool(_CLOCK.search(line)) and bool(_YEAR.search(line))


def _shown_time(line: str) -> datetime | None:
    """Return the time that the line shows; None if its date is not certain.

    Only an offset is a certain zone: its names are ambiguous, and are read as UTC.
    """
    line = line.translate(_MARKS)
    clock, year = _CLOCK.search(line), _YEAR.search(line)
    if not clock or not year:
        return None
    before, after = line[: min(year.start(), clock.start())], line[year.end() : max(year.end(), clock.start())]
    numbers = [int(number) for number in _NUMBER.findall(before or after)]
    words = [word.lower() for word in _WORD.findall(before) or _WORD.findall(after)]
    months = (month for word in words for name, month in _MONTH_OF if word.startswith(name))
    month, hour = next(months, 0), int(clock[1])
    if month and numbers:
        day = numbers[0]
    elif len(numbers) >= 2:
        first, second = numbers[0], numbers[1]
        month, day = (first, second) if not before.strip() or second > 12 else (second, first)
    else:
        return None
    if hour <= 12 and (_AFTER_NOON.search(line) or _BEFORE_NOON.search(line)):
        hour = hour % 12 + (12 if _AFTER_NOON.search(line) else 0)
    offset = _OFFSET.search(line)
    east = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)) if offset else timedelta()
    try:
        at = datetime(int(year[1]), month, day, hour, int(clock[2]), int(clock[3]), tzinfo=UTC)
        return time_of(at - east if not offset or offset[1] == "+" else at + east)
    except (ValueError, OverflowError):
        return None
