"""Chats of Cursor: the editor's database, and `~/.cursor/projects/<folder>/agent-transcripts/**/<id>.jsonl`.

Lines of transcripts have neither ids nor times; messages are named by their text.

Source: the transcripts of Cursor 2 and the databases of Cursor 0.40 to 2; there is no published schema.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import ROLES_BY_NAME, AnyBlock, Block, listed_blocks, record_messages
from convmemory.conversations.importers.json_arrays import column_json, dumped, objects_in
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.sqlite import Database
from convmemory.conversations.importers.threads import MessageKeys
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, seconds_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id, named_by_opening

TRANSCRIPTS, SUBAGENTS = "agent-transcripts", "subagents"
# Members of other agents' lines with a role and a message.
OTHER_AGENTS = frozenset({"type", "id", "uuid", "sessionId", "session_id", "parentUuid", "thread_id"})

_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_PERSON = (1, "user")
_GIVEN_UP = "\0given up"


@dataclass(frozen=True, slots=True)
class CursorImporter:
    """Reads one database or transcript."""

    name: str = "cursor"
    checked: Checked = Checked("Cursor", "2.6")
    reads: Reads = Reads(suffixes=frozenset({".jsonl", ".vscdb"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_sqlite:
            return 90 if is_cursor_database(source) else None
        for item in source.head_objects:
            inner = item.value.get("message")
            is_foreign = not OTHER_AGENTS.isdisjoint(item.value)
            if isinstance(inner, dict) and "content" in inner and "role" in item.value and not is_foreign:
                return 88 if TRANSCRIPTS in source.path.parts else 75
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        path = source.path
        if source.is_sqlite:
            yield from database_chats(source, report)
            return
        lines = read_objects(path, on_issue=report.line_issue)
        # A transcript has no id; its file is named by the chat's id until a person renames it.
        own_id = path.stem if is_global_id(path.stem) else ""
        # The name of the project's folder, in which slashes and hyphens cannot be told apart; "" if unknown.
        parts = path.parts
        if TRANSCRIPTS not in parts or parts.index(TRANSCRIPTS) == 0:
            project = ""
        else:
            project = parts[parts.index(TRANSCRIPTS) - 1]
        draft = ConversationDraft(
            messages=_messages(lines, report),
            source=self.name,
            source_id=own_id,
            has_weak_id=True,
            agent=self.name,
            project=project,
            parent_source_id=key_of(path.parent.parent.name, max_chars=290) if path.parent.name == SUBAGENTS else "",
        )
        opening = named_by_opening(draft, former_ids=[key_of(path.stem, max_chars=290)])
        if own_id:
            draft = replace(opening, source_id=own_id, former_ids=(opening.source_id, *opening.former_ids))
        yield draft if own_id else opening


def _messages(lines: Iterator[JsonObject], report: FileReport) -> Iterator[MessageDraft]:
    keys = MessageKeys()
    for item in lines:
        role = ROLES_BY_NAME.get(text_of(item.value.get("role")))
        if role is None:
            report.unknown(text_of(item.value.get("role")) or text_of(item.value.get("type")) or "(no role)")
            continue
        content = mapping_of(item.value.get("message")).get("content")
        yield from record_messages(
            role=role,
            blocks=user_blocks(content) if role == "user" else listed_blocks(content),
            key=keys.key(role, dumped(content).decode()),
            unknown=report.unknown,
            created_at=time_of(item.value.get("timestamp")),
            raw=item.raw,
        )


def user_blocks(content: object) -> Iterator[AnyBlock]:
    """Yield the blocks with the editor's wrapper around a person's text removed."""
    for block in listed_blocks(content):
        text = block if isinstance(block, str) else text_of(block.get("text"))
        pieces = (piece.partition("</user_query>") for piece in text.split("<user_query>")[1:])
        typed = [typed.strip() for typed, end, _ in pieces if end]
        yield Block.text("\n\n".join(typed)) if typed else block


def is_cursor_database(source: Source) -> bool:
    """Return whether the tables are the editor's. Raises: InvalidInput."""
    return not {"cursorDiskKV", "ItemTable"}.isdisjoint(source.tables)


