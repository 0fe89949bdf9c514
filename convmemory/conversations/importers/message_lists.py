"""Reads lists of messages that are not in a file, such as those sent to the API, as the importers of their shapes do.

A list holds messages of the APIs of OpenAI, Anthropic or Gemini, items of OpenAI's Responses, or messages as this
product shows and exports them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal, NoReturn

from convmemory.conversations.importers import plain
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.chat_formats import GEMINI_CONTENTS
from convmemory.conversations.importers.declared_messages import EntryReader
from convmemory.conversations.importers.own_export import messages_of_rows
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import PART_TYPES
from convmemory.conversations.messages.thinking import thinking_apart
from convmemory.core.errors import InvalidInput

MAX_CONTAINERS = 200_000  # objects and lists of a request: reading as many empty parts takes a second

_Shape = Literal["plain", "gemini", "own"]


def sent_messages(values: Sequence[Mapping[str, Any]], *, system: object = None) -> list[MessageDraft]:
    """Return the messages of a request, named by the ids that they have there, after its system prompt.

    Raises: InvalidInput for a message that cannot be stored, with its index.
    """
    _refuse_many([*values, system])
    report = _Refusing(path="")
    ids: set[str] = set()
    for index, value in enumerate(values):
        if not plain.names_speaker(value):
            report.skip(index, "A message has no role: give one of user, assistant, tool, system.")
        if value.get("created_at") is not None and time_of(value["created_at"]) is None:
            report.skip(index, "created_at is no time from 1990 to now.")
        ids.update(filter(None, (key_of(text_of(value.get(name))) for name in ("id", "uuid", "source_key"))))
    try:
        drafts = [*plain.system_prompt(system, report), *read_messages(values, report=report)]
    except RecursionError:
        raise InvalidInput("body.messages: They are nested too deeply.") from None
    return [
        replace(
            draft,
            parts=thinking_apart(draft.parts) if draft.role == "assistant" else draft.parts,
            source_key=draft.source_key if draft.source_key in ids else "",
        )
        for draft in drafts
    ]


def _refuse_many(values: Sequence[object]) -> None:
    """Raise InvalidInput for more than `MAX_CONTAINERS` objects and lists."""
    waiting: list[Any] = [values]
    count = 0
    while waiting:
        value = waiting.pop()
        items = value.values() if isinstance(value, Mapping) else value
        waiting.extend(item for item in items if isinstance(item, (Mapping, list)))
        count += 1
        if count + len(waiting) > MAX_CONTAINERS:
            raise InvalidInput(
                f"body.messages: They have more than {MAX_CONTAINERS:,} objects and lists: send them in parts, or "
                "upload a file to POST /api/v1/imports."
            )


class _Refusing(FileReport):
    """Refuses what other reports list as skipped."""

    def skip(self, position: int | str, reason: str) -> NoReturn:
        error = InvalidInput(f"body.messages.{position}: {reason}")
        error.details = {"errors": [{"place": f"body.messages.{position}", "message": reason}]}
        raise error


def read_messages(values: Sequence[Mapping[str, Any]], *, report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages of the list; the report names a message by its index."""
    gemini = EntryReader(GEMINI_CONTENTS, report, header={}, prefix="", joined=lambda entry: entry)
    for shape, run in groupby(enumerate(values), key=lambda item: _shape_of(item[1])):
        entries = ((str(index), value, b"") for index, value in run)
        if shape == "gemini":
            yield from gemini.read(entries)
        elif shape == "own":
            yield from messages_of_rows(entries, report)
        else:
            yield from plain.messages_of(entries, report)


def _shape_of(value: Mapping[str, Any]) -> _Shape:
    if "content" in value or not isinstance(value.get("parts"), list):
        return "plain"
    kinds = [mapping_of(part).get("type") for part in list_of(value["parts"])]
    return "own" if kinds and all(isinstance(kind, str) and kind in PART_TYPES for kind in kinds) else "gemini"
