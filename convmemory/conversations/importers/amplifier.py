"""Session folders of Microsoft Amplifier: `transcript.jsonl`, `metadata.json`, `events.jsonl`.

Messages come from the transcript, names and the parent from metadata; events are stored separately. Each of the files
may be missing or damaged. Messages have no ids and are named by their line.

Source: microsoft/amplifier-app-cli `session_store.py`, microsoft/amplifier-module-hooks-logging.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import ROLES_BY_NAME, kept_message
from convmemory.conversations.importers.json_arrays import load_json
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.values import key_of, mapping_of, short_hash, text_of, time_of
from convmemory.conversations.messages.drafts import TITLE_CHARS, ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id, named_by_opening
from convmemory.conversations.messages.parts import Part, TextPart, ToolResultPart, spoken_text
from convmemory.core.errors import ConvMemoryError
from convmemory.core.text import cut, one_line

EVENT_FILES = ("events.jsonl", "context-intelligence/events.jsonl")
MAX_PAYLOAD_BYTES = 4096
PROMPT_EVENT = "prompt:submit"

_LEFT_OUT = frozenset({"raw", "messages", "history"})  # whole conversations, repeated in each event
_LIMITS = ((1000, 40), (300, 20), (80, 10))  # (characters of a string, items of a list or object)
_MAX_DEPTH = 6

TRANSCRIPT = "transcript.jsonl"
METADATA = "metadata.json"
MAX_METADATA_BYTES = 16 * 1024 * 1024
MAX_RESULT_CHARS = 1_000_000  # longer results are not parsed for an error flag
REMINDER = "<system-reminder>"
SESSION_FILES = frozenset({TRANSCRIPT, METADATA, *EVENT_FILES, "context-intelligence"})

_METADATA_KEYS = frozenset(
    {"session_id", "bundle", "last_turn", "parent_id", "turn_count", "working_dir", "recovered", "incremental"}
)
_SESSION_NAME = re.compile(r"[0-9a-f]{8}[0-9a-f-]*(_.+)?", re.IGNORECASE)
_SPAN = re.compile(r"-[0-9a-f]{16}$", re.IGNORECASE)


def events_path(folder: Path) -> Path | None:
    """Return the session's event log, if there is one."""
    return next((path for path in (folder / name for name in EVENT_FILES) if path.is_file()), None)


def read_events(folder: Path, report: FileReport) -> Iterator[EventDraft]:
    """Yield the events in order, read one line at a time, with payloads cut to size; line numbers rise strictly.

    Raises: InvalidInput if the file cannot be read.
    """
    path = events_path(folder)
    if path is None:
        return
    prompts = last = 0

    def on_issue(number: int, reason: str, *, kept: bool) -> None:
        if not kept:
            report.skip(f"{path.name}:{number}", reason)

    for item in read_objects(path, on_issue=on_issue):
        kind = text_of(item.value.get("event")) or text_of(item.value.get("type"))
        if not kind:
            report.skip(f"{path.name}:{item.number}", "an event without a type")
            continue
        prompts += kind == PROMPT_EVENT
        # Several events on one line need different numbers: the number identifies an event.
        last = max(last + 1, item.number)
        value = item.value
        data = mapping_of(value.get("data"))
        tools = (text_of(record.get(key)) for record in (data, value) for key in ("tool_name", "tool"))
        turns = () if prompts else (data.get("turn"), data.get("turn_number"), value.get("turn"))
        whole = (turn for turn in turns if isinstance(turn, int) and not isinstance(turn, bool))
        yield EventDraft(
            line_number=last,
            type=kind,
            level=text_of(value.get("lvl")) or text_of(value.get("level")),
            tool=next((tool for tool in tools if tool), ""),
            turn_number=next((turn for turn in whole if 0 <= turn < 2**31), None),
            prompt_number=prompts - 1 if prompts else None,
            created_at=time_of(value.get("ts")) or time_of(value.get("timestamp")),
            payload=bounded_payload({**data, **{key: value[key] for key in ("status", "duration_ms") if key in value}}),
        )


