"""Converts evaluation sets to the form that all systems get: archives of turns with ids, questions with right ids.

The text of a turn consists of its messages after their speakers' names, and of tool calls with name and parameters.
Turns are numbered by the product's own rule, so the right answer is the same for all systems.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.datasets.haystacks import Haystack, MessageRef, Question, turns_of
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import PARAMETER_CHARS, Part, TextPart, ToolCallPart

SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the ids of the turns that answer it; at least one."""

    text: str
    right: frozenset[str]


@dataclass(frozen=True, slots=True)
class Archive:
    """One user's archive, and the questions about it. `turns` are pairs of id and text."""

    name: str
    turns: tuple[tuple[str, str], ...]
    questions: tuple[Asked, ...]

    @property
    def characters(self) -> int:
        return sum(len(text) for _, text in self.turns)


def turn_id(conversation: str, number: int) -> str:
    """Return the name of a turn between the runner and the adapters."""
    return f"{conversation}#{number}"


def archive_of(haystack: Haystack) -> Archive:
    """Return the haystack's turns; questions that no turn answers are left out, as in the rest of the evaluation."""
    turns: dict[str, str] = {}
    homes: dict[MessageRef, str] = {}
    for draft in haystack.drafts():
        for number, messages in turns_of(draft):
            home = turn_id(draft.source_id, number)
            homes |= {(draft.source_id, message.source_key): home for message in messages}
            turns[home] = "\n".join(line for message in messages for line in _spoken_lines(message))
    asked = (Asked(question.text, _right(question, homes, turns)) for question in haystack.questions)
    return Archive(haystack.name, tuple(turns.items()), tuple(one for one in asked if one.right))


def _spoken_lines(message: MessageDraft) -> Iterable[str]:
    lines = [line for part in message.parts if (line := _line(part))]
    speaker = message.name or SPEAKERS.get(message.role, "")
    return [f"{speaker}: {lines[0]}", *lines[1:]] if speaker and lines else lines


def _line(part: Part) -> str:
    """Return a part in words; thinking and tool output are not part of a turn's text, as in the papers."""
    if isinstance(part, TextPart):
        return part.text.strip()
    if isinstance(part, ToolCallPart):
        arguments = (f"{name}:{_cut(value)}" for name, value in part.input.items())
        return " ".join([part.name, *arguments])
    return ""


def _cut(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= PARAMETER_CHARS else f"{text[:PARAMETER_CHARS]}..."


def _right(question: Question, homes: Mapping[MessageRef, str], turns: Mapping[str, str]) -> frozenset[str]:
    named = {turn_id(*ref) for ref in question.turns}
    return frozenset({homes[ref] for ref in question.messages if ref in homes} | (named & turns.keys()))
