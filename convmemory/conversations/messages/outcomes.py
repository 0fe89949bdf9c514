"""The outcome of a turn, without a model: what it concluded, which files it changed, which command passed and failed.

Pure. `write_outcomes` in `messages/numbering.py` stores it with the message that opens the turn, and hits show it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from convmemory.conversations.messages.echo import is_own_call
from convmemory.conversations.messages.edits import edits_of
from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    said_text,
)
from convmemory.core.text import one_line
from convmemory.core.titles import commit_subject

CONCLUSION_CHARS, COMMAND_CHARS, PATH_CHARS, MAX_FILES = 400, 160, 200, 20
# An answer is looked through from its end: a longer one is a document, whose end is no conclusion of more than this.
READ_CHARS = 20_000
ERROR_CHARS, SHOWN_CHARS = 120, 240  # of an output: the last line of one that failed, and a whole one
NAMED_FILES = 3
OK = "ok"
SHORT_CHARS = 40  # "Done." says less than the text before it
ENOUGH_CHARS = 120  # of sentences that conclude: "All three pass." does not say what was wrong, a text before it does

_COMMANDS = re.compile(r"bash|shell|exec|terminal|run_command|run_in", re.IGNORECASE)
_PATHS = ("file_path", "path", "filePath", "notebook_path", "absolute_path", "target_file", "filename", "file")
_EXIT_CODE = re.compile(
    r"(?:exited with code|exit(?:ed)?[ _]?code[\"']?:?|exit status|returncode[\"']?:) ?(-?\d{1,5})", re.IGNORECASE
)
_CHANGES_FOLDER = re.compile(r"\A\s{0,4}+cd [^\s&|;]{1,300} ?&& ?")
_CODE_CHARS = 2_000  # at both ends of an output, where its exit code stands
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINE_OF_CODE = re.compile(r"(?<=:)\n{1,2}```[^\n`]{0,20}\n([^\n`]{1,80})\n```")  # what the sentence before it names
_BLOCK = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
# Not what code in backticks holds, two underscores (`__init__.py`), or a pattern such as src/**/*.py.
_MARKUP = re.compile(
    r"(?P<code>`[^`]++`)|^(?:#+ +|[-*] +|> +)|(?<!/)\*\*(?!/)|^[\u2600-\u27bf\U0001f300-\U0001faff\ufe0f ]+"
)
_HEADING_OR_ROW = re.compile(r"#{1,6} |\|")
# The heading of what an answer comes to, wherever it stands.
_CONCLUDES = re.compile(
    r"^(?:#{1,6} +|\*\*)[^\n]{0,30}?\b(?:final answer|conclusion|verdict|root cause|recommendation|summary|bottom line"
    r"|tl;dr|fazit|ergebnis|zusammenfassung|conclusi\u00f3n|resumen|r\u00e9sum\u00e9)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Before the end of a turn "I'll use crc32" is what was done, but not "let me look".
_LOOKS = re.compile(
    r"(?:(?:[a-z]{2,9}[,!.] )?(?:now |next,? |first,? )?(?:let me|let['\u2019]s|i['\u2019]ll|i will|i need to|now i"
    r"|i['\u2019]m going to|ich werde|lass mich|voy a|d\u00e9jame|je vais)(?: now| also| first| quickly)* "
    r"(?:look|check|see|search|find|read|examine|investigate|run|verify|review|start|explore|analy[sz]e|reproduce|inspect"
    r"|get|open|view|try|test|ver |voir|mir ))|ich sehe mir|ich schaue",
    re.IGNORECASE,
)
# Sentences that announce or offer say no outcome.
_ANNOUNCES = re.compile(
    r"(?:i['\u2019]ll|i will|i['\u2019]m going to|let me|let['\u2019]s|now,? (?:i|let)|next,? i|first,? i"
    r"|would you like|do you want|shall i|should i|want me to|let me know|feel free|sure[,!.]|great[,!.]|perfect[,!.]"
    r"|certainly|of course|okay[,.]|you['\u2019]re (?:absolutely )?right|if you (?:want|like|need)|ich werde|lass mich"
    r"|soll ich|voy a|d\u00e9jame|je vais|souhaitez)(?!\w)",
    re.IGNORECASE,
)


_DOES = re.compile(
    r"(?:(?:now|next)[,:]? )?(?:i['\u2019]m|i am) (?:doing|checking|going|making|running|looking|now)\b", re.I
)


class Spoken(NamedTuple):
    """A message of a turn."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a turn came to; `passed` and `failed` are its last command that ended well, and the last that did not.

    If both are the same command, it ended well at last.
    """

    conclusion: str = ""
    files: tuple[str, ...] = ()
    passed: str = ""
    failed: str = ""

    @property
    def file_names(self) -> str:
        """Return the names of the first changed files, without their folders."""
        names = [path.rstrip("/").rpartition("/")[2] for path in self.files]
        return ", ".join(names[:NAMED_FILES]) + (" …" if len(names) > NAMED_FILES else "")

    @property
    def is_work(self) -> bool:
        """True if files were changed or commands were run."""
        return bool(self.files or self.passed or self.failed)

    def then(self, later: Self) -> Self:
        """Return the outcome of this work and what followed it."""
        files = dict.fromkeys([*self.files, *later.files])
        kept = "" if self.passed == later.failed else self.passed
        return replace(
            self,
            conclusion=later.conclusion or self.conclusion,
            files=tuple(files)[-MAX_FILES:],
            passed=later.passed or kept,
            failed=later.failed or self.failed,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the values that are not empty."""
        values = {"conclusion": self.conclusion, "files": list(self.files), "passed": self.passed}
        return {name: value for name, value in (values | {"failed": self.failed}).items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Self:
        fields = dict(value or {})
        return cls(**(fields | {"files": tuple(fields.get("files", ()))}))


NO_OUTCOME = Outcome()


def outcome_of(messages: Iterable[Spoken]) -> Outcome:
    """Return the outcome of the messages of one turn, in their order."""
    texts: list[str] = []
    files: dict[str, None] = {}
    calls: dict[str, str] = {}
    last = passed = failed = ""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and not is_own_call(part):
                files |= dict.fromkeys(changed_files(part))
                last = calls[part.id] = command_of(part)
            elif isinstance(part, ToolResultPart):
                command = calls.get(part.call_id, last)
                if command and has_failed(part):
                    failed, passed = command, "" if passed == command else passed
                elif command:
                    passed = command
            elif isinstance(part, TextPart) and message.role == "assistant" and said_text(part).strip():
                texts.append(said_text(part))
    return Outcome(_conclusion(texts), tuple(files)[-MAX_FILES:], passed, failed)


def is_announcement(text: str) -> bool:
    """Return whether a text begins with what is to be done next, or is just done: it says no outcome."""
    return bool(_LOOKS.match(text) or _ANNOUNCES.match(text) or _DOES.match(text))


def first_commit(messages: Iterable[Spoken]) -> str:
    """Return the subject of the first commit or pull request that the messages made; "" without one."""
    subjects: dict[str, str] = {}
    last = ""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                last = subjects[part.id] = commit_subject(script_of(part))
            elif isinstance(part, ToolResultPart):
                subject = subjects.get(part.call_id, last)
                if subject and not has_failed(part):
                    return subject
    return ""


def script_of(call: ToolCallPart) -> str:
    """Return what a call runs in a shell; "" for another tool."""
    if not _COMMANDS.search(call.name):
        return ""
    value = next((call.input[name] for name in ("command", "cmd", "script") if call.input.get(name)), "")
    if isinstance(value, list):
        value = value[-1] if value[:2] in (["bash", "-lc"], ["sh", "-c"], ["bash", "-c"]) else " ".join(map(str, value))
    return value if isinstance(value, str) else ""


def command_of(call: ToolCallPart) -> str:
    """Return the command that a call runs in a shell, in one line; "" for another tool.

    The folder that it changes to is left out: lines are too short for both.
    """
    return one_line(_CHANGES_FOLDER.sub("", script_of(call), count=1), COMMAND_CHARS)


def changed_files(call: ToolCallPart) -> Iterator[str]:
    """Yield the paths of files that a call changes."""
    yield from dict.fromkeys(one_line(edit.path, PATH_CHARS) for edit in edits_of(call))


def has_failed(result: ToolResultPart) -> bool:
    """Return whether the output of a command says that it failed."""
    codes = _EXIT_CODE.findall(result.text[:_CODE_CHARS]) or _EXIT_CODE.findall(result.text[-_CODE_CHARS:])
    return result.is_error or (bool(codes) and codes[-1] != "0")


def call_line(call: ToolCallPart, end: str | None) -> str:
    """Return a call in one line with its `end_of`, if it has one: `Bash mise run test: ok`."""
    command = command_of(call)
    about = command or next(changed_files(call), "")
    if not about:
        names = (*_PATHS, "pattern", "query", "url", "description")
        value = next(filter(None, map(call.input.get, names)), "")
        about = one_line(value if isinstance(value, str) else json.dumps(value, default=str), COMMAND_CHARS)
    line = one_line(f"{call.name} {about}", COMMAND_CHARS)
    if end is None or (end.startswith(OK) and not command):
        return line
    return f"{line}: {end}"


def end_of(result: ToolResultPart) -> str:
    """Return how a call ended: with its output if that is short, or the last line of the output of one that failed."""
    if not has_failed(result):
        output = result.text if len(result.text) <= _CODE_CHARS else ""
        lines = [line for line in output.rpartition("Output:\n")[2].splitlines() if not _EXIT_CODE.search(line)]
        short = " ".join(" ".join(lines).split())
        return f"{OK}, {short}" if 0 < len(short) <= SHOWN_CHARS else OK
    lines = [line for line in result.text[-_CODE_CHARS:].splitlines() if line.strip()]
    return f"failed, {one_line(lines[-1], ERROR_CHARS)}" if lines else "failed"


def _conclusion(texts: list[str]) -> str:
    """Return the sentences that conclude: those of the last text, and while these are few, of the texts before it."""
    ends = [text[-READ_CHARS:] for text in texts]
    telling: list[str] = []
    for text in reversed(ends):
        if len(text.strip()) >= SHORT_CHARS:
            telling += _telling(text, _ANNOUNCES if text is ends[-1] else _LOOKS)
        if sum(map(len, telling)) >= ENOUGH_CHARS:
            break
    last = next((text for text in reversed(ends) if len(text.strip()) >= SHORT_CHARS), ends[-1] if ends else "")
    return one_line(" ".join(telling or _telling(last, _ANNOUNCES) or [last]), CONCLUSION_CHARS)


def _telling(text: str, announces: re.Pattern[str]) -> list[str]:
    """Return the sentences of a text that say something, those under the heading of its conclusion first."""
    plain = _FENCED.sub("\n", _LINE_OF_CODE.sub(r" `\1`\n", text))
    if heading := _CONCLUDES.search(plain):
        plain = f"{plain[heading.start() :]}\n\n{plain[: heading.start()]}"
    sentences = [
        (_HEADING_OR_ROW.match(sentence.strip()), bare)
        for block in _BLOCK.split(plain)
        for sentence in _SENTENCE.split(block)
        if (bare := _MARKUP.sub(r"\g<code>", _MARKUP.sub(r"\g<code>", sentence.strip())).strip())
    ]
    return [
        each
        for is_form, each in sentences
        if not (is_form or announces.match(each) or each.endswith("?"))
        and not (each.endswith(":") and len(each) < SHORT_CHARS)
    ]
