"""Each text of each format is read, or its report says that it was not.

Every text with a blank in it is replaced in turn, in all fixtures of JSON and in databases; of texts at like places in
entries of one type, the first. Dates are no texts. The replacement must come out in a conversation, or something must
be reported.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import Walk
from convmemory.conversations.importers.values import mapping_of
from convmemory.conversations.messages.parts import part_to_json
from convmemory.core.errors import InvalidInput, TooLarge
from tests.contracts.test_importers import FILES, copied, name_of_format, places_in
from tests.unit.importers.helpers import FIXTURES

PLANTED = "osprey heddle fennimore"
DATE = re.compile(r"[\d/.:,+\sTZAPM-]+")
JSON_FILES = [path for path in FILES if path.suffix in (".json", ".jsonl")]
DATABASES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".db", ".sqlite", ".vscdb"))
# Texts that are not read: what the same file says again, and what programs write about themselves.
UNREAD = {
    "amplifier": (
        *("data.prompt", "data.raw.messages.*", "data.result.output", "tool_calls.*.arguments.instruction"),
        "name",  # of a file without its transcript
    ),
    "chatgpt": ("*.title",),  # of a conversation without messages
    "chatgpt-exporter": ("metadata.powered_by",),
    "cherry-studio": ("localStorage.persist:cherry-studio",),
    "claude-ai": ("*.chat_messages.*.text", "*.full_name"),
    "claude-code": ("summary", "toolUseResult.content"),  # titles of other sessions
    "claude-stream": ("result",),
    "cline": ("task", "*.text"),  # the first prompt, and what the editor shows of the messages
    "codex": ("payload.item.id",),
    "codex-exec": ("item.command",),
    "copilot-cli": ("data.content", "data.transformedContent", "data.renderedMessage"),
    "droid": ("title",),
    "droid-exec": ("finalText",),
    "gemini-cli": ("content.*.text", "content"),  # an earlier state, and files that were added to a prompt
    "gemini-takeout": ("*.header", "*.products.*"),
    "junie": ("event.agentEvent.status", "event.agentEvent.command", "event.agentEvent.result"),  # earlier states
    "kimi-code": ("input.*.text",),
    "open-webui": ("*.chat.history.messages.o4.content",),
    "vscode-copilot": (
        *("v.responderUsername", "responderUsername", "v.*.pastTenseMessage.value"),
        "requests.*.result.metadata.toolCallRounds.*.response",
    ),
}


def read_from(path: Path) -> tuple[str, int]:
    """All that is read from the file, with its report, and the number of entries that are reported."""
    texts: list[str] = []
    reported = 0
    for item in Walk().over([path]):
        report = FileReport(path="")
        try:
            drafts = item.importer.parse(item.source, report) if item.importer else ()
            for draft in drafts:
                texts.append(f"{draft.title}\n{draft.project}")
                for message in draft.messages:
                    parts = [part_to_json(part) for part in message.parts]
                    texts.append(json.dumps([parts, message.name, message.model], ensure_ascii=False))
                texts.extend(json.dumps(event.payload, default=str) for event in draft.events)
        except (InvalidInput, TooLarge):
            reported += 1
        texts.append(json.dumps(report.to_json(), default=str))
        reported += report.passed_over + report.repaired + (item.importer is None)
    return "\n".join(texts), reported


def is_text(value: object) -> bool:
    return isinstance(value, str) and " " in value and not DATE.fullmatch(value)


def planted_in(value: Any, seen: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the place of each text of a JSON value, and the value with another text there."""
    for holder, key, (kind, *place) in places_in(value, (str(mapping_of(value).get("type")),)):
        text, at = holder[key], ".".join(place)
        if is_text(text) and f"{kind} {at}" not in seen:
            seen.add(f"{kind} {at}")
            holder[key] = PLANTED
            yield at, json.dumps(value).encode()
            holder[key] = text


@pytest.mark.parametrize("original", JSON_FILES, ids=lambda path: "/".join(path.relative_to(FIXTURES).parts)[-60:])
def test_each_text_of_file_is_read_or_reported(original: Path, tmp_path: Path) -> None:
    data = original.read_bytes()
    _, reported = read_from(copied(original, tmp_path, data))
    lines = data.split(b"\n") if original.suffix == ".jsonl" else [data]
    dropped, seen = set(), set[str]()
    for number, line in enumerate(lines):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for place, changed in planted_in(value, seen):
            texts, now = read_from(
                copied(original, tmp_path, b"\n".join([*lines[:number], changed, *lines[number + 1 :]]))
            )
            if PLANTED not in texts and now <= reported:
                dropped.add(place)
    assert dropped - {*UNREAD.get(name_of_format(original), ())} == set()


@pytest.mark.parametrize("original", DATABASES, ids=lambda path: "/".join(path.relative_to(FIXTURES).parts)[-60:])
def test_each_text_of_database_is_read_or_reported(original: Path, tmp_path: Path) -> None:
    path = tmp_path / original.relative_to(FIXTURES)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(original, path)
    _, reported = read_from(path)
    dropped = set()
    for table, column, row, text in cells(path):
        try:
            variants = planted_in(json.loads(text), set())
        except ValueError:
            variants = iter([("", PLANTED.encode())])
        for place, changed in variants:
            write(path, table, column, row, changed.decode())
            texts, now = read_from(path)
            if PLANTED not in texts and now <= reported:
                dropped.add(f"{table}.{column} {place}".strip())
        write(path, table, column, row, text)
    assert dropped - {*UNREAD.get(name_of_format(original), ())} == set()


def cells(path: Path) -> list[tuple[str, str, int, str]]:
    """The texts of a database with blanks in them: table, column, row."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = []
        for table in tables:
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            for column in columns:
                rows = database.execute(f'SELECT rowid, "{column}" FROM "{table}"')
                found += [(table, column, row, text) for row, text in rows if is_text(text)]
        return found


def write(path: Path, table: str, column: str, row: int, text: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', [text, row])
        database.commit()
