"""The JSON that an export of this product writes (`exports/json_file.py`), from this or another installation.

An array of conversations, read one at a time; a long one has several entries.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.own_export import WRONG, conversation_of_row, message_of_row, reason_of
from convmemory.conversations.importers.values import mapping_of

FORMAT = "convmemory-conversations"
VERSION = 1


@dataclass(frozen=True, slots=True)
class OwnJsonImporter:
    """Reads one exported document."""

    name: str = "convmemory-json"
    checked: Checked = Checked("convmemory's JSON", str(VERSION))
    reads: Reads = Reads(suffixes=frozenset({".json"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        start = source.head[:200]
        return 100 if not source.is_folder and f'"{FORMAT}"'.encode() in start else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        for element in read_elements(source.path, report=report, names=("conversations",)):
            row = mapping_of(element.value)
            try:
                yield conversation_of_row(row, messages=_messages(row, element.number, report), events=())
            except WRONG as error:
                report.skip(f"conversation {element.number}", reason_of(error))


def _messages(conversation: Mapping[str, Any], number: int, report: FileReport) -> Iterator[MessageDraft]:
    given = conversation.get("messages")
    for place, row in enumerate(given if isinstance(given, list) else [], 1):
        try:
            yield message_of_row(row, b"")
        except WRONG as error:
            report.skip(f"conversation {number}, message {place}", reason_of(error))
