"""Reasons of the importers in the language of a page.

Importers write reasons in English, and reports keep them so: pages look up their translations. Of a reason with values,
the sentence that it was written with is looked up.
"""

import re

from django.utils.translation import gettext, gettext_noop

MAX_REASON_CHARS = 1_000
WITHOUT_VALUES = (
    gettext_noop("a damaged archive: download it again, or pack it again"),
    gettext_noop("the file is empty: export it again"),
    gettext_noop("its format is known"),
    gettext_noop("Entries without a link to their conversation: those of a day are one conversation"),
    gettext_noop("a change that leads nowhere"),
    gettext_noop("a chat without any message"),
    gettext_noop("a conversation without any message"),
    gettext_noop("a database without any chat"),
    gettext_noop("a database without any conversation"),
    gettext_noop("a file without any message"),
    gettext_noop("a message without a known role or content"),
    gettext_noop("a part of a ChatGPT export that holds no conversation"),
    gettext_noop("a part of a Claude.ai export that holds no conversation"),
    gettext_noop("a session without any event"),
    gettext_noop("a session without any message"),
    gettext_noop("a task without any message"),
    gettext_noop("a text without any speaker"),
    gettext_noop("an event without a type"),
    gettext_noop("an output without any message"),
    gettext_noop("it belongs to no message"),
    gettext_noop("it has no content"),
    gettext_noop("it holds no messages"),
    gettext_noop("it was in the trash of its owner"),
    gettext_noop("its data is no JSON object"),
    gettext_noop("its messages follow one another in a circle: cut open"),
    gettext_noop("its time is written in a way that is not known: kept without one"),
    gettext_noop("neither a conversation nor a project of Claude.ai"),
    gettext_noop("neither a message nor a conversation"),
    gettext_noop("no conversation of ChatGPT"),
    gettext_noop("no conversation, while the file's first line is one"),
    gettext_noop("no message"),
    gettext_noop("no message of a known kind"),
    gettext_noop("not an object"),
    gettext_noop("the export holds no messages of it"),
    gettext_noop("the log begins with a change: what was said before it is missing"),
    gettext_noop("the message has content, but none that can be read"),
    gettext_noop("the session has more subagents than are read"),
    gettext_noop("the subagents of this session said too much to be read after it"),
    gettext_noop("the thread's files continue one another in a circle: cut open"),
)
OF_VALUES = (
    gettext_noop("the file before it, of rollout {rollout}, is missing: import it, too"),
    gettext_noop("{n} entries record no prompt: {kinds}"),
    gettext_noop("it is longer than {n} MB"),
    gettext_noop("its current message {message} is missing: the last branch counts as current"),
    gettext_noop("{message} follows a message that is missing: put behind the one before it"),
    gettext_noop("the thread continues in {file}: it is read with that file"),
    gettext_noop("{n} prompts are only in a compaction of {file}, without their answers"),
    gettext_noop("{kind} where a value belongs"),
    gettext_noop("{kind} where an object belongs"),
    gettext_noop("the session is longer than {n} MB"),
    gettext_noop("the message is longer than {n} MB"),
    gettext_noop("the text of the message is in fields that are not known: {names}"),
    gettext_noop("{conversation}: a conversation without messages"),
    gettext_noop("{conversation}: no message to store"),
    gettext_noop("{conversation}: is here already, with its answers"),
    gettext_noop("{conversation}: left out: {reason}"),
    gettext_noop("{file} next to it was not read: {reason}"),
    gettext_noop("{file}.jsonl next to it holds the chat with what followed: that one is read"),
    gettext_noop("{file} next to it holds the session with what followed: that one is read"),
    gettext_noop("unknown role {role}"),
    gettext_noop("more than {n} sessions in one file: divide it"),
    gettext_noop("the last line is cut off or {reason}"),
    gettext_noop("there is no {file}"),
    gettext_noop("a line of type {kind} without message content"),
    gettext_noop("{n} lines of messages have no content"),
    gettext_noop("{name} says nothing here"),
    gettext_noop("the day of {time} is not certain, so the time is left out"),
    gettext_noop("{n} sessions have no events in it: OpenClaw keeps those in archives of their own"),
    gettext_noop("what follows the first {n} MB of a session is not read"),
    gettext_noop("{session}: {n} of {total} events could not be read"),
    gettext_noop("{n} chats keep their text in blobs of Cursor's own, which cannot be read"),
    gettext_noop("{n} sessions still have their transcripts in projects: their prompts are read from there"),
    gettext_noop("the database holds chats of {n} users: all of them were read"),
    gettext_noop("the archive is damaged after file {n}, the rest is missing: {reason}"),
    gettext_noop("{file} is a damaged archive, what is missing was passed over: {reason}"),
    gettext_noop("{file} was passed over: its name leads out of the archive"),
    gettext_noop("{file} was passed over: it lies {n} archives deep. Unpack it first."),
    gettext_noop("{file} was passed over: not a regular file"),
    gettext_noop("{file} was passed over: {reason}"),
    gettext_noop(
        "{conversation}: {n} messages that are archived are not in this file (any more); the archive keeps them"
    ),
)
_VALUE = re.compile(r"\\\{(\w+)\\\}")
_COUNT, _TEXT = r"[\d,]+", ".+"


def _pattern_of(sentence: str) -> re.Pattern[str]:
    """Return the pattern of a reason with its values by name: `n` and `total` are counts."""
    values = _VALUE.sub(
        lambda value: f"(?P<{value[1]}>{_COUNT if value[1] in ('n', 'total') else _TEXT})", re.escape(sentence)
    )
    return re.compile(rf"\A{values}\Z", re.DOTALL)


_PATTERNS = [(_pattern_of(sentence), sentence) for sentence in OF_VALUES]


def translated(reason: str) -> str:
    """Return a reason in the language of the page; a very long one, or one that no importer writes, as it is."""
    if reason in WITHOUT_VALUES:
        return gettext(reason)
    if len(reason) > MAX_REASON_CHARS:
        return reason
    for pattern, sentence in _PATTERNS:
        if match := pattern.match(reason):
            values = match.groupdict()
            if "reason" in values:
                values["reason"] = translated(values["reason"])
            return gettext(sentence).format(**values)
    return reason