def database_chats(source: Source, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the chats of a database, `globalStorage/state.vscdb`. Raises: InvalidInput.

    In the table `cursorDiskKV`, a composer lists its bubbles or contains them; bubbles of type 1 are a person's. Older
    windows kept their chats in `ItemTable`. Text that is only in Cursor's own blobs cannot be read, which the report
    says.
    """
    count = 0
    with source.database.opened() as database:
        for draft in chain(_composers(database, report), _old_chats(database, report)):
            count += 1
            yield draft
    if not count:
        report.note("a database without any chat")


def _composers(database: Database, report: FileReport) -> Iterator[ConversationDraft]:
    if not database.has("cursorDiskKV", "key", "value"):
        return
    stored = database.rows("cursor_keys", ["composerData:", "composerData;"])
    composers = dict.fromkeys(text_of(row["key"]).partition(":")[2] for row in stored)
    # Messages whose composer is gone name it in their keys.
    owners = (text_of(row["key"]).split(":")[1] for row in database.rows("cursor_keys", ["bubbleId:", "bubbleId;"]))
    composers.update(dict.fromkeys(owners))
    without_text = 0
    for id in filter(None, composers):
        composer = {"composerId": id, **_value(database, f"composerData:{id}")}
        bubbles = list(_bubbles(database, composer))
        if bubbles:
            workspace = mapping_of(mapping_of(composer.get("workspaceIdentifier")).get("uri"))
            parent = mapping_of(composer.get("subagentInfo")).get("parentComposerId")
            yield ConversationDraft(
                messages=_bubble_messages(
                    bubbles, text_of(mapping_of(composer.get("modelConfig")).get("modelName")), report
                ),
                source="cursor",
                source_id=key_of(text_of(composer.get("composerId")) or id, max_chars=290),
                title=text_of(composer.get("name")),
                agent="cursor",
                project=text_of(workspace.get("fsPath")) or text_of(workspace.get("path")),
                created_at=time_of(composer.get("createdAt")),
                parent_source_id=key_of(text_of(parent), max_chars=290),
                archived=composer.get("isArchived") is True,
            )
        elif composer.get("conversationState") or composer.get("fullConversationHeadersOnly"):
            without_text += 1
    if without_text:
        report.note(f"{without_text} chats keep their text in blobs of Cursor's own, which cannot be read")


def _bubbles(database: Database, composer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages in order: those that the composer contains, or those that it lists.

    Without a list, all that name it come in the order of time; with one, the others were given up.
    """
    bubbles = composer.get("conversation")
    if isinstance(bubbles, list) and bubbles:
        yield from map(mapping_of, bubbles)
        return
    by_id = mapping_of(composer.get("conversationMap"))
    listed = composer.get("fullConversationHeadersOnly")
    headers = list(map(mapping_of, list_of(listed)))
    prefix = f"bubbleId:{text_of(composer.get('composerId'))}"
    # A range of keys, because ";" follows ":" in ASCII. One query per chat: each costs a round trip to the child.
    rows = database.rows("cursor_values", [f"{prefix}:", f"{prefix};"])
    stored = {f"{prefix}:{name}": mapping_of(bubble) for name, bubble in by_id.items()}
    stored |= {text_of(row["key"]): mapping_of(column_json(row["value"])) for row in rows}
    for header in headers:
        # Once, even if it is listed several times.
        bubble = stored.pop(f"{prefix}:{text_of(header.get('bubbleId'))}", None)
        if bubble:
            yield {"bubbleId": header.get("bubbleId"), "type": header.get("type"), **bubble}
    for key, bubble in sorted(stored.items(), key=lambda item: seconds_of(_sent_at(item[1]))):
        if bubble:
            yield {"bubbleId": key.rpartition(":")[2], **bubble, _GIVEN_UP: bool(headers)}


def _bubble_messages(bubbles: list[Mapping[str, Any]], model: str, report: FileReport) -> Iterator[MessageDraft]:
    for number, bubble in enumerate(bubbles, 1):
        own_model = text_of(mapping_of(bubble.get("modelInfo")).get("modelName"))
        is_given_up = bubble.get(_GIVEN_UP) is True
        for draft in record_messages(
            role="user" if bubble.get("type") in _PERSON else "assistant",
            blocks=_blocks(bubble),
            key=text_of(bubble.get("bubbleId")) or text_of(bubble.get("id")) or f"message:{number}",
            unknown=report.unknown,
            created_at=_sent_at(bubble),
            model=own_model or model,
            raw=dumped({name: value for name, value in bubble.items() if name != _GIVEN_UP}),
        ):
            yield replace(draft, superseded=True) if is_given_up else draft


def _sent_at(bubble: Mapping[str, Any]) -> datetime | None:
    timing = mapping_of(bubble.get("timingInfo"))
    sent_at = timing.get("clientRpcSendTime") or timing.get("clientStartTime")
    return time_of(bubble.get("createdAt")) or time_of(sent_at)


def _blocks(bubble: Mapping[str, Any]) -> Iterator[Block]:
    yield Block.thinking(text_of(mapping_of(bubble.get("thinking")).get("text")))
    yield Block.text(text_of(bubble.get("text")) or text_of(bubble.get("rawText")))
    tool = mapping_of(bubble.get("toolFormerData"))
    if tool.get("name"):
        id = tool.get("toolCallId")
        yield Block.call(id=id, name=tool["name"], input=tool.get("rawArgs") or tool.get("params"))
        answer = tool.get("result") or tool.get("error")
        if answer:
            failed = tool.get("status") in ("error", "cancelled", "rejected")
            yield Block.result(id=id, name=tool["name"], content=answer, is_error=failed)


def _old_chats(database: Database, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the chats of a version before composers."""
    if not database.has("ItemTable", "key", "value"):
        return
    value = _value(database, _CHATS, table="ItemTable")
    for tab in objects_in(value.get("tabs"), "tab", report):
        bubbles = list(objects_in(tab.get("bubbles"), "bubble", report))
        if bubbles:
            yield ConversationDraft(
                messages=_bubble_messages(bubbles, "", report),
                source="cursor",
                source_id=key_of(text_of(tab.get("tabId")) or "chat", max_chars=290),
                title=text_of(tab.get("chatTitle")),
                agent="cursor",
                created_at=time_of(tab.get("lastSendTime")),
            )


def _value(database: Database, key: str, *, table: str = "cursorDiskKV") -> Mapping[str, Any]:
    value = {"columns": "CAST(value AS TEXT) AS value", "by": "key", "order": "key"}
    row = next(database.rows("rows_of", [key], table=table, **value), None)
    return mapping_of(column_json(row["value"])) if row else {}
