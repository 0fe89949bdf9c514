"""Files of OpenDocument, RTF, Outlook and Jupyter, made here."""

import json
import struct
from collections.abc import Mapping

from tests.support.documents import packed

ODF = (
    'xmlns:office="urn:office" xmlns:text="urn:text" xmlns:table="urn:table" xmlns:draw="urn:draw" '
    'xmlns:dc="urn:dc" xmlns:style="urn:style" xmlns:presentation="urn:presentation" xmlns:svg="urn:svg"'
)
SECTOR, MINI, FREE, END = 512, 64, 0xFFFFFFFF, 0xFFFFFFFE


def odf_of(kind: str, body: str, *, styles: str = "", automatic: str = "", **parts: str) -> bytes:
    """A file of OpenDocument of this kind, "text" for instance, with the XML of its body."""
    return packed(
        mimetype=f"application/vnd.oasis.opendocument.{kind}",
        content_dot_xml=(
            f"<office:document-content {ODF}><office:automatic-styles>{automatic}</office:automatic-styles>"
            f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
        ),
        styles_dot_xml=f"<office:document-styles {ODF}>{styles}</office:document-styles>",
        **parts,
    )


def notebook_of(*cells: dict[str, object]) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def msg_of(streams: Mapping[str, object]) -> bytes:
    """A compound file of streams and of folders of streams, all of them shorter than 4 KB; text becomes UTF-16."""
    entries: list[tuple[str, int, int, int, int, int]] = []  # name, kind, right, child, start, size
    mini = b""

    def add(contents: Mapping[str, object]) -> int:
        """Add the entries of a folder, each the right neighbour of the one before; return the first."""
        nonlocal mini
        following = FREE
        for name, content in reversed(list(contents.items())):
            if isinstance(content, Mapping):
                child = add(content)
                entries.append((name, 1, following, child, 0, 0))
            else:
                data = content.encode("utf-16-le") if isinstance(content, str) else content
                assert isinstance(data, bytes)
                entries.append((name, 2, following, FREE, len(mini) // MINI, len(data)))
                mini += data + bytes(-len(data) % MINI)
            following = len(entries)
        return following

    child = add(streams)
    mini += bytes(-len(mini) % SECTOR)
    # The first sector holds the table of sectors; the directory, the mini table and the small sectors follow.
    first_of_mini = 1 + -(-(len(entries) + 1) // 4) + -(-(len(mini) // MINI * 4) // SECTOR)
    rows = [("Root Entry", 5, FREE, child, first_of_mini, len(mini)), *entries]
    directory = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBBIII", 2 * len(name) + 2, kind, 1, FREE, right, below)
        + bytes(36)
        + struct.pack("<IQ", start, size)
        for name, kind, right, below, start, size in rows
    )
    directory += bytes(-len(directory) % SECTOR)
    # The mini table: each stream is one run of small sectors.
    table = [number + 1 for number in range(len(mini) // MINI)]
    for _, kind, _, _, start, size in entries:
        if kind == 2 and size:
            table[start + -(-size // MINI) - 1] = END
    mini_table = struct.pack(f"<{len(table)}I", *table)
    mini_table += b"\xff" * (-len(mini_table) % SECTOR)
    runs = [directory, mini_table, mini]
    fat: list[int] = [0xFFFFFFFD]
    starts = []
    for run in runs:
        count = len(run) // SECTOR
        starts.append(len(fat) if count else END)
        fat += [*range(len(fat) + 1, len(fat) + count), END] if count else []
    assert len(fat) <= SECTOR // 4
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 62, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<9I", 1, starts[0], 0, 4096, starts[1], len(mini_table) // SECTOR, END, 0, 0)
    header += b"\xff" * (SECTOR - len(header))
    return header + struct.pack(f"<{SECTOR // 4}I", *fat, *[FREE] * (SECTOR // 4 - len(fat))) + b"".join(runs)
