"""Requests and responses of the conversation routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, WithJsonSchema

from convmemory.conversations.importers.values import time_of
from convmemory.conversations.sharing import Audience
from convmemory.core.marks import NOTE_CHARS, MarkKind
from convmemory.core.numbers import MAX_INTEGER
from convmemory.push.repositories import Repository, identity_of

MESSAGE: dict[str, Any] = {
    "type": "object",
    "description": "A message of OpenAI's chat completions, Anthropic's Messages or Gemini's `contents`, an item of "
    "OpenAI's Responses, or a message as this API shows and exports it. An import of the same message stores the same: "
    "unknown roles and types as text, all other fields in its source. A message without any content is not stored.",
    "properties": {
        "role": {"type": "string", "description": "user, assistant, tool or system, or an API's name for one"},
        "content": {"description": "a string, OpenAI's parts or Anthropic's blocks; null where a message only calls"},
        "name": {"type": "string", "description": "who speaks, where it matters"},
        "created_at": {"type": "string", "format": "date-time"},
        "id": {"type": "string", "description": "your own id of the message: sent again, it is not stored twice"},
        "tool_calls": {"type": "array", "items": {"type": "object"}},
        "tool_call_id": {"type": "string", "description": "the call that a message of role tool answers"},
        "reasoning_content": {"type": "string"},
        "type": {"type": "string", "description": "of an item of the Responses API"},
        "parts": {"type": "array", "description": "Gemini's parts, or those that this API shows"},
    },
    "additionalProperties": True,
    "examples": [
        {"role": "user", "content": "Weather in Lima?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "I have to look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {"city": "Lima"}}}]},
    ],
}
MessageIn = Annotated[dict[str, Any], WithJsonSchema(MESSAGE)]
MAX_MESSAGES = 20_000  # of a request: reading them takes half a second; more are sent in parts, or uploaded as a file


def _plausible(time: datetime) -> datetime:
    if time_of(time) is None:
        raise ValueError("give a time from 1990 to now")
    return time


Time = Annotated[datetime, AfterValidator(_plausible)]


class ConversationIn(Schema):
    title: str = ""
    agent: str = ""
    project: str = ""
    created_at: Time | None = None
    source_id: str = Field(
        "", description="your own id of this conversation; unique among those you made through the API"
    )
    system: str | list[Any] = Field(
        "", description="a system prompt outside of the messages: a string or a list of blocks"
    )
    messages: list[MessageIn] = Field([], max_length=MAX_MESSAGES)


class MessagesIn(Schema):
    messages: list[MessageIn] = Field(min_length=1, max_length=MAX_MESSAGES)


class TurnIn(Schema):
    """One whole turn of a chat that you keep yourself."""

    turn_number: int = Field(ge=0, le=2**24 - 1, description="counted from 0, without gaps")
    user: str = Field(description="the question")
    assistant: str = Field(description="the answer")
    created_at: Time | None = None


class SourceTurnIn(TurnIn):
    """The same, and what a conversation that is new is called."""

    title: str = ""
    agent: str = ""
    project: str = ""


class TurnOut(Schema):
    conversation_id: int
    turn_number: int
    outcome: str = Field(description="created, replaced or unchanged")
    url: str


class TurnMarkIn(Schema):
    kind: MarkKind = Field(description="wrong: recall leaves it out; outdated: recall says so")
    note: str = Field("", max_length=NOTE_CHARS, description="what is right now")


class TurnMarkOut(Schema):
    turn_number: int
    kind: MarkKind
    note: str


class TurnMarkList(Schema):
    results: list[TurnMarkOut]


class ProjectOut(Schema):
    project: str
    conversations: int


class ProjectList(Schema):
    results: list[ProjectOut]


class RepositoryIn(Schema):
    """The repository of a folder, as the client reads it: `project` is then one on all machines."""

    identity: str = Field("", max_length=300, description="its remote, or root:COMMIT; empty: none")
    root: str = Field("", max_length=4000, description="its folder, or that of the worktree")
    main: str = Field("", max_length=4000, description="of a linked worktree: the folder of the repository")

    @property
    def value(self) -> Repository:
        return Repository(identity_of(self.identity), self.root, self.main)


class LeftOffIn(Schema):
    project: str = Field(max_length=4000, description="a path, a repository's identity, or a name")
    repository: RepositoryIn | None = Field(None, description="of the folder `project`, if that is known")
    exclude_session: str = Field("", max_length=300, description="id of the caller's own session")


class LeftOffOut(Schema):
    """Where the last session of a project stopped. Without one, `text` is empty and all else left out."""

    text: str = Field(description="for an agent at its start, at most 150 tokens")
    conversation_id: int | None = None
    title: str = ""
    agent: str = ""
    updated_at: datetime | None = None
    url: str = ""
    conversations: int = Field(0, description="how many the project has")
    asked: str = ""
    outcome: str = ""
    open_steps: list[str] = []
    changed_files: list[str] = []
    failed_command: str = Field("", description="the last one that failed, and did not pass since")
    resume: str = Field("", description="the command by which its agent continues the session, where it ran")


class ProjectFolderOut(Schema):
    folder: str
    main: str = Field(description="of a worktree: the folder of the repository; else the folder")
    repository: str = Field(description="its remote, or root:COMMIT; empty: none is known")
    conversations: int
    apart: Literal["", "folder", "worktrees"] = Field(description="whether it, or each worktree, is kept apart")


class ProjectFolderList(Schema):
    results: list[ProjectFolderOut]


class ProjectFolderIn(Schema):
    folder: str = Field(max_length=4000)
    each_worktree: bool = Field(default=False, description="not the folder, but each of its worktrees")
    is_apart: bool = Field(description="false joins it again")


class ProjectRenameIn(Schema):
    project: str
    name: str = Field(description="without a slash, it replaces the last part of the path; an existing one merges both")


class ProjectRenameOut(Schema):
    id: int
    project: str
    merged: bool = Field(description="a project of this name existed")
    conversations: int


class ConversationPatch(Schema):
    title: str | None = None
    agent: str | None = None
    project: str | None = None
    archived: bool | None = None


class ConversationOut(Schema):
    id: int
    title: str
    agent: str
    project: str
    source: str
    source_id: str
    parent_id: int | None
    status: str
    message_count: int
    turn_count: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    url: str = Field(alias="get_absolute_url")


class SpaceOut(Schema):
    id: int
    name: str


SPACES = "mine, or the number or the name of a space; empty: your archive and all spaces that the key reads"
ONE_ARCHIVE = "the number or the name of a space; empty or mine: your own archive"
SPACE: Any = Field(None, description="the space that it comes from; null: your own archive")


class ListedConversation(ConversationOut):
    space: SpaceOut | None = SPACE


class ConversationPage(Schema):
    results: list[ListedConversation]
    next_cursor: str | None


class ContentMetadata(Schema):
    """What kinds of content a message has."""

    has_thinking: bool
    has_tool_calls: bool
    characters: dict[str, int] = Field(
        description="of each kind that it has: text, thinking, tool_call, tool_result, attachment"
    )


class MessageOut(Schema):
    id: int
    position: int
    role: str
    name: str
    model: str
    parts: list[dict[str, Any]]
    content_metadata: ContentMetadata
    turn_number: int | None
    superseded: bool = Field(description="its thread went on without it: it belongs to no turn")
    created_at: datetime | None


class MessagePage(Schema):
    results: list[MessageOut]


class EventOut(Schema):
    id: int
    conversation_id: int
    line_number: int
    type: str
    level: str
    tool: str
    turn_number: int | None
    created_at: datetime | None
    payload: dict[str, Any]


class EventPage(Schema):
    results: list[EventOut]
    next_after_id: int | None


class HiddenKeyOut(Schema):
    id: int
    message_id: int
    number: int = Field(description="of the mark in the message: `[hidden KIND NUMBER]`")
    kind: str


class HiddenKeyList(Schema):
    results: list[HiddenKeyOut]


class RevealedKey(Schema):
    value: str


class ShareLinkIn(Schema):
    turn: int | None = Field(None, ge=0, le=MAX_INTEGER, description="show this turn alone; without it, all of them")
    days: int | None = Field(None, ge=1, description="how long the link works; without it, for ever")
    audience: Audience = Field("people", description="people who are signed in, or any person")


class ShareLinkOut(Schema):
    id: int
    conversation_id: int
    conversation_title: str
    turn: int | None = Field(description="the only turn that it shows")
    audience: Audience = Field(description="who may open it, also by the server's settings")
    created_at: datetime
    ends_at: datetime | None
    is_expired: bool
    is_empty: bool = Field(description="it does not open now: the conversation or the turn is not there")
    opened_count: int
    last_opened_at: datetime | None


class NewShareLink(ShareLinkOut):
    url: str = Field(description="the address of the page; it is in no later answer")


class ShareLinkList(Schema):
    results: list[ShareLinkOut]


class ImportOut(Schema):
    id: int
    name: str
    format: str
    size: int = Field(description="bytes of the upload")
    state: str = Field(description="queued, running, done, failed, undoing or undone")
    detail: str = Field(description="what it waits for")
    failure: str = Field(description="unreadable, too_large, time, memory, interrupted or internal, where it failed")
    error: str
    files_read: int
    messages_read: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class ImportedConversationOut(Schema):
    file: str
    id: int
    title: str
    turns: int
    url: str


class ImportWithReport(ImportOut):
    report: dict[str, Any] | None
    conversations: list[ImportedConversationOut] = Field(description="what came in, the first 20 of each file")


class ImportList(Schema):
    results: list[ImportOut]
