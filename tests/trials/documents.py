"""A trial, not a test: files made to break the library, and a PDF of 300 pages from upload to found.

`python -m tests.trials.documents` makes a data folder of its own and the files on the fly, has each read by the real
child process under the shipped limits, prints what became of it and how long that took, and fails where a file has
another state than it should. With `--pages N` it times a PDF of N pages alone. It takes minutes.
"""

import argparse
import io
import os
import random
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from convmemory.accounts.callers import Caller

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MB = 1024**2
CHARS_PER_PAGE = 1_800
PROSE = (
    "pump valve garden engine water seal pressure ladder morning filter report market river season copper signal "
    "method bridge winter harbour captain letter village copper window journey memory silver forest letter"
)


@dataclass(frozen=True)
class Case:
    """A file, and what should become of it: a failure's name, "" for ready, "refused" for none taken."""

    name: str
    content: Callable[[], bytes]
    becomes: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, help="only a PDF of so many pages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="documents-trial-") as folder:
        Path(folder).chmod(0o755)
        owner = prepare(Path(folder))
        if options.pages:
            time_pages(owner, options.pages)
            return
        wrong = [case.name for case in cases() if not take(owner, case)]
        time_pages(owner, 300)
    sys.exit(f"Not as they should be: {', '.join(wrong)}." if wrong else 0)


def prepare(folder: Path) -> "User":
    """An empty installation with one person."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "convmemory.settings",
        "CONVMEMORY_VAR": str(folder / "var"),
        "LOG_LEVEL": "CRITICAL",
    }
    os.environ.pop("DATABASE_URL", None)
    import django

    from convmemory.core import acting

    django.setup()
    acting.process_acts_as(acting.SCHEMA)
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    return User.objects.create_user("ada")


def cases() -> list[Case]:
    """Made when they are taken: some are large."""
    from tests.support.documents import docx_of, encrypted_pdf, epub_of, packed, pdf_of

    plain = [(12, "The greenhouse opens at seven.")]
    book = epub_of(one="<h1>Visits</h1><p>The greenhouse opens at seven.</p>")
    return [
        Case("200 MB.txt", lambda: b"word " * (40 * MB), "refused"),
        Case("99 MB.txt", lambda: b"word " * (99 * MB // 5), "too_large"),
        Case("10,000 pages.pdf", lambda: pdf_of([plain] * 10_000)),
        Case("10,001 pages.pdf", lambda: pdf_of([plain] * 10_001), "too_large"),
        Case("a million cells.csv", lambda: b"1,2,3,4,5,6,7,8,9,10\n" * 100_000),
        Case("a million cells.xlsx", _sheet),
        Case("zip bomb.docx", _bomb, "too_large"),
        Case("zip bomb within a part.docx", _bomb_that_lies, "broken"),
        Case("macros.docm", lambda: _with_macros(docx_of(("Normal", "The greenhouse opens at seven.")))),
        Case("encrypted.pdf", encrypted_pdf, "encrypted"),
        Case("broken.pdf", lambda: pdf_of([plain])[:200], "broken"),
        Case("noise.pdf", lambda: b"%PDF-1.7\n" + random.Random(7).randbytes(MB), "broken"),
        Case("a scan.pdf", lambda: pdf_of([[], []]), "no_text"),
        Case("scripts.html", lambda: b"<html><script>alert(1)</script><p onclick='x()'>It opens.</p></html>"),
        Case("deep.html", lambda: b"<html>" + b"<div>" * 300_000 + b"It opens.", "no_text"),
        Case("a book named as a picture.png", lambda: book),
        Case("an archive.zip", lambda: packed(readme_dot_txt="hello"), "unknown"),
        Case("empty.md", lambda: b"", "empty"),
        Case("blank.md", lambda: b" \n\n ", "no_text"),
        Case("../../etc/passwd", lambda: b"A name is no path."),
        Case("the same again.md", lambda: b"A name is no path."),
    ]


def take(owner: "User", case: Case) -> bool:
    """Upload it and have it read; whether it became what it should."""
    from convmemory.core.errors import TooLarge
    from convmemory.documents import library
    from convmemory.documents.processing import process_document

    data = case.content()
    began = time.monotonic()
    try:
        library.require_acceptable(size=len(data))
        stored = library.store_file(archive_id=owner.pk, file=io.BytesIO(data), name=case.name)
        document = library.add_document(caller=Caller.of(owner), stored=stored).document
        process_document(archive_id=owner.pk, document_id=document.pk)
        document.refresh_from_db()
        became, said = document.failure, document.error or f"{document.section_count:,} sections"
    except TooLarge as error:
        became, said = "refused", str(error)
    seconds = time.monotonic() - began
    print(f"{case.name:32} {len(data) / MB:7.1f} MB {seconds:6.1f} s  {became or 'ready':10} {said}", flush=True)
    return became == case.becomes


def time_pages(owner: "User", count: int) -> None:
    """Print how long a PDF of prose takes until it is found."""
    from convmemory.documents import library
    from convmemory.documents.processing import process_document
    from search.indexing.active import index_source
    from search.models import Passage, Source
    from search.searching import DocumentScope, SearchQuery, search

    data = _prose_pdf(count)
    began = time.monotonic()
    stored = library.store_file(archive_id=owner.pk, file=io.BytesIO(data), name="long.pdf")
    document = library.add_document(caller=Caller.of(owner), stored=stored).document
    process_document(archive_id=owner.pk, document_id=document.pk)
    read = time.monotonic() - began
    source = Source.objects.get(archive_id=owner.pk, kind="document", object_id=document.pk)
    index_source(archive_id=owner.pk, source_id=source.pk)
    whole = time.monotonic() - began
    query = SearchQuery(text=f"what stands on page {count}", document_scope=DocumentScope(document.pk))
    found = search(caller=Caller.of(owner), query=query)
    passages = Passage.objects.filter(archive_id=owner.pk, source__object_id=document.pk).count()
    print(
        f"PDF of {count} pages: read in {read:.1f} s, found after {whole:.1f} s "
        f"({passages:,} passages, {len(found.hits)} hits)",
        flush=True,
    )


def _prose_pdf(count: int) -> bytes:
    from tests.support.documents import pdf_of

    draw = random.Random(7)

    def page(number: int) -> list[tuple[int, str]]:
        lines, chars = [(16, f"Chapter {number}")], 0
        while chars < CHARS_PER_PAGE:
            line = " ".join(draw.choices(PROSE.split(), k=draw.randint(9, 12)))
            lines.append((9, line.capitalize() + "." if draw.random() < 0.6 else line))
            chars += len(line)
        return lines

    return pdf_of([page(number) for number in range(1, count + 1)])


def _sheet() -> bytes:
    from tests.support.documents import xlsx_of

    return xlsx_of(Numbers=[list(range(row, row + 10)) for row in range(100_000)])


def _bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(1_000):
            part.write(b"\0" * MB)
    return out.getvalue()


def _bomb_that_lies() -> bytes:
    """The same, but the archive says that the part has 1,000 bytes."""
    data = bytearray(_bomb())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.rfind(mark) if mark == b"PK\x01\x02" else data.find(mark)
        data[at + place : at + place + 4] = (1_000).to_bytes(4, "little")
    return bytes(data)


def _with_macros(docx: bytes) -> bytes:
    out = io.BytesIO(docx)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("word/vbaProject.bin", b"\xd0\xcf\x11\xe0 AutoOpen")
    return out.getvalue()


if __name__ == "__main__":
    main()
