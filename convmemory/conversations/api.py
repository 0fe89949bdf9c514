"""Routes for conversations, their messages and events, and uploads of transcripts."""

from dataclasses import asdict
from datetime import datetime
from operator import itemgetter
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from ninja import P, Query, QueryEx, Router, Status

from convmemory.accounts.authentication import READING, caller_in, caller_of
from convmemory.accounts.callers import MINE
from convmemory.accounts.pages import absolute_address
from convmemory.conversations import project_folders, projects, reading, sharing
from convmemory.conversations.exports.formats import FORMATS, export_response
from convmemory.conversations.exports.selection import MAX_NAMED, ExportSelection
from convmemory.conversations.filters import FilterSchema
from convmemory.conversations.importers.message_lists import sent_messages
from convmemory.conversations.left_off import left_off
from convmemory.conversations.marking import marks_of, set_mark
from convmemory.conversations.messages import by_source, ingest
from convmemory.conversations.messages.drafts import ConversationDraft, TurnDraft
from convmemory.conversations.messages.hidden_keys import keys_of, reveal_key
from convmemory.conversations.models import Conversation
from convmemory.conversations.schemas import (
    ONE_ARCHIVE,
    SPACES,
    ConversationIn,
    ConversationOut,
    ConversationPage,
    ConversationPatch,
    EventPage,
    HiddenKeyList,
    LeftOffIn,
    LeftOffOut,
    MessagePage,
    MessagesIn,
    NewShareLink,
    ProjectFolderIn,
    ProjectFolderList,
    ProjectList,
    ProjectRenameIn,
    ProjectRenameOut,
    RevealedKey,
    ShareLinkIn,
    ShareLinkList,
    SourceTurnIn,
    TurnIn,
    TurnMarkIn,
    TurnMarkList,
    TurnMarkOut,
    TurnOut,
)
from convmemory.core.marks import mark_of

router = Router(tags=["conversations"])
SOURCE = "api"  # the source of conversations stored through these routes
EXPORT_FORMATS = "markdown, json or html"
EXPORT_ANSWER: dict[str, Any] = {
    "responses": {
        200: {
            "description": "the file",
            "content": {
                format.media_type.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
                for format in FORMATS.values()
            },
        }
    }
}


@router.post(
    "/conversations",
    response={200: ConversationOut, 201: ConversationOut},
    summary="Store a conversation; one with a known source_id is continued",
)
def create_conversation(
    request: HttpRequest, body: ConversationIn, space: QueryEx[str, P(description=ONE_ARCHIVE)] = ""
) -> Status[Conversation]:
    draft = ConversationDraft(
        messages=sent_messages(body.messages, system=body.system),
        source=SOURCE,
        source_id=body.source_id,
        title=body.title,
        agent=body.agent,
        project=body.project,
        created_at=body.created_at,
    )
    caller = caller_in(request, space)
    conversation, is_new = by_source.create_or_continue(caller=caller, draft=draft)
    return Status(201 if is_new else 200, conversation)


@router.get("/conversations", response=ConversationPage, summary="List conversations, newest first")
def list_conversations(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    limit: QueryEx[int, P(ge=1, le=100)] = 20,
    cursor: str = "",
    source_id: QueryEx[str, P(description="your own id of a conversation")] = "",
    space: QueryEx[str, P(description=SPACES)] = "",
) -> dict[str, Any]:
    rows, next_cursor = reading.page_of_archives(
        caller=caller_of(request),
        chosen=space or (MINE if source_id else ""),
        filters=chosen.filters(),
        limit=limit,
        cursor=cursor,
        source_id=source_id,
    )
    for row, found_in in rows:
        vars(row)["space"] = found_in
    return {"results": [row for row, _ in rows], "next_cursor": next_cursor}


@router.get("/conversations/{int:conversation_id}", response=ConversationOut, summary="One conversation")
def show_conversation(request: HttpRequest, conversation_id: int) -> Conversation:
    return reading.get_conversation(caller=caller_of(request), conversation_id=conversation_id)


