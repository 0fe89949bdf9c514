"""Titles of conversations and documents, made of foreign text. Pure.

A title is one line without Markdown, slash commands, greetings and modes of agents.
"""

import re
from collections.abc import Iterable

from convmemory.core.text import cut

READ_CHARS = 2_000  # of a text; what follows is never part of a title
SCRIPT_CHARS = 20_000  # of a script, whose commits are looked for
OPENING_CHARS = 60  # of what may precede the heading of a plan: "Implement the following plan:"
CANDIDATES = 5  # questions, of which the first that says something becomes the title

_FENCE = re.compile(r"(?m)^[ \t]{0,3}(?:```|~~~).*$")
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,500}\)")
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\([^)\n]{0,500}\)")
_LINE_MARKS = re.compile(r"(?m)^[ \t]{0,8}(?:#{1,6}[ \t]|>[ \t]?|[-*+][ \t]|\d{1,3}[.)][ \t])")
_EMPHASIS = re.compile(r"\*\*|`|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])")  # underscores are mostly those of names
_COMMAND = re.compile(r"/[a-z][\w:-]{0,40}(?=\s|$)")
_MODE = re.compile(
    r"[\[(<]?(?:plan|act|ask|agent|code|build|edit|chat|debug|architect) mode[\])>:,.-]{0,3}(?=\s|$)", re.IGNORECASE
)
_GREETING = re.compile(
    r"(?:hi|hey|hello|hallo|moin|servus|hola|salut|bonjour|ciao|good (?:morning|evening)|guten (?:tag|morgen|abend))"
    r"(?: (?:there|all|everyone|claude|chatgpt|gemini|codex|assistant))?(?:[,.!:;\u2013\u2014-]+|$|(?<=hi|ey)\s)\s*",
    re.IGNORECASE,
)
_OPENINGS = (_COMMAND, _MODE, _GREETING)
_SAYS_NOTHING = re.compile(
    r"hi|hey|hello|hallo|moin|servus|hola|salut|bonjour|ciao|there|thanks|danke|ok|okay|yes|no|y|n|ja|nein|test|testing"
    r"|ping|start|begin|continue|resume|weiter|next|go|on|please|bitte|untitled|unnamed"
    r"|plan|act|ask|agent|code|build|edit|chat|debug|architect|mode",
    re.IGNORECASE,
)
_PLAN = re.compile(rf"[^\n]{{0,{OPENING_CHARS}}}\n?\s{{0,20}}#{{1,3}}[ \t]+([^\n]{{1,300}})\n\s*\S")
_KIND_OF_PLAN = re.compile(r"(?:implementation )?(?:plan|task)(?: ?: ?| [\u2013\u2014-] )", re.IGNORECASE)
_COMMIT = re.compile(
    r"\b(?:git (?:-C \S{1,200} )?commit|gh pr create)(?=\s)[^\"']{0,300}?\s"
    r"(?:-[a-zA-Z]{0,5}m|--message|-t|--title)[ =]"
    r"(?:\"\$\(cat <<-?[ '\"]{0,2}\w{1,20}['\"]?\n[ \t]{0,40}([^\n]{1,300})"
    r"|\"((?:[^\"\\\n]|\\.){1,300})|'([^'\n]{1,300}))"
)
_NO_SUBJECT = re.compile(
    r"[$`{]|(?:(?:chore|build|ci)(?:\([^)]{0,40}\))?: ?)?"
    r"(?:release|bump|merge|revert|wip|initial commit|fixup!|squash!|v?\d)",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\(.)")
_REFERENCE = re.compile(r"(?<![\w&])#\d{1,7}\b")
MESSAGE_CHARS = 2_000  # of a commit's message, where the number of its issue is looked for
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")


def plain_title(text: str, max_chars: int) -> str:
    """Return the beginning of the text as one line, without Markdown and without what only opens a conversation."""
    text = _FENCE.sub("", text[:READ_CHARS])
    text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _EMPHASIS.sub("", _LINE_MARKS.sub("", text))
    line = " ".join(text.split())
    for opening in _OPENINGS:
        match = opening.match(line)
        if match:
            line = line[match.end() :].lstrip(" ,.!:;\u2013\u2014-")
            line = line[:1].upper() + line[1:]
    return cut(line, max_chars)


def says_something(title: str) -> bool:
    """Return whether the title has a word that is more than a greeting, a mode, an assent or a number."""
    line = plain_title(title, READ_CHARS)
    return any(_LETTER.search(word) and not _SAYS_NOTHING.fullmatch(word) for word in _WORD.findall(line))


def title_from(texts: Iterable[str], max_chars: int) -> str:
    """Return a title from the first of the texts that says something, else from the first one."""
    first = ""
    for text in texts:
        if says_something(text):
            return plain_title(text, max_chars)
        first = first or cut(" ".join(text[:READ_CHARS].split()), max_chars)
    return first


def plan_title(text: str, max_chars: int) -> str:
    """Return the heading of the plan that the text asks to carry out; "" without one."""
    match = _PLAN.match(text[:READ_CHARS].lstrip())
    if match is None:
        return ""
    heading = plain_title(match[1], READ_CHARS)
    heading = _KIND_OF_PLAN.sub("", heading, count=1) if _KIND_OF_PLAN.match(heading) else heading
    return cut(heading[:1].upper() + heading[1:], max_chars) if len(_WORD.findall(heading)) > 1 else ""


def commit_subject(script: str) -> str:
    """Return the subject of the first commit or pull request of a shell script, with the number that it refers to.

    Returns "" without one that names a change.
    """
    script = script[:SCRIPT_CHARS]
    for match in _COMMIT.finditer(script):
        subject = " ".join((match[1] or _ESCAPED.sub(r"\1", match[2] or "") or match[3]).split())
        if len(_WORD.findall(subject)) > 1 and not _NO_SUBJECT.match(subject):
            number = None if "#" in subject else _REFERENCE.search(script, match.end(), match.end() + MESSAGE_CHARS)
            return f"{subject} ({number[0]})" if number else subject
    return ""


def is_beginning(title: str, text: str) -> bool:
    """Return whether the title is the text, or its beginning with an ellipsis, in the same letters and digits."""
    is_cut = title.endswith(("\u2026", "..."))
    letters, *texts = (
        "".join(filter(str.isalnum, each)) for each in (title, text[:READ_CHARS], plain_title(text, READ_CHARS))
    )
    return any(each.startswith(letters) if is_cut else each == letters for each in texts)
