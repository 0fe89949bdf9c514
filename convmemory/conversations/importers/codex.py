"""Codex CLI: rollouts of `~/.codex/sessions`, plain or compressed, in the legacy, the 2025 and the paginated format.

A conversation is a thread, in one file or several: a paginated thread is a chain of files, each of which names how much
of the one before it is valid. Records after that position, and rolled back ones, are superseded. Messages are named by
turn and text, so that a thread that comes again in another format is the same conversation.

Source: openai/codex, codex-rs/protocol `protocol.rs` and `items.rs`, codex-rs/thread-store `rollout_lineage.rs`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.codex_records import RecordReader
from convmemory.conversations.importers.codex_scan import Scan, read_records, scan_rollout, turn_ids
from convmemory.conversations.importers.codex_threads import Page, find_thread, pages_of, thread_of
from convmemory.conversations.importers.threads import MessageKeys
from convmemory.conversations.importers.values import key_of, text_of

AGENT = "codex"
MAX_ID_CHARS = 290  # the column has 300

_ENVELOPE = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})
_BARE = frozenset({"function_call", "function_call_output", "tool_call", "tool_result", "function_result"})
_LONG_LINE = re.compile(rb'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context|compacted)"')


@dataclass(frozen=True, slots=True)
class CodexImporter:
    """Reads one rollout; with the last one of a paginated thread also the ones before it."""

    name: str = "codex"
    checked: Checked = Checked("Codex CLI", "0.153.0")
    reads: Reads = Reads(suffixes=frozenset({".jsonl", ".json", ".jsonl.zst"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            return None
        for item in source.head_objects:
            value, kind = item.value, text_of(item.value.get("type"))
            if kind in _ENVELOPE and isinstance(value.get("payload"), Mapping):
                return 95
            if kind in _BARE and "role" not in value and "uuid" not in value:
                return 70
            if "record_type" in value or {"id", "timestamp", "instructions"} <= value.keys():
                return 80
        return 60 if source.is_one_long_line and _LONG_LINE.search(source.head, 0, 400) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        page = thread_of(source.path)
        pages = pages_of(page, report)
        newest = pages[-1][0]
        if newest.path != page.path:
            report.note(f"the thread goes on in {newest.name}: it is read with that file")
            return
        scan = scan_rollout(page.path, report)
        report.written_by(scan.version, self.checked)
        if scan.is_empty and len(pages) == 1:
            report.note("a session without any message")
            return
        parent = find_thread(page.path, scan.parent_id) if scan.parent_id else None
        scan.inherited = turn_ids(parent) if parent else frozenset()
        yield ConversationDraft(
            messages=_messages(pages, scan, report),
            source=self.name,
            source_id=key_of(page.thread_id, max_chars=MAX_ID_CHARS),
            title=scan.title if len(pages) == 1 else scan.name,
            agent=AGENT,
            project=scan.cwd,
            created_at=scan.created_at if len(pages) == 1 else None,
            parent_source_id=key_of(scan.parent_id, max_chars=MAX_ID_CHARS),
        )


def _messages(pages: list[tuple[Page, bool]], scan: Scan, report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages of the thread's files in order; `scan` is of the newest one."""
    seen: set[str] = set()
    keys = MessageKeys()
    newest = pages[-1][0]
    for page, is_current in pages:
        page_report = report if page is newest else FileReport(path=page.name)
        reader = RecordReader(page_report, scan if page is newest else scan_rollout(page.path, page_report), keys)
        for record in read_records(page.path):
            beyond = page.counts_until is not None and record.offset >= page.counts_until
            for draft in reader.read(record, superseded=beyond or not is_current):
                # Files of a thread can repeat each other's messages.
                if draft.source_key not in seen:
                    seen.add(draft.source_key)
                    yield draft