@router.get("/conversations/export", summary="Several conversations as one file", openapi_extra=EXPORT_ANSWER)
def export_conversations(
    request: HttpRequest,
    chosen: Query[FilterSchema],
    id: QueryEx[list[int], P(max_length=MAX_NAMED, description="of these alone; without it, all that pass")] = [],  # noqa: B006
    format: QueryEx[str, P(description=EXPORT_FORMATS)] = "markdown",
    space: QueryEx[str, P(description=ONE_ARCHIVE)] = "",
) -> StreamingHttpResponse:
    """Keys stand masked in every format; the JSON can be imported again, with the same turns."""
    selection = ExportSelection(ids=tuple(id), filters=chosen.filters())
    return export_response(caller=caller_in(request, space), selection=selection, format=format)


@router.get(
    "/conversations/{int:conversation_id}/export", summary="A conversation as a file", openapi_extra=EXPORT_ANSWER
)
def export_conversation(
    request: HttpRequest,
    conversation_id: int,
    format: QueryEx[str, P(description=EXPORT_FORMATS)] = "markdown",
) -> StreamingHttpResponse:
    """Keys stand masked in every format; the JSON can be imported again, with the same turns."""
    selection = ExportSelection(ids=(conversation_id,))
    return export_response(caller=caller_of(request), selection=selection, format=format)


@router.patch("/conversations/{int:conversation_id}", response=ConversationOut, summary="Rename or archive")
def change_conversation(request: HttpRequest, conversation_id: int, body: ConversationPatch) -> Conversation:
    values = body.model_dump(exclude_unset=True, exclude_none=True)
    if "archived" in values:
        values["archived_at"] = timezone.now() if values.pop("archived") else None
    return ingest.change_conversation(caller=caller_of(request), conversation_id=conversation_id, values=values)


@router.delete("/conversations/{int:conversation_id}", response={204: None}, summary="Put into the trash")
def delete_conversation(request: HttpRequest, conversation_id: int) -> Status[None]:
    """Without a trash (TRASH_DAYS=0) it is deleted for good."""
    ingest.delete_conversation(caller=caller_of(request), conversation_id=conversation_id)
    return Status(204, None)


@router.post("/conversations/{int:conversation_id}/messages", response={201: MessagePage}, summary="Append messages")
def append_messages(request: HttpRequest, conversation_id: int, body: MessagesIn) -> Status[dict[str, Any]]:
    drafts = sent_messages(body.messages)
    rows = ingest.append_messages(caller=caller_of(request), conversation_id=conversation_id, drafts=drafts)
    return Status(201, {"results": rows})


@router.post(
    "/conversations/{int:conversation_id}/turns",
    response={200: TurnOut, 201: TurnOut},
    summary="Store one whole turn; sending it again changes nothing",
)
def put_turn(request: HttpRequest, conversation_id: int, body: TurnIn) -> Status[ingest.PutTurn]:
    turn = TurnDraft(body.turn_number, body.user, body.assistant, body.created_at)
    done = ingest.put_turn(caller=caller_of(request), conversation_id=conversation_id, turn=turn)
    return Status(201 if done.outcome == "created" else 200, done)


@router.post(
    "/conversations/by-source/{source}/{path:source_id}/turns",
    response={200: TurnOut, 201: TurnOut},
    summary="Store one whole turn of a conversation that you name by your own id; an unknown one is made",
)
def put_turn_by_source(request: HttpRequest, source: str, source_id: str, body: SourceTurnIn) -> Status[ingest.PutTurn]:
    turn = TurnDraft(body.turn_number, body.user, body.assistant, body.created_at)
    draft = ConversationDraft(
        messages=(),
        source=source,
        source_id=source_id,
        title=body.title,
        agent=body.agent,
        project=body.project,
        created_at=body.created_at,
    )
    done = by_source.put_turn_by_source(caller=caller_of(request), draft=draft, turn=turn)
    return Status(201 if done.outcome == "created" else 200, done)


