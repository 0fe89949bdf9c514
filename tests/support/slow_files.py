"""Small files that take long to read, made without Django: for tests of workers, and for trials."""

import io
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

NESTING, COPIES = 4, 14  # of forms in a PDF, each of which draws the next so many times
SEARCHED_BYTES = 40_000_000

GOOSE = f"""
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  working_dir TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT);
INSERT INTO sessions (id, working_dir) VALUES ('one', '/home/mallory');
INSERT INTO messages (session_id, role, created_timestamp) VALUES ('one', 'user', 1780000000);
ALTER TABLE messages
  ADD COLUMN content_json TEXT AS (instr(zeroblob({SEARCHED_BYTES}), zeroblob({SEARCHED_BYTES // 2}) || x'01'));
"""


def slow_database() -> bytes:
    """A database of Goose in which one column calls a function of SQLite that does not return for hours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(GOOSE)
            connection.commit()
        return path.read_bytes()


def slow_pdf(texts: int = 1) -> bytes:
    """One page of forms in forms, which takes minutes to draw, and with `texts=40` ten seconds to read."""
    leaf = b"BT /F 12 Tf %s ET %s" % (b"1 0 0 1 10 10 Tm (a b) Tj " * texts, b"0 0 600 700 re f " * 5)
    forms = [_stream(b"/X Do " * COPIES, b"/XObject<</X %d 0 R>>" % (7 + depth)) for depth in range(NESTING)]
    said = b"BT /F 12 Tf 100 700 Td (some words) Tj ET /X Do"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>/XObject<</X 6 0 R>>>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[5 0 R]/Count 1>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", _stream(said), page + b"/Contents 4 0 R>>",
        *forms, _stream(leaf, b"/Font<</F 3 0 R>>"),
    ]  # fmt: skip
    return pdf_file(objects)


def _stream(commands: bytes, resources: bytes = b"") -> bytes:
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 595 842]/Resources<<%s>>" % resources if resources else b""
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (form, len(commands), commands)


def pdf_file(objects: list[bytes], extra: bytes = b"") -> bytes:
    """The file of these objects, of which the first is the catalogue; `extra` goes into the trailer."""
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, extra, start)


def workbook_with(*cells: tuple[int, int], formats: Sequence[tuple[int, int]] = ()) -> bytes:
    """A workbook with text, or a format alone, in these cells, each a row and a column from 0."""
    from xlsxwriter import Workbook

    out = io.BytesIO()
    with Workbook(out) as book:
        sheet = book.add_worksheet("Far")
        for row, column in cells:
            sheet.write(row, column, "x")
        for row, column in formats:
            sheet.write_blank(row, column, None, book.add_format({"bold": True}))
    return out.getvalue()
