"""Files that an attacker uploads: small files that are expensive to read, and archives that grow.

Each builder gives a file's name and its bytes; the bytes are made once and sent again and again.
"""

import functools
import io
import json
import zipfile
from collections.abc import Callable

from tests.support import slow_files

SPACES = 4_000  # enough for minutes in a pattern that is cubic
LONG = 400_000
LINE_MB = 17
INFLATED_MB = 600
MESSAGES = 24_000
IMAGES = 10_000

File = tuple[str, bytes]


def _claude_line(text: str) -> bytes:
    line = {
        "type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-01-01T12:00:00Z",
        "message": {"role": "user", "content": text},
    }  # fmt: skip
    return json.dumps(line).encode() + b"\n"


def _said(*texts: str) -> bytes:
    """Messages in OpenAI's shape, question and answer in turn."""
    roles = ("user", "assistant")
    return json.dumps({"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]}).encode()


@functools.cache
def command_name() -> File:
    return "command.jsonl", _claude_line("<command-name>" + " " * SPACES) + _claude_line("and then?")


@functools.cache
def long_identifier() -> File:
    return "identifier.json", _said("what is " + "a1" * (LONG // 2), "b" * LONG)


@functools.cache
def only_spaces() -> File:
    return "spaces.json", _said("so? " + " " * LONG + "x", "." + " " * LONG + "y")


@functools.cache
def backticks() -> File:
    return "backticks.json", _said("look: " + "`" * LONG, "``` `" * (LONG // 5))


@functools.cache
def many_images() -> File:
    return "images.json", _said("![" * IMAGES, "[" * IMAGES + "](" * IMAGES)


@functools.cache
def nul_and_surrogates() -> File:
    return "nul.json", _said("a\0b", "\ud800 and \0").replace(b"a", b"\0", 1)


@functools.cache
def deep_json() -> File:
    return "deep.json", b"[" * 200_000 + b"]" * 200_000


@functools.cache
def one_huge_line() -> File:
    return "line.jsonl", _claude_line("x" * (LINE_MB * 1024 * 1024))


@functools.cache
def zip_bomb() -> File:
    """Some hundred kilobytes that become hundreds of megabytes of one line."""
    return "bomb.zip", _zipped({"bomb.jsonl": b'{"a": "' + b"0" * (INFLATED_MB * 1024 * 1024)}, level=9)


@functools.cache
def zip_of_short_lines() -> File:
    """Few bytes, very many lines, each of which is an issue to report."""
    return "lines.zip", _zipped({"lines.jsonl": b"{\n" * (8 * 1024 * 1024)}, level=9)


@functools.cache
def zips_in_zips() -> File:
    data = zip_of_short_lines()[1]
    for depth in range(6):
        data = _zipped({f"{depth}-{copy}.zip": data for copy in range(4)}, level=9)
    return "nested.zip", data


@functools.cache
def many_messages() -> File:
    """One honest, long conversation, whose turns fill the queue."""
    texts = (f"message {n} about subject {n % 97} and place {n % 31}, step {n}." for n in range(MESSAGES))
    return "long.json", _said(*texts)


@functools.cache
def hanging_database() -> File:
    """A column of it calls one function that does not return for hours."""
    return "sessions.db", slow_files.slow_database()


def slow_document(number: int) -> File:
    """Its one page takes long to read, and longer to draw."""
    return f"slow-{number}.pdf", slow_files.slow_pdf(texts=60 + number)


def undrawable_page(number: int) -> File:
    return f"page-{number}.pdf", slow_files.slow_pdf(texts=1 + number)


def far_cells(number: int) -> File:
    """A workbook of a few bytes whose range has 17,179,869,184 cells."""
    return f"far-{number}.xlsx", slow_files.workbook_with((0, number), (1_048_575, 16_383))


def _zipped(files: dict[str, bytes], level: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


BOMBS: tuple[Callable[[], File], ...] = (
    command_name, long_identifier, only_spaces, backticks, many_images, nul_and_surrogates, deep_json, one_huge_line,
    zip_bomb, zip_of_short_lines, zips_in_zips,
)  # fmt: skip
