"""E-mail: single mails, mailboxes, and mails enclosed in mails. Attachments are named and not opened."""

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from convmemory.core.files.charsets import declared_charset, decode_text
from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.converters.web import html_blocks, tree_of
from convmemory.documents.structure import Block

HEADERS = ("From", "To", "Cc", "Bcc", "Date")
MAX_HEADER_CHARS = 4_000
MAX_PARTS = 300
# An HTML version this many times as long as the plain one says more than that.
LONGER = 2
# The line before each mail of a mailbox, after a blank line or at the start.
_POSTMARK = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]{1,200}\r?\n(?=>?[\w-]{1,70}:)")
_QUOTED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)


def convert_email(file: SourceFile) -> Converted:
    """Convert a mail, or each mail of a mailbox: subject and senders, then the text. Raises: Unreadable."""
    data = file.path.read_bytes()
    starts = [match.span() for match in _POSTMARK.finditer(data)]
    mails = [data]
    if starts and starts[0][0] == 0:
        ends = [start for start, _ in starts[1:]] + [len(data)]
        mails = [_QUOTED_FROM.sub(b"", data[start:end]) for (_, start), end in zip(starts, ends, strict=True)]
    reader = _Reader(file)
    blocks = collected((block for mail in file.watched(mails) for block in reader.mail(_parsed(mail), 1)), file)
    title = reader.first_subject or "" if len(mails) == 1 else ""
    return Converted(blocks, title=title, coverage=reader.coverage)


class _Reader:
    """Reads mails, and counts them and what is attached to them."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self.coverage = Coverage()
        self.first_subject: str | None = None

    def mail(self, message: EmailMessage, level: int) -> Iterator[Block]:
        """Yield subject, senders and text of a mail, then the mails in it."""
        self.coverage.read["mail" if level == 1 else "enclosed mail"] += 1
        subject = " ".join(str(message.get("Subject", "")).split())
        if self.first_subject is None:
            self.first_subject = subject
        yield Block(f"{subject or self._file.stem}\n\n", level=level)
        shown = "".join(f"{name}: {message[name]}\n" for name in HEADERS if message[name])
        yield Block(f"{shown}\n")
        yield from self._part(message, level)

    def _part(self, part: EmailMessage, level: int) -> Iterator[Block]:
        kind = part.get_content_type()
        if kind == "multipart/alternative":
            yield from self._best_of(part, level)
        elif kind == "message/rfc822" or part.get_content_maintype() == "multipart":
            inner = _parts_in(part)
            if not inner:  # a part whose boundary is missing is one text
                yield from self._text(part)
            for each in inner:
                yield from self.mail(each, min(level + 1, 6)) if kind == "message/rfc822" else self._part(each, level)
        elif kind == "message/delivery-status":
            for fields in _parts_in(part):
                yield Block("".join(f"{name}: {value}\n" for name, value in fields.items()) + "\n")
        elif part.get_content_maintype() == "text" and part.get_content_disposition() != "attachment":
            yield from self._text(part)
        else:
            self.coverage.miss("attachment", "", part.get_filename() or kind)

    def _best_of(self, part: EmailMessage, level: int) -> Iterator[Block]:
        """Yield the plain version, or the HTML version where that is much longer; note other parts."""
        texts: dict[str, list[Block]] = {}
        for each in _parts_in(part):
            kind = each.get_content_type()
            if kind in ("text/plain", "text/html"):
                texts.setdefault(kind, list(self._text(each)))
            else:
                other = list(self._part(each, level))
                texts.setdefault("text/html" if other else kind, other)
        plain, html = (texts.get(kind, []) for kind in ("text/plain", "text/html"))
        lengths = [sum(len(block.text.split()) for block in blocks) for blocks in (plain, html)]
        yield from html if lengths[1] > LONGER * lengths[0] else plain

    def _text(self, part: EmailMessage) -> Iterator[Block]:
        payload: Any = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
        text = self._file.decoded(data, str(part.get_content_charset("") or "") or declared_charset(data))
        if part.get_content_type() == "text/html":
            yield from html_blocks(tree_of(text), self.coverage)
        elif text.strip():
            yield Block(f"{text}\n" if text.endswith("\n") else f"{text}\n\n")


def _parts_in(part: EmailMessage) -> list[EmailMessage]:
    payload: Any = part.get_payload()
    return payload if isinstance(payload, list) else []


def _parsed(data: bytes) -> EmailMessage:
    message = message_from_bytes(data, policy=_BoundedMail(message_factory=_PartCounter()))
    assert isinstance(message, EmailMessage)
    return message


class _BoundedMail(policy.EmailPolicy):
    """Cuts headers before they are parsed, which takes quadratic time in a list of addresses or encoded words."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        value = value[:MAX_HEADER_CHARS]
        # Bytes beyond ASCII come as surrogates: old programs wrote them in the encoding of their machine.
        return name, value if value.isascii() else decode_text(value.encode("utf-8", "surrogateescape"))[0]


class _PartCounter:
    """Creates the parts of one message, up to a limit. Raises: Unreadable."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, policy: Any = None) -> EmailMessage:
        self._count += 1
        if self._count > MAX_PARTS:
            raise Unreadable(
                "too_large", f"The e-mail has more than {MAX_PARTS} parts or messages in it: save them by themselves."
            )
        return EmailMessage(policy)
