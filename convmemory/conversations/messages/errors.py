"""The errors in the outputs of commands: their signatures, and what changed until one stopped appearing. Pure.

A signature is the line of an error without what differs between two reports of it: paths, numbers, hashes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from convmemory.conversations.messages.edits import Edit, edits_of
from convmemory.conversations.messages.outcomes import command_of, has_failed
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart, said_text

READ_CHARS, LINE_CHARS, MAX_SIGNATURES = 40_000, 400, 8
MIN_WORDS = 3
CHANGES_KEPT = 12
VARYING = (
    (re.compile(r"(?<![^\s:,;()\"'])(?:[a-z]:(?=[/\\]))?+[^\s:,;()\"'/\\]*+[/\\][^\s:,;()\"']*+"), "<path>"),
    (re.compile(r"(?<![\w-])(?=[a-f-]*+\d)[0-9a-f][0-9a-f-]{6,}+(?![\w-])"), "<id>"),
    (re.compile(r"\d++"), "<number>"),
)
"""What differs between two reports of the same error, and what stands for it."""
_ERROR = re.compile(
    r"error|exception|panicked|fatal|failed|failure|cannot|can't|could not|couldn't|not found|no such|undefined"
    r"|unresolved|unknown|denied|refused|unexpected|timed out|invalid|missing|segmentation fault|mismatch|expected"
    r"|no rule to|uncaught|illegal|aborted|killed|out of memory|unable to|rejected|does not exist|unsupported"
)
_REPORT = re.compile(r"(?:error|exception|fatal|panicked)(?:\[[^\]\n]{1,20}\])?:", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_MARK = re.compile(r"<(?:path|id|number)>")
# Colours and frames, pytest's mark of a line, and the test in its summary.
_BEFORE = re.compile(r"(?:\x1b\[[0-9;]*m|[\s>|*\u2502-])+|e\s{2,}|(?:failed|error) \S{1,200} - ")
_SAYS_ERROR = re.compile(r"(?:(?:uncaught )?(?:error|fatal): )+")  # and no more: some quote the line without it
_ENDS = " .,;:!"
# Words that reports of any error have.
_PLAIN = frozenset(
    (
        "error", "errors", "failed", "passed", "failure", "failures", "warning", "warnings", "test", "tests", "exit",
        "code", "exited", "with", "command", "process", "status", "traceback", "most", "recent", "call", "last", "in",
        "of", "the", "at", "fatal", "found", "summary", "short", "info", "skipped", "exception", "line", "and", "to",
        "is",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageInTurn:
    """A message with its turn."""

    turn: int
    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """The turn after which an error stopped appearing, and what changed from its last report on.

    `passed` is the command that had reported it, if it passed later; without one the error was only not seen again.
    """

    turn: int
    passed: str
    changes: tuple[Edit, ...]


def signature_of(line: str) -> str:
    """Return the signature of a line; an empty string if it is none of an error, or says too little of it."""
    text = line[:LINE_CHARS].lower()
    if match := _BEFORE.match(text):
        text = text[match.end() :]
    if not _ERROR.search(text):
        return ""
    text = _SAYS_ERROR.sub("", text, count=1) if _SAYS_ERROR.match(text) else text
    for pattern, mark in VARYING:
        text = pattern.sub(mark, text)
    words = set(_WORD.findall(_MARK.sub(" ", text)))
    return " ".join(text.split()).rstrip(_ENDS) if len(words - _PLAIN) >= MIN_WORDS else ""


def signatures_of(text: str) -> list[str]:
    """Return the signatures of the errors at the end of an output, the last one first."""
    lines = reversed(text[-READ_CHARS:].splitlines())
    return list(dict.fromkeys(filter(None, map(signature_of, lines))))[:MAX_SIGNATURES]


def is_report(text: str) -> bool:
    """Return whether a text is a pasted report of an error, and no question about one."""
    return any(_REPORT.search(line[:LINE_CHARS]) and signature_of(line) for line in text[:READ_CHARS].splitlines())


def words_of(signature: str) -> str:
    """Return the words of a signature, by which outputs with it are found."""
    return " ".join(dict.fromkeys(_WORD.findall(_MARK.sub(" ", signature))))


def fix_in(messages: Iterable[MessageInTurn], signatures: frozenset[str]) -> Fix | None:
    """Return the fix of an error with one of these signatures in the messages of a conversation, in their order.

    None if it does not appear in them, or nothing changed afterwards. After one that a person pasted, any command that
    passed may be what ended it.
    """
    commands: dict[str, str] = {}
    failing, is_seen = "", False
    passed, turn, acted = "", None, None
    changes: list[tuple[int, Edit]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                commands[part.id] = command_of(part)
                edits = edits_of(part) if is_seen and not passed else []
                turn = message.turn if edits and turn is None else turn
                changes += [(message.turn, edit) for edit in edits]
            elif _text(message.role, part) and not signatures.isdisjoint(signatures_of(_text(message.role, part))):
                failing = commands.get(part.call_id, "") if isinstance(part, ToolResultPart) else failing
                is_seen, passed, turn, changes, acted = True, "", None, [], None
            elif not passed and failing and isinstance(part, ToolResultPart) and not has_failed(part):
                passed = failing if commands.get(part.call_id) == failing else ""
                turn = message.turn if passed else turn
            elif is_seen and isinstance(part, ToolResultPart) and commands.get(part.call_id) and not has_failed(part):
                acted = message.turn if acted is None and not failing else acted
    turn = acted if turn is None else turn
    # Without a command that passed, edits of later turns are other work.
    kept = [edit for of, edit in changes if passed or of == turn]
    return Fix(turn, passed, tuple(kept[-CHANGES_KEPT:])) if turn is not None else None


def _text(role: str, part: Part) -> str:
    """Return the text of a part that can report an error: an output, or what a person pasted."""
    if isinstance(part, ToolResultPart):
        return part.text
    return said_text(part) if isinstance(part, TextPart) and role == "user" else ""
