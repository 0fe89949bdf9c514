"""Chats of the Cursor editor: table `cursorDiskKV` of `globalStorage/state.vscdb`.

A composer lists its bubbles or contains them; bubbles of type 1 are a person's. Older windows kept their chats in
`ItemTable`. Text that is only in Cursor's own blobs cannot be read, which the report says.

Source: the databases themselves, Cursor 0.40 to 2; there is no published schema.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.blocks import (
    Block,
    call_block,
    record_messages,
    result_block,
    text_block,
    thinking_block,
)  # fmt: skip
from convmemory.conversations.importers.sqlite import Database
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.importers.whole_json import column_json, dumped, objects_in

_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_PERSON = (1, "user")


def is_cursor_database(source: Source) -> bool:
    """Return whether the tables are the editor's. Raises: InvalidInput."""
    return not {"cursorDiskKV", "ItemTable"}.isdisjoint(source.tables)


def database_chats(source: Source, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the chats of a database. Raises: InvalidInput."""
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
    rows = database.rows("cursor_composers")
    without_text = 0
    for key in [text_of(row["key"]) for row in rows]:
        composer = _value(database, key)
        bubbles = list(_bubbles(database, composer))
        if bubbles:
            yield _conversation(composer, key.partition(":")[2], bubbles, report)
        elif composer.get("conversationState") or composer.get("fullConversationHeadersOnly"):
            without_text += 1
    if without_text:
        report.note(f"{without_text} chats keep their text in blobs of Cursor's own, which cannot be read")


def _bubbles(database: Database, composer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages in order: those that the composer contains, or those that it lists."""
    held = composer.get("conversation")
    if isinstance(held, list) and held:
        yield from map(mapping_of, held)
        return
    listed = composer.get("fullConversationHeadersOnly")
    headers = [mapping_of(header) for header in listed] if isinstance(listed, list) else []
    prefix = f"bubbleId:{text_of(composer.get('composerId'))}"
    keys = {f"{prefix}:{text_of(header.get('bubbleId'))}" for header in headers}
    # A range of keys, because ";" follows ":" in ASCII. One query per chat: each costs a round trip to the child.
    rows = database.rows("cursor_values", [f"{prefix}:", f"{prefix};"]) if keys else ()
    stored = {row["key"]: mapping_of(column_json(row["value"])) for row in rows if row["key"] in keys}
    for header in headers:
        # Once, even if it is listed several times.
        bubble = stored.pop(f"{prefix}:{text_of(header.get('bubbleId'))}", None)
        if bubble:
            yield {"bubbleId": header.get("bubbleId"), "type": header.get("type"), **bubble}


def _conversation(
    composer: Mapping[str, Any], id: str, bubbles: list[Mapping[str, Any]], report: FileReport
) -> ConversationDraft:
    workspace = mapping_of(mapping_of(composer.get("workspaceIdentifier")).get("uri"))
    parent = mapping_of(composer.get("subagentInfo")).get("parentComposerId")
    return ConversationDraft(
        messages=_messages(bubbles, text_of(mapping_of(composer.get("modelConfig")).get("modelName")), report),
        source="cursor",
        source_id=key_of(text_of(composer.get("composerId")) or id, max_chars=290),
        title=text_of(composer.get("name")),
        agent="cursor",
        project=text_of(workspace.get("fsPath")) or text_of(workspace.get("path")),
        created_at=time_of(composer.get("createdAt")),
        parent_source_id=key_of(text_of(parent), max_chars=290),
        archived=composer.get("isArchived") is True,
    )


def _messages(bubbles: list[Mapping[str, Any]], model: str, report: FileReport) -> Iterator[MessageDraft]:
    for number, bubble in enumerate(bubbles, 1):
        own_model = text_of(mapping_of(bubble.get("modelInfo")).get("modelName"))
        timing = mapping_of(bubble.get("timingInfo"))
        sent_at = timing.get("clientRpcSendTime") or timing.get("clientStartTime")
        yield from record_messages(
            role="user" if bubble.get("type") in _PERSON else "assistant",
            blocks=_blocks(bubble),
            key=text_of(bubble.get("bubbleId")) or text_of(bubble.get("id")) or f"message:{number}",
            unknown=report.unknown,
            created_at=time_of(bubble.get("createdAt")) or time_of(sent_at),
            model=own_model or model,
            raw=dumped(bubble),
        )


def _blocks(bubble: Mapping[str, Any]) -> Iterator[Block]:
    yield thinking_block(text_of(mapping_of(bubble.get("thinking")).get("text")))
    yield text_block(text_of(bubble.get("text")) or text_of(bubble.get("rawText")))
    tool = mapping_of(bubble.get("toolFormerData"))
    if tool.get("name"):
        id = tool.get("toolCallId")
        yield call_block(id=id, name=tool["name"], input=tool.get("rawArgs") or tool.get("params"))
        answer = tool.get("result") or tool.get("error")
        if answer:
            failed = tool.get("status") in ("error", "cancelled", "rejected")
            yield result_block(id=id, name=tool["name"], content=answer, is_error=failed)


def _old_chats(database: Database, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the chats of a version before composers."""
    if not database.has("ItemTable", "key", "value"):
        return
    value = _value(database, _CHATS, table="ItemTable")
    for tab in objects_in(value.get("tabs"), "tab", report):
        bubbles = list(objects_in(tab.get("bubbles"), "bubble", report))
        if bubbles:
            yield ConversationDraft(
                messages=_messages(bubbles, "", report),
                source="cursor",
                source_id=key_of(text_of(tab.get("tabId")) or "chat", max_chars=290),
                title=text_of(tab.get("chatTitle")),
                agent="cursor",
                created_at=time_of(tab.get("lastSendTime")),
            )


def _value(database: Database, key: str, *, table: str = "cursorDiskKV") -> Mapping[str, Any]:
    row = next(database.rows("cursor_value", [key], table=table), None)
    return mapping_of(column_json(row["value"])) if row else {}