def bounded_payload(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data as JSON of at most 4 KB: long strings and lists are shortened, in steps."""
    for max_chars, max_items in _LIMITS:
        payload: dict[str, Any] = _shortened(data, max_chars, max_items, 0)
        if len(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")) <= MAX_PAYLOAD_BYTES:
            return payload
    return {"left_out": f"more than {MAX_PAYLOAD_BYTES} bytes", "keys": [cut(str(key), 40) for key in list(data)[:20]]}


def _shortened(value: Any, max_chars: int, max_items: int, depth: int) -> Any:
    if isinstance(value, str):
        return cut(value, max_chars)
    if isinstance(value, (Mapping, list)) and depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        kept = [(key, item) for key, item in value.items() if key not in _LEFT_OUT][:max_items]
        return {cut(str(key), 80): _shortened(item, max_chars, max_items, depth + 1) for key, item in kept}
    if isinstance(value, list):
        items = [_shortened(item, max_chars, max_items, depth + 1) for item in value[:max_items]]
        return [*items, f"… {len(value) - max_items} more"] if len(value) > max_items else items
    return value


@dataclass(frozen=True, slots=True)
class AmplifierImporter:
    """Reads one session folder."""

    name: str = "amplifier"
    checked: Checked = Checked("Amplifier", "2026-07")
    reads: Reads = Reads(folders=True, folder_entries=SESSION_FILES)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`. Accepts the folder, not the files in it."""
        if not source.is_folder:
            return None
        if any(_is_message(item.value) for item in source.head_objects):
            return 95
        if any("type" in item.value for item in source.head_objects):
            return None  # the transcript of another program
        metadata_keys = _METADATA_KEYS & _metadata(source.path, FileReport(path="")).keys()
        has_other_files = (source.path / TRANSCRIPT).exists() or events_path(source.path) is not None
        return 70 if metadata_keys and (has_other_files or source.path.parent.name == "sessions") else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        metadata = _metadata(source.path, report)
        messages = _messages(source.path / TRANSCRIPT, metadata, report)
        opening = list(itertools.islice(messages, 1))
        has_events = events_path(source.path) is not None
        if not opening:
            report.note("a session without any message")
            if not has_events:
                return
        times = (time_of(metadata.get(key)) for key in ("created", "started_at"))
        bundle = text_of(metadata.get("bundle")).removeprefix("bundle:").strip()
        given_id = text_of(metadata.get("session_id"))
        is_named = bool(given_id or _SESSION_NAME.fullmatch(source.path.name) or not opening)
        # The session that started this one: from the metadata, else from the name `<parent>…_<agent>`.
        named = text_of(metadata.get("parent_id"))
        if named or "_" not in source.path.name:
            parent_source_id = key_of(named, max_chars=290)
        else:
            stem = source.path.name.partition("_")[0]
            # The longest prefix that is a session's folder; without one, the id of a span is cut off.
            parents = (stem[:end] for end in range(len(stem), 0, -1) if (source.path.parent / stem[:end]).is_dir())
            parent_source_id = key_of(next(parents, None) or _SPAN.sub("", stem), max_chars=290)
        title = text_of(metadata.get("name"))
        if not title:
            questions = (spoken_text(draft.parts) for draft in opening if draft.role == "user" and not draft.injected)
            title = one_line(next(questions, ""), TITLE_CHARS)
        project = text_of(metadata.get("working_dir"))
        if not project:
            folders = Path(source.label or source.path).parts[:-1]
            project = folders[-2] if len(folders) > 1 and folders[-1] == "sessions" else ""
        draft = ConversationDraft(
            messages=itertools.chain(opening, messages),
            source=self.name,
            source_id=key_of(given_id or source.path.name, max_chars=290),
            has_weak_id=not given_id and not is_global_id(source.path.name),
            title=title,
            agent=bundle or text_of(metadata.get("agent_name")) or "amplifier",
            project=project,
            created_at=next((time for time in times if time), None),
            parent_source_id=parent_source_id,
            events=read_events(source.path, report) if has_events else (),
        )
        if is_named:
            yield draft
            return
        # Earlier versions named a session without an id by its folder and a hash.
        first = opening[0]
        former_id = f"{source.path.name}:{short_hash(repr((first.role, first.parts)))}"
        yield named_by_opening(draft, former_ids=[key_of(former_id, max_chars=290)])


def _is_message(value: Mapping[str, Any]) -> bool:
    role = value.get("role")
    return isinstance(role, str) and role in ROLES_BY_NAME and ("content" in value or "tool_calls" in value)


def _metadata(folder: Path, report: FileReport) -> dict[str, Any]:
    """Return the content of both metadata files; the session's own takes precedence.

    A damaged file is reported and skipped.
    """
    metadata: dict[str, Any] = {}
    # The session's own file is last and overwrites the other's values.
    for path in (folder / "context-intelligence" / METADATA, folder / METADATA):
        if not path.is_file():
            continue
        try:
            value = load_json(path, max_bytes=MAX_METADATA_BYTES)
        except ConvMemoryError as error:
            report.skip(path.relative_to(folder).as_posix(), str(error))
            continue
        metadata.update((key, item) for key, item in mapping_of(value).items() if item not in (None, ""))
    return metadata


def _messages(path: Path, metadata: Mapping[str, Any], report: FileReport) -> Iterator[MessageDraft]:
    if not path.is_file():
        report.note(f"there is no {TRANSCRIPT}")
        return
    model = text_of(metadata.get("model"))
    for item in read_objects(path, on_issue=report.line_issue):
        draft = kept_message(item.value, unknown=report.unknown, refused=partial(report.line_issue, item.number))
        if draft.parts:
            # The message with its key, its model and its real role.
            draft = replace(
                draft, source_key=f"line:{item.number}" + (f".{item.index}" if item.index else ""), raw=item.raw
            )
            if draft.role == "assistant":
                finished = replace(draft, model=draft.model or model)
            elif draft.role == "tool":
                finished = replace(draft, parts=tuple(map(_with_error_flag, draft.parts)))
            elif draft.role == "user" and item.value.get("tool_call_id"):
                # A user message that carries a tool's result.
                texts = [part.text for part in draft.parts if isinstance(part, TextPart)]
                result = ToolResultPart(
                    call_id=key_of(text_of(item.value.get("tool_call_id"))), text="\n\n".join(texts)
                )
                rest = tuple(part for part in draft.parts if not isinstance(part, TextPart))
                finished = replace(draft, role="tool", parts=(result, *rest))
            elif draft.role == "user" and spoken_text(draft.parts).lstrip().startswith(REMINDER):
                finished = replace(draft, role="system", injected=True)
            else:
                finished = draft
            yield finished


def _with_error_flag(part: Part) -> Part:
    """Return the result marked as an error if its JSON says so: `{"success": false, "error": …, "output": …}`."""
    if not isinstance(part, ToolResultPart) or not part.text.startswith("{") or len(part.text) > MAX_RESULT_CHARS:
        return part
    try:
        value = json.loads(part.text, strict=False)
    except (ValueError, RecursionError):
        return part
    return replace(part, is_error=part.is_error or value.get("success") is False or bool(value.get("error")))
