"""The messages of one conversation of a declared format, from its entries."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.content import record_messages
from convmemory.conversations.importers.declaration import ALTERNATING, SUPERSEDED, Declaration, EntryMessage
from convmemory.conversations.importers.declared_content import (
    blocks_of_entry,
    is_blank,
    readable_role,
    typed_and_added,
)
from convmemory.conversations.importers.json_arrays import dumped, json_bytes
from convmemory.conversations.importers.places import first
from convmemory.conversations.importers.threads import MessageKeys, Node, ToolNames, read_thread
from convmemory.conversations.importers.values import DayOrder, key_of, list_of, short_hash, text_of, time_of
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import Role, TextPart
from convmemory.core.errors import TooLarge

MAX_TREE_BYTES = 512 * 1024**2  # of a thread with branches, which is in memory as a whole

_Entry = Mapping[str, Any]
PlacedEntry = tuple[str, _Entry, bytes]
"""Position of an entry in its file, its value and its source bytes."""


@dataclass(slots=True)
class EntryReader:
    """Reads the entries of one conversation. `header` describes it, `joined` adds what an entry names elsewhere."""

    of: Declaration
    report: FileReport
    header: _Entry
    prefix: str
    joined: Callable[[_Entry], _Entry]
    order: DayOrder = ""
    _keys: MessageKeys = field(default_factory=MessageKeys)
    _tools: ToolNames = field(default_factory=ToolNames)

    def read(self, entries: Iterable[PlacedEntry]) -> Iterator[MessageDraft]:
        """Yield the messages of these entries, each once."""
        is_answered, last = False, None
        for draft in self._drafts(entries):
            is_answered, last = is_answered or draft.role == "assistant", draft
            yield draft
        if self.of.closing and last is not None and not is_answered:
            # Without an answer there is no turn, and search finds only turns.
            yield MessageDraft("assistant", (TextPart(self.of.closing),), created_at=last.created_at, source_key="end")

    def _drafts(self, entries: Iterable[PlacedEntry]) -> Iterator[MessageDraft]:
        if system := text_of(first(self.header, self.of.system)):
            yield MessageDraft("system", (TextPart(system),), source_key="system", injected=True)
        if self.of.question:
            yield MessageDraft("user", (TextPart(self.of.question),), source_key="question")
        if not self.of.parent and not self.of.children:
            seen: set[str] = set()
            for where, entry, raw in entries:
                yield from _new(self._entry_messages(f"{self.prefix}{where}", entry, raw), seen)
            return
        # The messages of a tree, each after its parent; nested answers lie under `children`.
        nodes: list[Node[tuple[str, _Entry]]] = []
        waiting: list[tuple[str, _Entry, str]] = []
        tree_bytes = 0
        for position, entry, raw in entries:
            waiting.append((position, entry, ""))
            tree_bytes += len(raw)
            if tree_bytes > MAX_TREE_BYTES:
                raise TooLarge(
                    f"The thread has branches and more than {MAX_TREE_BYTES // 1024**2} MB, and must be read at once: "
                    "export it in parts."
                )
        waiting.reverse()
        number = 0
        while waiting:
            position, entry, above = waiting.pop()
            number += 1
            name = name_of(first(entry, self.of.key)) or f"message:{number}"
            nodes.append(Node(name, above or name_of(first(entry, self.of.parent)), (position, entry)))
            nested = entry.get(self.of.children) if self.of.children else None
            waiting.extend(
                (f"{position}.{at}", item, name)
                for at, item in reversed(list(enumerate(nested, 1) if isinstance(nested, list) else ()))
                if isinstance(item, Mapping)
            )
        if self.of.alternating:
            nodes = list(_alternating(self.of, nodes))

        def read(item: tuple[str, _Entry]) -> Iterator[MessageDraft]:
            return self._entry_messages(f"{self.prefix}{item[0]}", item[1], b"")

        if not any(node.parent for node in nodes):  # nothing says what follows what, but the order of the file
            yield from _new((draft for node in nodes for draft in read(node.value)), set())
            return
        yield from _new(
            read_thread(
                nodes,
                read=read,
                report=self.report,
                current=name_of(first(self.header, self.of.current)),
                position=self.prefix or "thread",
            ),
            set(),
        )

    def _entry_messages(self, position: str, entry: _Entry, raw: bytes) -> Iterator[MessageDraft]:
        of = self.of
        entry = self.joined(entry)
        raw = raw or _source_of(entry)
        listed = entry.get(of.versions) if of.versions else None
        versions = [
            item if isinstance(item, Mapping) else {"text": item, "mes": item, "content": item}
            for item in list_of(listed)
        ]
        if not versions:
            yield from self._version_messages(position, entry, raw)
            return
        chosen = entry.get(of.selected)
        chosen = chosen if type(chosen) is int and 0 <= chosen < len(versions) else 0
        entry_id = name_of(first(entry, of.key)) or self._keys.key(
            "version", short_hash(dumped(versions[0]).decode(), 16)
        )
        for number in sorted(range(len(versions)), key=lambda number: number == chosen):
            version = {
                **entry,
                **versions[number],
                of.versions: None,
                "id": f"{entry_id}:{number}" if number else entry_id,
            }
            for draft in self._version_messages(position, version, raw if number == chosen else b""):
                yield replace(draft, superseded=draft.superseded or number != chosen)

    def _version_messages(self, position: str, entry: _Entry, raw: bytes) -> Iterator[MessageDraft]:
        of = self.of
        if not of.entry_messages:
            role = readable_role(of, entry)
            if role is None:
                self._pass_over(position, entry)
            elif role:
                spoken = self._message(position, entry, raw, EntryMessage(role, of.text, of.thinking, of.time), "")
                gone = entry.get(SUPERSEDED) is True
                yield from (replace(draft, superseded=True) if gone else draft for draft in spoken)
            return
        has_message = False
        for number, message in enumerate(of.entry_messages):
            if first(entry, message.text) is None:
                continue
            name = f"{number}" if number else ""
            source, has_message = b"" if has_message else raw, True
            for draft in self._message(position, entry, source, message, name):
                yield replace(draft, superseded=message.superseded)
        if not has_message:
            self._pass_over(position, entry)

    def _pass_over(self, position: str, entry: _Entry) -> None:
        """Report an entry that is no message of a known kind."""
        role = next((name for name in map(text_of, (first(entry, (at,)) for at in self.of.role)) if name), "")
        self.report.unknown(role or next(iter(entry), "(empty)"))
        if not role or first(entry, self.of.text) is not None:  # else a record of a log, which says nothing
            self.report.skip(position, "no message of a known kind")

    def _message(
        self, position: str, entry: _Entry, raw: bytes, message: EntryMessage, part: str
    ) -> Iterator[MessageDraft]:
        role = message.role
        of = self.of
        blocks = blocks_of_entry(of, entry, role=role, text=message.text, thinking=message.thinking)
        entry_key = name_of(first(entry, of.key))
        key = entry_key + (f":{part}" if part and entry_key else "") or self._keys.key(
            role, json.dumps(blocks, default=str)
        )
        is_injected = role == "system" or any(first(entry, (at,)) for at in of.injected)
        spoken, added = (blocks, []) if role != "user" or is_injected else typed_and_added(of, blocks)
        time_value = first(entry, message.time or of.time)
        at = time_of(time_value, self.order)
        if at is None and time_of(time_value, "day first"):
            self.report.repair(position, f"the day of {str(time_value)[:30]} is not certain, so the time is left out")
        common: dict[str, Any] = {
            "unknown": self.report.unknown,
            "created_at": at,
            "model": text_of(first(entry, of.model)) or text_of(first(self.header, of.model)),
        }
        # A tool's record holds results, of which `record_messages` makes a message of their own.
        stored: Role = "assistant" if role == "tool" else "system" if is_injected else role
        drafts = list(record_messages(role=stored, blocks=spoken, key=key, injected=is_injected, raw=raw, **common))
        drafts += record_messages(
            role="system", blocks=added, key=f"{key}:added", injected=True, raw=b"" if drafts else raw, **common
        )
        if not drafts and not is_blank(first(entry, message.text)):
            self.report.skip(position, "the message has content, but none that can be read")
        name = text_of(first(entry, of.speaker))
        for draft in drafts:
            yield self._tools.added_to(replace(draft, name=name) if name and draft.role != "tool" else draft)
            if of.answer and draft.role == "user":
                gone = (TextPart(of.answer),)  # a question without an answer is no turn, and search finds only turns
                key = key_of(f"{draft.source_key}:answer")
                yield MessageDraft("assistant", gone, created_at=draft.created_at, source_key=key)


def _source_of(entry: _Entry) -> bytes:
    """Return the entry as JSON, without what was added to it here."""
    value = {name: item for name, item in entry.items() if name not in (ALTERNATING, SUPERSEDED)}
    try:
        return json_bytes(value)
    except RecursionError:
        return dumped(value)


def _alternating(of: Declaration, nodes: list[Node[tuple[str, _Entry]]]) -> Iterator[Node[tuple[str, _Entry]]]:
    """Yield the nodes; those without a role get the one that their distance from the first message gives them."""
    parents = {node.id: node.parent for node in nodes}
    structures = {node.id for node in nodes if readable_role(of, node.value[1]) == ""}
    depths = dict.fromkeys((*structures, ""), 0)
    for node in nodes:
        chain_up: list[str] = []
        at = node.id
        while at not in depths and len(chain_up) <= len(nodes):
            chain_up.append(at)
            at = parents.get(at, "")
        for number, name in enumerate(reversed(chain_up), 1):
            depths[name] = depths.get(at, 0) + number
        position, entry = node.value
        role = "user" if depths[node.id] % 2 else "assistant"
        yield replace(node, value=(position, {**entry, ALTERNATING: role}))


def _new(drafts: Iterable[MessageDraft], seen: set[str]) -> Iterator[MessageDraft]:
    """Yield the messages without repeated ones: producers repeat what they wrote."""
    for draft in drafts:
        if draft.source_key not in seen:
            seen.add(draft.source_key)
            yield draft


def name_of(value: object) -> str:
    """Return an id, which may be a number, as text."""
    return str(value) if type(value) is int else text_of(value).strip()
