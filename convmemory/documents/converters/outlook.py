"""Mails that Outlook saved as .msg: sender, recipients and text, and the mails attached to them.

Source: [MS-OXMSG] and [MS-OXPROPS]; [MS-OXRTFCP] for packed RTF.
"""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from convmemory.core.files.charsets import declared_charset
from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.compound import CompoundFile, Entry
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.converters.mail import LONGER
from convmemory.documents.converters.rtf import rtf_blocks
from convmemory.documents.converters.web import html_blocks, tree_of
from convmemory.documents.structure import Block

# Properties by their numbers.
SUBJECT, BODY, HTML, RTF = "0037", "1000", "1013", "1009"
SENDER, SENDER_ADDRESS, TO, CC, BCC = "0C1A", "5D01", "0E04", "0E03", "0E02"
FILE_NAME, LONG_FILE_NAME, EMBEDDED = "3704", "3707", "__substg1.0_3701000D"
SENT, DELIVERED = 0x00390040, 0x0E060040
UNICODE, BYTES, BINARY = "001F", "001E", "0102"
MAX_PARTS, MAX_ATTACHED_DEPTH = 300, 20
PROPERTIES = "__properties_version1.0"
# The text that packed RTF may refer to before its own begins.
_KNOWN_TEXT = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans "
    rb"SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def convert_msg(file: SourceFile) -> Converted:
    """Convert a mail with the mails attached to it. Raises: Unreadable."""
    reader = _Reader(CompoundFile(file.path.read_bytes()), file)
    blocks = collected(reader.mail(reader.compound.entries[0], 1), file)
    return Converted(blocks, title=reader.title, coverage=reader.coverage)


class _Reader:
    def __init__(self, compound: CompoundFile, file: SourceFile) -> None:
        self.compound, self._file = compound, file
        self.coverage = Coverage()
        self.title = ""
        self._parts = 0

    def mail(self, folder: Entry, level: int) -> Iterator[Block]:
        """Yield subject, senders and text, then the attached mails."""
        if level > MAX_ATTACHED_DEPTH:
            raise Unreadable("too_large", "The mail holds mails that are nested too deeply: save them by themselves.")
        self.coverage.read["mail" if level == 1 else "enclosed mail"] += 1
        entries = self.compound.folder(folder)
        subject = " ".join(self._text(entries, SUBJECT).split())
        self.title = self.title or subject
        yield Block(f"{subject or self._file.stem}\n\n", level=min(level, 6))
        sender, address = self._text(entries, SENDER), self._text(entries, SENDER_ADDRESS)
        fields = {
            "From": f"{sender} <{address}>" if address and address != sender else sender,
            "To": self._text(entries, TO),
            "Cc": self._text(entries, CC),
            "Bcc": self._text(entries, BCC),
            "Date": self._sent_at(entries),
        }
        yield Block("".join(f"{name}: {value}\n" for name, value in fields.items() if value) + "\n")
        yield from self._body(entries)
        for name, entry in entries.items():
            if name.startswith("__attach_version1.0"):
                self._parts += 1
                if self._parts > MAX_PARTS:
                    raise Unreadable(
                        "too_large", f"The mail has more than {MAX_PARTS} attachments: save them by themselves."
                    )
                attachment = self.compound.folder(entry)
                if EMBEDDED in attachment:
                    yield from self.mail(attachment[EMBEDDED], level + 1)
                else:
                    file_name = self._text(attachment, LONG_FILE_NAME) or self._text(attachment, FILE_NAME)
                    self.coverage.miss("attachment", "", file_name or "without a name")

    def _body(self, entries: dict[str, Entry]) -> Iterator[Block]:
        text = self._text(entries, BODY)
        page = self._bytes(entries, HTML)
        html: list[Block] = []
        if page:
            html = list(html_blocks(tree_of(self._file.decoded(page, declared_charset(page))), self.coverage))
        elif not text.strip() and (packed := self._bytes(entries, RTF)):
            html = rtf_blocks(unpacked_rtf(packed))
        is_longer = sum(len(block.text.split()) for block in html) > LONGER * len(text.split())
        yield from html if is_longer else [Block(f"{text}\n\n")] if text.strip() else []

    def _text(self, entries: dict[str, Entry], number: str) -> str:
        if entry := entries.get(f"__substg1.0_{number}{UNICODE}"):
            return self.compound.stream(entry).decode("utf-16-le", "replace").rstrip("\0")
        entry = entries.get(f"__substg1.0_{number}{BYTES}")
        return self._file.decoded(self.compound.stream(entry).rstrip(b"\0")) if entry else ""

    def _bytes(self, entries: dict[str, Entry], number: str) -> bytes:
        for kind in (BINARY, BYTES, UNICODE):
            if entry := entries.get(f"__substg1.0_{number}{kind}"):
                data = self.compound.stream(entry)
                return data.decode("utf-16-le", "replace").encode() if kind == UNICODE else data
        return b""

    def _sent_at(self, entries: dict[str, Entry]) -> str:
        entry = entries.get(PROPERTIES)
        data = self.compound.stream(entry) if entry else b""
        # Properties of 16 bytes each follow a head of 32, of 24 in an attached mail.
        for start in (32, 24):
            for at in range(start, len(data) - 15, 16):
                tag, _, ticks = struct.unpack_from("<IIQ", data, at)
                if tag in (SENT, DELIVERED) and 0 < ticks < 3 * 10**17:
                    sent_at = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
                    return sent_at.isoformat(" ", "minutes")
        return ""


def unpacked_rtf(data: bytes) -> bytes:
    """Return RTF that Outlook packed. Raises: Unreadable."""
    if len(data) < 16:
        return b""
    _, size, kind, _ = struct.unpack_from("<IIII", data)
    if kind == 0x414C454D:  # stored as it is
        return data[16 : 16 + size]
    window = bytearray(_KNOWN_TEXT.ljust(4096, b"\0"))
    write, at, written = len(_KNOWN_TEXT), 16, bytearray()
    while at < len(data) and len(written) < size:
        control = data[at]
        at += 1
        for bit in range(8):
            if at >= len(data):
                break
            if not control >> bit & 1:
                copied = data[at : at + 1]
                at += 1
            else:
                reference = int.from_bytes(data[at : at + 2], "big")
                at += 2
                offset, length = reference >> 4, (reference & 15) + 2
                if offset == write % 4096:
                    return bytes(written)
                copied = bytes(window[(offset + n) % 4096] for n in range(length))
            for byte in copied:
                window[write % 4096] = byte
                write += 1
            written += copied
    return bytes(written)