@router.get("/conversations/{int:conversation_id}/messages", response=MessagePage, summary="Read messages")
def list_messages(
    request: HttpRequest,
    conversation_id: int,
    turn: QueryEx[int | None, P(ge=0)] = None,
    from_position: QueryEx[int, P(ge=0)] = 0,
    limit: QueryEx[int, P(ge=1, le=1000)] = 200,
) -> dict[str, Any]:
    rows = reading.messages_of(
        caller=caller_of(request),
        conversation_id=conversation_id,
        turns=None if turn is None else (turn, turn),
        from_position=from_position,
        limit=limit,
    )
    return {"results": rows}


@router.get(
    "/conversations/{int:conversation_id}/hidden_keys", response=HiddenKeyList, summary="Keys that were taken out"
)
def list_hidden_keys(request: HttpRequest, conversation_id: int) -> dict[str, Any]:
    conversation = reading.get_conversation(caller=caller_of(request), conversation_id=conversation_id)
    return {"results": keys_of(caller=caller_of(request), conversation_id=conversation.pk)}


@router.post("/hidden_keys/{int:key_id}/reveal", response=RevealedKey, summary="One key as it was")
def reveal_hidden_key(
    request: HttpRequest,
    response: HttpResponse,
    key_id: int,
    space: QueryEx[str, P(description=ONE_ARCHIVE)] = "",
) -> dict[str, str]:
    response["Cache-Control"] = "no-store"
    return {"value": reveal_key(caller=caller_in(request, space), key_id=key_id)}


@router.get("/conversations/{int:conversation_id}/marks", response=TurnMarkList, summary="Marked turns")
def list_marks(request: HttpRequest, conversation_id: int) -> dict[str, Any]:
    conversation = reading.get_conversation(caller=caller_of(request), conversation_id=conversation_id)
    marks = marks_of(archive_id=conversation.archive_id, conversation_id=conversation.pk)
    rows = [{"turn_number": turn, "kind": mark.kind, "note": mark.note} for (_, turn), mark in marks.items()]
    return {"results": sorted(rows, key=itemgetter("turn_number"))}


@router.post(
    "/conversations/{int:conversation_id}/turns/{int:turn_number}/mark",
    response=TurnMarkOut,
    summary="Mark a turn as wrong or outdated, in place of an earlier mark",
)
def mark_turn(request: HttpRequest, conversation_id: int, turn_number: int, body: TurnMarkIn) -> dict[str, Any]:
    """Recall leaves out what is wrong and says of the rest that it is outdated; a search shows both, with the mark."""
    mark = mark_of(body.kind, body.note)
    set_mark(caller=caller_of(request), conversation_id=conversation_id, turn_number=turn_number, mark=mark)
    return {"turn_number": turn_number, "kind": body.kind, "note": mark.note if mark else ""}


@router.delete(
    "/conversations/{int:conversation_id}/turns/{int:turn_number}/mark",
    response={204: None},
    summary="Take the mark off a turn",
)
def unmark_turn(request: HttpRequest, conversation_id: int, turn_number: int) -> Status[None]:
    set_mark(caller=caller_of(request), conversation_id=conversation_id, turn_number=turn_number, mark=None)
    return Status(204, None)


@router.post(
    "/conversations/{int:conversation_id}/share_links",
    response={201: NewShareLink},
    summary="Make a link that shows the conversation, or one turn, as it is now to other people",
)
def create_share_link(request: HttpRequest, conversation_id: int, body: ShareLinkIn) -> Status[dict[str, Any]]:
    """Messages that are added later are not shown."""
    shared, token = sharing.create_link(
        caller=caller_of(request),
        conversation_id=conversation_id,
        turn=body.turn,
        days=body.days,
        audience=body.audience,
    )
    url = absolute_address(request, reverse("shared", args=[token]))
    return Status(201, {**asdict(shared), "is_expired": shared.is_expired, "url": url})


