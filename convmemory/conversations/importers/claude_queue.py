"""Follows Claude Code's prompt queue, so that each queued prompt is imported once, and none is lost.

A prompt typed while the agent works is enqueued. It usually comes back later as a user line or as a `queued_command`
attachment, alone or joined with others; sometimes the queue entry is its only record. The message is taken from the
last place that contains the text, but always keeps the entry's key, so that a new import of the grown file finds the
same message.
"""

import re
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from convmemory.conversations.importers.values import list_of, mapping_of, short_hash, text_of

MAX_OPEN = 500  # older entries are assumed never to come back

Position = tuple[int, int]
"""Line number and index on that line."""

Segment = tuple[str, str]
"""A message's key ("" for that of its line) and its text."""


@dataclass(slots=True, eq=False)
class _Entry:
    text: str
    key: str
    position: Position
    start: int = 0  # position of the text in the prompt that contains it
    handed_over: bool = False  # given to the model during a turn: a later prompt is another one


@dataclass(slots=True)
class QueueTracker:
    """Receives the lines of a session in order; then `plan` returns the messages of each place."""

    _open: list[_Entry] = field(default_factory=list)  # may still come back
    _waiting: list[_Entry | None] = field(default_factory=list)  # in the queue; None is a notification
    _settled: list[_Entry] = field(default_factory=list)
    _rests: dict[Position, list[tuple[int, str]]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def enqueue(self, position: Position, text: str) -> str:
        """Record an entry that came into the queue; return the key of its message, "" if it is no prompt."""
        text = _normal(text)
        if len(self._waiting) >= MAX_OPEN:
            self._waiting.pop(0)
        if not is_queued_prompt(text):
            self._waiting.append(None)
            return ""
        name = short_hash(text, 16)
        entry = _Entry(text, f"queue:{name}:{self._counts[name]}", position)
        self._counts[name] += 1
        self._open.append(entry)
        self._waiting.append(entry)
        if len(self._open) > MAX_OPEN:
            self._settled.append(self._open.pop(0))
        return entry.key

    def remove(self, text: str) -> None:
        """Record an entry that left the queue for the model during a turn; only some lines name it."""
        normal_text = _normal(text)
        named = next((entry for entry in self._waiting if entry and text and entry.text == normal_text), None)
        entry = named or next((entry for entry in self._waiting if entry), None)
        certain = named is not None or None not in self._waiting
        if entry in self._waiting:
            self._waiting.remove(entry)
        if entry and certain:
            entry.handed_over = True

    def dequeue(self) -> None:
        """Record that the queue's next entry starts a turn: it comes back as a user line."""
        if self._waiting:
            self._waiting.pop(0)

    def pop_all(self, text: str) -> None:
        """Record that entries went back to the editor: they were never sent (or will be typed again)."""
        waiting = [entry for entry in self._waiting if entry]
        gone = waiting
        if text.strip():
            lines = f"\n{_normal(text)}\n"
            pool = dict.fromkeys([*waiting, *(entry for entry in self._open if not entry.handed_over)])
            gone = [entry for entry in pool if f"\n{entry.text}\n" in lines]
        left = set(gone)
        self._waiting = [entry for entry in self._waiting if entry not in left]
        self._open = [entry for entry in self._open if entry not in left]

    def attachment(self, position: Position, text: str, key: str) -> None:
        """Record a prompt passed on as an attachment; it can still come back as a user line."""
        text = _normal(text)
        for entry in self._take_up(position, text):
            entry.handed_over = True
            self._open.append(entry)
        for number, (start, piece) in enumerate(self._rests.pop(position)):
            own_key = f"{key}:{number}" if number else key
            self._open.append(_Entry(piece, own_key, position, start, handed_over=True))

    def prompt(self, position: Position, text: str) -> None:
        """Record a user line that a person typed."""
        text = _normal(text)
        self._settled.extend(self._take_up(position, text))
        if self._rests[position]:
            self._settled.extend(entry for entry in self._open if entry.handed_over)
            self._open = [entry for entry in self._open if not entry.handed_over]

    def plan(self) -> dict[Position, list[Segment]]:
        """Return the messages of every place with queued prompts; an attachment without an entry yields none."""
        segments: dict[Position, list[tuple[int, str, str]]] = defaultdict(list)
        for entry in (*self._settled, *self._open):
            segments[entry.position].append((entry.start, entry.key, entry.text))
        for position, rests in self._rests.items():
            if position in segments:
                segments[position].extend((start, "", text) for start, text in rests)
        return {position: [(key, text) for _, key, text in sorted(pieces)] for position, pieces in segments.items()}

    def _take_up(self, position: Position, text: str) -> list[_Entry]:
        """Move every open entry found in the text to this place; the rest of the text goes to `_rests`."""
        framed = f"\n{text}\n"
        taken: dict[_Entry, None] = {}
        spans: list[tuple[int, int]] = []
        looked_to: dict[str, int] = {}  # the start of the search for the next entry of the same text
        for entry in reversed(self._open):
            at = _free_span(framed, f"\n{entry.text}\n", spans, looked_to.get(entry.text, 0))
            looked_to[entry.text] = len(framed) if at is None else at + 1
            if at is not None:
                entry.position, entry.start = position, at
                insort(spans, (at, at + len(entry.text) + 1))
                taken[entry] = None
        self._open = [entry for entry in self._open if entry not in taken]
        # The pieces of text between the spans, with their start positions.
        rests: list[tuple[int, str]] = []
        rest_start = 0
        for start, stop in (*spans, (len(framed), len(framed))):
            piece = framed[rest_start:start].strip()
            if piece:
                rests.append((rest_start, piece))
            rest_start = max(rest_start, stop)
        self._rests[position] = rests
        return list(taken)


def _normal(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _free_span(framed: str, needle: str, spans: list[tuple[int, int]], start: int) -> int | None:
    """Return the first position of `needle` from `start` on outside of the sorted `spans`.

    Neighbours may share a line break.
    """
    at = framed.find(needle, start)
    while at >= 0:
        following = bisect_right(spans, (at, len(framed)))
        stop = spans[following - 1][1] if following else 0
        if at >= stop and (following == len(spans) or at + len(needle) - 1 <= spans[following][0]):
            return at
        at = framed.find(needle, max(at + 1, stop))
    return None


# --- claude rewinds -------------------------------------------------------------------------------
# Finds lines of a Claude Code session that a rewind superseded, after which the thread continued from an earlier
# line.
#
# Each line names the one before it. A rewind is a prompt that follows the same message as an older prompt that was
# answered: everything after the older prompt is superseded, unless the session was last written there.


NOTHING = -1


class Kind(IntEnum):
    """The kind of a line in a thread."""

    HARNESS = 0  # no message, or a message of the harness
    PROMPT = 1
    ANSWER = 2
    OTHER = 3  # a tool's result


@dataclass(slots=True)
class RewindTracker:
    """Receives the lines of a session in order; stores only numbers, about 150 bytes per line."""

    _places: dict[int, int] = field(default_factory=dict)  # a line's number by the hash of its uuid
    _uuids: list[int] = field(default_factory=list)
    _parents: list[int] = field(default_factory=list)  # numbers of earlier lines
    _kinds: bytearray = field(default_factory=bytearray)

    def line(self, uuid: str, parent: str, kind: Kind) -> None:
        """Record a line; a line without a uuid, or one that occurs again, is ignored."""
        name = hash(uuid)
        if not uuid or name in self._places:
            return
        self._places[name] = len(self._uuids)
        self._uuids.append(name)
        self._parents.append(self._places.get(hash(parent), NOTHING) if parent else NOTHING)
        self._kinds.append(kind)
        if self._parents[-1] == self._places[name]:
            self._parents[-1] = NOTHING

    def superseded(self) -> frozenset[int]:
        """Return the hashes of the uuids of superseded lines."""
        gone = bytearray(len(self._uuids))
        # For each line the last one that descends from it, and whether an answer does.
        last = list(range(len(self._parents)))
        answered = bytearray(len(self._parents))
        # Parents precede their children, so that one backward pass is enough.
        for number in range(len(self._parents) - 1, -1, -1):
            if self._kinds[number] == Kind.ANSWER:
                answered[number] = 1
            parent = self._parents[number]
            if parent != NOTHING:
                last[parent] = max(last[parent], last[number])
                answered[parent] |= answered[number]
        replaced: list[int] = []
        # The groups of prompts that follow the same message.
        before: list[int] = []  # the nearest message above each line
        behind: defaultdict[int, list[int]] = defaultdict(list)
        for number, parent in enumerate(self._parents):
            is_harness = parent != NOTHING and self._kinds[parent] == Kind.HARNESS
            before.append(before[parent] if is_harness else parent)
            if self._kinds[number] == Kind.PROMPT and before[number] != NOTHING:
                behind[before[number]].append(number)
        for prompts in behind.values():
            kept = max(prompts, key=last.__getitem__)
            replaced += [prompt for prompt in prompts if prompt != kept and answered[prompt]]
        for prompt in replaced:
            gone[prompt] = 1
        for number, parent in enumerate(self._parents):
            if parent != NOTHING and gone[parent]:
                gone[number] = 1
        return frozenset(self._uuids[number] for number, is_gone in enumerate(gone) if is_gone)


# --- claude prompts -------------------------------------------------------------------------------
# Separates a person's text from the harness's in the "user" lines of Claude Code.
#
# Newer lines name their author (`origin`, `promptSource`); in older ones the beginning of the text shows it. A slash
# command that passes a prompt to the model (it begins with `<command-message>`) counts by the words typed after its
# name; one without words, and any local command, is an echo.


_HARNESS_SOURCES = frozenset({"system", "hook", "task-notification", "agent"})
_MARKUP = (
    *("<task-notification>", "<local-command-", "<command-name>", "<command-message>", "<command-args>"),
    *("<bash-input>", "<bash-stdout>", "<bash-stderr>", "<ide_", "<system-reminder>", "<user-memory-input>"),
    *("<user-prompt-submit-hook>", "<session-start-hook>", "<teammate-message", "<agent-message", "<background-"),
    *("<cross-session-message", "<channel>", "<channel "),
)
_PHRASES = (
    "[Request interrupted by user",
    "Caveat: The messages below were generated by the user while running local commands",
    "This session is being continued from a previous conversation",
    "Operation stopped by hook:",
    "Stop hook feedback:",
)
_WRAPPER = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|local-command-caveat)\b[^<>]*+>"
)
_REMINDER_START, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_BARE_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*")
_COMMAND_HEAD_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text of a user line, split by author."""

    typed: str
    harness: str


def user_texts(content: object) -> list[str]:
    """Return the text blocks of a user line's content, without tool results."""
    if isinstance(content, str):
        return [content]
    blocks = list_of(content)
    texts = [block if isinstance(block, str) else mapping_of(block).get("text") for block in blocks]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def has_tool_results(content: object) -> bool:
    """Return whether a user line contains tool results."""
    blocks = list_of(content)
    return any(mapping_of(block).get("type") == "tool_result" for block in blocks)


