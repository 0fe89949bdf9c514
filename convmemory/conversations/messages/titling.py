"""The titles of conversations: those of their sources, else of the work that was done, else their first question.

The title of a coding session is made of what it did: the heading of its plan, its first commit, or, where the question
is only a few words, its branch or the files that it changed. The owner's own title is never replaced.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from convmemory.conversations.messages.drafts import TITLE_CHARS
from convmemory.conversations.messages.hidden_keys import text_without_keys
from convmemory.conversations.messages.parts import spoken_text
from convmemory.conversations.models import EXTRACTED_TITLE, OWN_TITLE, TITLE_VERSION, Conversation, MessageSource
from convmemory.core.text import cut, one_line, storable
from convmemory.core.titles import CANDIDATES, is_beginning, plain_title, plan_title, says_something, title_from

SOURCE_TITLE_CHARS = 300
SHORT_WORDS, SHORT_CHARS = 3, 30  # of a question that says too little, as "fix tests"
FILES_NAMED = 3
RAW_CHARS = 20_000  # of a message's source, where its branch is looked for

_BRANCH = re.compile(r'"gitBranch": ?"(?:[^"\\/]{1,60}/){0,3}([^"\\/]{1,100})"')
_TRUNKS = re.compile(r"main|master|trunk|develop|dev|next|HEAD|feature[-_]?branch", re.IGNORECASE)
_HASH = re.compile(r"\d[0-9a-f]{5}|[0-9a-f]{5}\d")  # in the name of a branch that a program made


@dataclass(frozen=True, slots=True)
class Work:
    """What turns of a session did: the subject of their first commit, and the names of the files that they changed."""

    commit: str = ""
    files: tuple[str, ...] = ()


def title_of(*questions: str) -> str:
    """Return the title of a conversation that begins with these questions."""
    return title_from((storable(text_without_keys(question)) for question in questions), TITLE_CHARS)


def title_of_source(title: str, source: str) -> str:
    """Return the title as a source gives it; "" if it says nothing. A program's own title is kept as it is."""
    title = text_without_keys(title)
    if source == "api":
        return one_line(title, SOURCE_TITLE_CHARS)
    return plain_title(title, SOURCE_TITLE_CHARS) if says_something(title) else ""


def choose_title(conversation: Conversation, work: Work, *, has_begun: bool) -> None:
    """Set the title of a locked conversation, unless its owner or its source chose one, without saving it.

    `has_begun` says that its first turn has changed, too.
    """
    title, version = conversation.title, conversation.title_version
    if version in (OWN_TITLE, EXTRACTED_TITLE) or (conversation.source == "api" and title):
        return
    is_session = bool(conversation.project or work.commit or work.files)
    has_news = is_session and (has_begun or work.commit or work.files)
    if version is not None and says_something(title) and not has_news:
        return
    questions = first_questions(conversation)
    conversation.title_version = TITLE_VERSION
    if says_something(title) and not is_question(title, questions):
        return
    asked = title_of(*questions)
    if is_session and (extracted := _extracted(conversation, questions, asked, work)):
        conversation.title, conversation.title_version = extracted, EXTRACTED_TITLE
    elif version is None or not says_something(title):
        conversation.title = asked or title


def is_question(title: str, questions: Sequence[str]) -> bool:
    """Return whether a title is one of the questions: then neither the owner nor the source thought of it."""
    return any(is_beginning(title, text_without_keys(question)) for question in questions)


def keeps_title(conversation: Conversation, title: str) -> bool:
    """Return whether a locked conversation keeps its title when its source gives this one."""
    version = conversation.title_version
    return version == OWN_TITLE or (version == EXTRACTED_TITLE and is_question(title, first_questions(conversation)))


def asked_title(conversation: Conversation) -> str:
    """Return the title that the first question gives, instead of one that was made of what the session did; or ""."""
    return title_of(*first_questions(conversation)) if conversation.title_version == EXTRACTED_TITLE else ""


def first_questions(conversation: Conversation) -> list[str]:
    """Return the texts of the questions with which a conversation begins."""
    asked = conversation.messages.filter(is_real_user=True, superseded=False).order_by("position")[:CANDIDATES]
    return [spoken_text(message.typed_parts) for message in asked]


def _extracted(conversation: Conversation, questions: Sequence[str], asked: str, work: Work) -> str:
    """Return a title made of what a session did; "" if its first question says more."""
    first = text_without_keys(questions[0]) if questions else ""
    if title := plan_title(first, TITLE_CHARS):
        return storable(title)
    if work.commit:
        return cut(storable(text_without_keys(work.commit)), TITLE_CHARS)
    files = [name for name in work.files if name not in asked]
    if files and len(asked) <= SHORT_CHARS and len(asked.split()) <= SHORT_WORDS:
        about = _branch(conversation) or ", ".join(files[:FILES_NAMED])
        return cut(storable(f"{asked} · {about}"), TITLE_CHARS)
    return ""


def _branch(conversation: Conversation) -> str:
    """Return the name of the branch on which a session began, without those that say nothing; "" without one."""
    sources = MessageSource.objects.filter(
        archive_id=conversation.archive_id,
        message__archive_id=conversation.archive_id,
        message__conversation_id=conversation.pk,
    )
    data = sources.order_by("message__position").values_list("data", flat=True).first()
    raw = zlib.decompressobj().decompress(bytes(data), RAW_CHARS).decode(errors="replace") if data else ""
    match = _BRANCH.search(raw)
    return match[1] if match and not (_TRUNKS.fullmatch(match[1]) or _HASH.search(match[1])) else ""
