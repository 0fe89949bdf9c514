"""Describes a format as data: where its conversations, messages, speakers, texts and times are.

`declared.py` reads what is declared; `chat_formats.py`, `library_formats.py` and `agent_formats.py` hold the formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from convmemory.conversations.importers.base import CSV, JSON_SUFFIXES, Checked
from convmemory.conversations.messages.parts import Role

TIMES = (
    *("timestamp", "created_at", "createdAt", "create_time", "created", "inserted_at", "createTime", "date", "time"),
    "metadata.createdAt",
)

SCORE = 96  # what is read is known to be readable, so that this outranks importers that look at names only
# Under these names, which no producer would choose, an entry gets what follows from its surroundings.
ALTERNATING = "\0role"
SUPERSEDED = "\0superseded"


@dataclass(frozen=True, slots=True)
class EntryMessage:
    """One of several messages of an entry, such as a question and its answer."""

    role: Role
    text: tuple[str, ...]
    thinking: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A list of messages, or one, under `at`; texts in it are messages of `role`."""

    at: str
    role: Role
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a database: a row of `conversations` and the rows of `messages` that name it in `by`.

    The row's messages lie under `messages`; without such a table they are in the row itself. Texts in `json` columns
    are parsed.
    """

    messages: str = ""
    by: str = ""
    order: str = ""
    conversations: str = ""
    key: str = "id"
    json: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Joined:
    """Records elsewhere in the document that entries name: by their `key`, under the entry's `by`.

    A list of keys is replaced by the records, a single key's record lies under `into`.
    """

    at: tuple[str, ...]
    by: str
    into: str
    key: str = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One format. Where several paths are named, the first that has a value counts.

    `marks` all occur in the first 64 KB, of `a|b` one; in a database they are columns of the messages. `at` leads to
    the conversations, or with `entries="messages"` to the messages of one conversation, or of several if `group` names
    the conversation of each. `roles` adds names of roles; entries whose role is "" there are known and hold nothing to
    store; `path?role` in `role` means that role if there is a value, `path:*` in `roles` any other value there.
    """

    name: str
    checked: Checked
    against: Literal["file", "schema"]
    export: str  # how a person gets the file
    kept: str = ""
    marks: tuple[bytes, ...] = ()
    suffixes: frozenset[str] = JSON_SUFFIXES
    source: str = ""
    agent: str = ""
    at: tuple[str, ...] = ("",)
    entries: Literal["conversations", "messages"] = "conversations"
    group: tuple[str, ...] = ()
    tables: Tables | None = None
    joined: tuple[Joined, ...] = ()
    header: str = ""  # only entries with a value there describe the conversation
    sibling: str = ""  # a file next to it that describes the conversation
    messages: tuple[str, ...] = ("messages",)
    runs: tuple[Run, ...] = ()  # instead of `messages`: lists that follow one another
    threads: str = ""  # a list of further conversations in one
    forks: str = ""  # lists of messages that were given up
    needs: tuple[str, ...] = ()  # of which a message has one, or of `a+b` both, so that a file is claimed
    lacks: tuple[str, ...] = ()  # of which it has none
    structure: str = ""  # an entry without a value there only holds others together
    alternating: bool = False  # entries without a role are a question, its answer, and so on
    id: tuple[str, ...] = ("id",)
    title: tuple[str, ...] = ("title", "name")
    created: tuple[str, ...] = TIMES
    project: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    started_by: tuple[str, ...] = ()  # the conversation that started this one
    repeats_parent: bool = False  # it begins with messages of the one that started it
    current: tuple[str, ...] = ()
    system: tuple[str, ...] = ()  # a system prompt of the whole conversation
    key: tuple[str, ...] = ("id", "uuid", "message_id", "messageId")
    parent: tuple[str, ...] = ()
    children: str = ""
    versions: str = ""
    selected: str = ""
    role: tuple[str, ...] = ("role",)
    roles: Mapping[str, Role | Literal[""]] = field(default_factory=dict)
    injected: tuple[str, ...] = ()  # a value there marks text that no person wrote
    harness: tuple[str, ...] = ()  # beginnings of such texts
    first_part: bool = False  # of a person's message, only the first text is theirs
    unwrap: tuple[str, ...] = ()  # tags around a person's text
    entry_messages: tuple[EntryMessage, ...] = ()
    text: tuple[str, ...] = ("content",)
    thinking: tuple[str, ...] = ("reasoning_content", "reasoning", "thinking")
    calls: tuple[str, ...] = ("tool_calls", "toolCalls")
    results: tuple[str, ...] = ()
    runs_on: bool = False  # the texts of a message follow one another without a break
    files: tuple[str, ...] = ("attachments", "files", "images")
    time: tuple[str, ...] = TIMES
    model: tuple[str, ...] = ("model",)
    speaker: tuple[str, ...] = ()
    by_time: bool = False  # the order of the entries is another
    folder_id: bool = False  # the folder's name has the conversation's id
    question: str = ""  # stands for the question where the source has only answers
    answer: str = ""  # stands for each answer where the source has only questions
    closing: str = ""  # stands at the end of a conversation in which nothing answers
    unless: str = ""  # the source of fuller copies of these conversations
    score: int = SCORE  # less for names that many programs use
    foreign: tuple[bytes, ...] = ()  # none occurs in the first 64 KB: other programs write the same otherwise

    @property
    def is_csv(self) -> bool:
        return CSV in self.suffixes