@router.get("/share_links", response=ShareLinkList, summary="List the links that show conversations to other people")
def list_share_links(request: HttpRequest, conversation_id: int | None = None) -> dict[str, Any]:
    return {"results": sharing.links_of(caller=caller_of(request), conversation_id=conversation_id)}


@router.delete("/share_links/{int:link_id}", response={204: None}, summary="Revoke a link: it opens no more")
def revoke_share_link(request: HttpRequest, link_id: int) -> Status[None]:
    sharing.revoke_link(caller=caller_of(request), link_id=link_id)
    return Status(204, None)


@router.get("/projects", response=ProjectList, summary="List projects with the number of their conversations")
def list_projects(request: HttpRequest, space: QueryEx[str, P(description=ONE_ARCHIVE)] = "") -> dict[str, Any]:
    rows = projects.projects_of(caller=caller_in(request, space))
    return {"results": [{"project": project, "conversations": count} for project, count in rows]}


@router.get("/projects/folders", response=ProjectFolderList, summary="List the folders of a project")
def list_project_folders(
    request: HttpRequest,
    project: QueryEx[str, P(description="a path, a repository's identity, or a name")],
    space: QueryEx[str, P(description=ONE_ARCHIVE)] = "",
) -> dict[str, Any]:
    """With those of its repository that are kept apart."""
    return {"results": project_folders.folders_of_project(caller=caller_in(request, space), project=project)}


@router.post("/projects/left_off", auth=READING, response=LeftOffOut, summary="Say where a project's work stopped")
def show_left_off(request: HttpRequest, body: LeftOffIn) -> dict[str, Any]:
    """The last session's outcome, open steps, changed files and failing command, read without a model."""
    stopped = left_off(
        caller=caller_of(request),
        project=body.project,
        repository=body.repository.value if body.repository else None,
        exclude_session=body.exclude_session,
    )
    return stopped.to_json() if stopped else {"text": ""}


@router.post("/projects/folders", response={204: None}, summary="Keep a folder apart from its repository")
def change_project_folder(request: HttpRequest, body: ProjectFolderIn) -> Status[None]:
    """Make it a project of its own; the other folders of the repository stay one project."""
    project_folders.keep_apart(caller=caller_of(request), **body.dict())
    return Status(204, None)


@router.post("/projects/rename", response=ProjectRenameOut, summary="Rename a project, or merge it with another")
def rename_project(request: HttpRequest, body: ProjectRenameIn) -> dict[str, Any]:
    """Folders below it go with it, and so do conversations that are imported later."""
    renamed = projects.rename_project(caller=caller_of(request), project=body.project, name=body.name)
    count = len(renamed.conversation_ids)
    return {"id": renamed.pk, "project": renamed.new, "merged": renamed.merged, "conversations": count}


@router.delete("/projects/renames/{int:rename_id}", response={204: None}, summary="Undo a renaming")
def undo_rename(request: HttpRequest, rename_id: int) -> Status[None]:
    projects.undo_rename(caller=caller_of(request), rename_id=rename_id)
    return Status(204, None)


@router.get("/events", response=EventPage, summary="Search the event logs of agents")
def list_events(
    request: HttpRequest,
    conversation_id: int | None = None,
    query: str = "",
    type: str = "",
    tool: str = "",
    level: str = "",
    turn: QueryEx[int | None, P(ge=0)] = None,
    after: datetime | None = None,
    before: datetime | None = None,
    after_id: int = 0,
    limit: QueryEx[int, P(ge=1, le=500)] = 50,
    space: QueryEx[str, P(description=ONE_ARCHIVE)] = "",
) -> dict[str, Any]:
    rows = reading.search_events(
        caller=caller_in(request, space),
        conversation_id=conversation_id,
        filters=reading.EventFilters(query, type, tool, level, turn, after, before),
        after_id=after_id,
        limit=limit,
    )
    return {"results": rows, "next_after_id": rows[-1].pk if len(rows) == limit else None}
