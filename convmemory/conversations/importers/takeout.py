"""Google Takeout's "My Activity" of the Gemini apps: the prompts by day, with the answers if the file has them.

Takeout has no conversations, so the prompts of a day become one. It is HTML, or JSON if the user chose that.

Source: the archives themselves; there is no published schema.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.lines import unreadable
from convmemory.conversations.importers.values import clean, mapping_of, short_hash, text_of, time_of, without_payloads
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart

MAX_CELL_CHARS = 4 * 1024**2
CHUNK_CHARS = 1024**2
_CELL = '<div class="outer-cell'
_CONTENT = re.compile(r'<div class="content-cell[^"<>]{0,200}mdl-typography--body-1">')
_BREAK = re.compile(r"<(?:br|/p|/li|/h[1-6]|/div)[^<>]{0,200}>")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_ENGLISH_TIME = re.compile(r"\A[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d{2}:\d{2}[\s\u202f]?[AP]M")
_PROMPTED = ("Prompted ", "Prompted\u00a0", "Asked ", "Asked\u00a0", "Said ", "Said\u00a0")
_OTHER_ACTIVITY = ("Used ", "Gave ", "Created ", "Viewed ", "Selected ")
_GEMINI = (b"Gemini Apps", b"Gemini", b"Bard")
_JSON_MARK = re.compile(rb'"(?:header|products)"\s*:\s*\[?\s*"(?:Gemini Apps|Gemini|Bard)"')


@dataclass(frozen=True, slots=True)
class _Asked:
    """One entry: the prompt, the answer ("" if missing), and the time."""

    prompt: str
    answer: str
    at: datetime | None
    raw: bytes


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
        is_activity = b"outer-cell" in source.head and any(name in source.head for name in _GEMINI)
        return 85 if is_activity else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        as_json = source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{"))
        entries = _from_json(source.path, report) if as_json else _from_html(source.path, report)
        days: dict[date | None, list[_Asked]] = {}
        for entry in entries:
            days.setdefault(entry.at.date() if entry.at else None, []).append(entry)
        for day in sorted(days, key=lambda day: day or date.min):
            ordered = sorted(days[day], key=lambda entry: entry.at or datetime.min.replace(tzinfo=UTC))
            yield ConversationDraft(
                messages=_messages(ordered),
                source="gemini-takeout",
                source_id=f"day:{day or 'unknown'}",
                title=f"Gemini prompts of {day}" if day else "Gemini prompts without a date",
                agent="gemini",
                created_at=ordered[0].at,
            )
        if days:
            report.note("Takeout does not say which prompts belong together: those of a day are one conversation")


def _messages(entries: Iterable[_Asked]) -> Iterator[MessageDraft]:
    for entry in entries:
        key = short_hash(f"{entry.at}:{entry.prompt}", 20)
        yield MessageDraft("user", (TextPart(entry.prompt),), created_at=entry.at, source_key=key, raw=entry.raw)
        if entry.answer:
            yield MessageDraft("assistant", (TextPart(entry.answer),), created_at=entry.at, source_key=f"{key}:answer")


def _from_json(path: Path, report: FileReport) -> Iterator[_Asked]:
    for element in read_elements(path, report=report):
        value = mapping_of(element.value)
        products = value.get("products")
        names = [value.get("header"), *(products if isinstance(products, list) else [])]
        if not any(name in ("Gemini Apps", "Gemini", "Bard") for name in names):
            continue
        prompt = _prompt(text_of(value.get("title")))
        if prompt:
            items = value.get("safeHtmlItem")
            listed = [mapping_of(item) for item in items] if isinstance(items, list) else []
            yield _Asked(
                prompt,
                "\n\n".join(filter(None, (_plain(text_of(item.get("html"))[:MAX_CELL_CHARS]) for item in listed))),
                time_of(value.get("time")),
                element.raw,
            )


def _from_html(path: Path, report: FileReport) -> Iterator[_Asked]:
    for number, cell in enumerate(_cells(path, report), 1):
        opened = _CONTENT.search(cell)
        if not opened:
            continue
        lines = [line for line in _plain(cell[opened.end() :]).split("\n") if line.strip()]
        prompt = _prompt(lines[0]) if lines else ""
        if not prompt:
            continue
        dated = next((at for at, line in enumerate(lines) if _ENGLISH_TIME.match(line)), None)
        if dated is not None:
            # An English time; its zone is an ambiguous name, so it is read as UTC.
            text = " ".join(lines[dated].replace("\u202f", " ").split()[:5])
            try:
                at = time_of(datetime.strptime(text, "%b %d, %Y, %I:%M:%S %p").replace(tzinfo=UTC))
            except ValueError:
                at = None
        else:
            at = None
        text = "\n".join([prompt, *lines[1:dated]]) if dated else prompt
        if at is None:
            report.repair(f"entry {number}", "its time is written in a way that is not known: kept without one")
        yield _Asked(text, "", at, json.dumps(cell).encode())


def _cells(path: Path, report: FileReport) -> Iterator[str]:
    """Yield the entries of the page, one at a time."""
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
    text = html.unescape(_TAG.sub("", _BREAK.sub("\n", markup)))
    return clean(without_payloads("\n".join(line.strip() for line in text.split("\n")).strip()))