def read_prompt(line: Mapping[str, Any]) -> Prompt:
    """Return the text that a person typed in this user line, and the text of the harness."""
    content = mapping_of(line.get("message")).get("content")
    texts = user_texts(content)
    author = text_of(mapping_of(line.get("origin")).get("kind"))
    by_harness = (
        any(line.get(mark) is True for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
        or ("toolUseResult" in line and not has_tool_results(content))
        or (author != "human" if author else text_of(line.get("promptSource")) in _HARNESS_SOURCES)
    )
    if by_harness:
        return Prompt(typed="", harness="\n\n".join(texts))
    typed, harness = [], []
    for text in texts:
        # The typed and the injected text of one block. A text that names its author may begin with a phrase of the
        # harness; without an author, the text alone can tell.
        trusted = author == "human"
        typed_text, wrapped = _without_wrappers(text)
        start = typed_text.lstrip()
        if start.startswith(("<command-message>", "<command-name>")):
            command = _typed_command(start)
            typed_text, injected = (command, wrapped) if command else ("", text)
        elif (start.startswith(_MARKUP) and not (trusted and start.startswith("<task-notification>"))) or (
            not trusted and start.startswith(_PHRASES)
        ):
            typed_text, injected = "", text
        else:
            injected = wrapped
        typed.append(typed_text)
        harness.append(injected)
    return Prompt(typed="\n\n".join(filter(None, typed)), harness="\n\n".join(filter(None, harness)))


def is_queued_prompt(text: str) -> bool:
    """Return whether a queue entry is a prompt: no notification of the harness, no bare slash command."""
    text = text.strip()
    return bool(text) and not text.startswith(_MARKUP) and not _BARE_COMMAND.fullmatch(text)


def _without_wrappers(text: str) -> tuple[str, str]:
    """Return the text without whole reminder elements at its start and end, and those elements."""
    wrapped: list[str] = []
    start, end = _skip_space(text, 0), len(text)
    first = 0  # the text's beginning, including leading space
    while wrapper_end := _wrapper_end(text, start):
        wrapped.append(text[start:wrapper_end])
        first = start = _skip_space(text, wrapper_end)
    text_end = _skip_space_back(text, end, first)
    while (
        text.endswith(_REMINDER_END, first, text_end) and (at := text.rfind(_REMINDER_START, first, text_end)) > first
    ):
        wrapped.append(text[at:text_end])
        end = text_end = _skip_space_back(text, at, first)
    unwrapped = text[first:end]
    return (unwrapped if unwrapped.strip() else ""), "\n\n".join(wrapped)


def _wrapper_end(text: str, start: int) -> int:
    """Return the end of the reminder element that begins at `start`; 0 if none does."""
    opened = _WRAPPER.match(text, start)
    if not opened:
        return 0
    closing = f"</{opened[1]}>"
    at = text.find(closing, opened.end())
    return at + len(closing) if at >= 0 else 0


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _skip_space_back(text: str, end: int, first: int) -> int:
    while end > first and text[end - 1].isspace():
        end -= 1
    return end


def _typed_command(text: str) -> str:
    """Return `/name words` if a person gave words to a command that prompts the model, else nothing."""
    head = text[:_COMMAND_HEAD_CHARS]
    name, arguments = _element(head, "command-name"), _element(text, "command-args")
    if not head.startswith("<command-message>") or name is None or not arguments:
        return ""
    return f"/{name.removeprefix('/')} {arguments}"


def _element(text: str, tag: str) -> str | None:
    """Return the stripped content of the first element of this name; None if there is no complete one."""
    start = text.find(f"<{tag}>") + len(tag) + 2
    end = text.find(f"</{tag}>", start)
    return text[start:end].strip() if start > len(tag) + 1 and end >= 0 else None
