"""Chooses the sentences of a turn that answer a query best: of its best passages, and of its conclusion.

Pure. Of the former a search knows how near they are to the query, of the latter only which of its words they contain.
A sentence with the form of what the question asks for, a number, a path, a command or a name, counts more.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from convmemory.conversations.messages.outcomes import is_announcement
from convmemory.core.text import one_line
from search.results.matching import QueryStems

TOLD_CHARS, LEAD_CHARS, SAME_CHARS = 130, 25, 40
# Of 161 questions of agents over transcripts, with the deciding fact in the answer of a search: 138 with these values,
# 134 without FORM, 134 with .15 for CONCLUDES. Of 120 others 110 with .6 for TOLD_SHARE, 108 with .8.
FORM, CONCLUDES = 0.25, 0.35
LESS = {"call": 0.15, "thinking": 0.1, "user": 0.2}  # a question has the words of the query, and tells less
ASKED_CHARS = 500  # of a query: a longer one is a pasted text
UNCOMPARED = 0.25  # in place of the cosine of a sentence of the conclusion that is none of the passages
TOLD_SHARE = 0.6  # of the score of the best sentence
AFTER_COLON_CHARS = 60

_SENTENCE = re.compile(r"(?<=[.!?\u061f])\s+(?![a-z])|(?<=[\u3002\uff01\uff1f])")
_FENCE = re.compile(r"```[^\n]*\n?|[{}]")
_LINK_TARGET = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")
_BOLD = re.compile(r"(?<!/)\*\*(?!/)")
_NEXT_ITEM = re.compile(r" (?:\d{1,2}\.|[-*#>]{1,4})\Z")
_NO_LETTERS = re.compile(r"[\W_]+")
_ASKS_NUMBER = (
    r"\bhow (?:many|much|long|old|large|big|often|high|fast)\b|\b(?:versions?|ports?|number|size|limit|colou?r|when"
    r"|wann|wie (?:viele?|lange?|oft|hoch)|combien|quand|cu[a\u00e1]nt[oa]s?|cu[a\u00e1]ndo)\b"
    r"|\u30d0\u30fc\u30b8\u30e7\u30f3|\u3044\u304f\u3064|\u7248\u672c|\u591a\u5c11"
)
_ASKS_PLACE = (
    r"\b(?:where|path|files?|folder|directory|location|script|link|url|wo|datei|pfad|ordner|o\u00f9|fichier|d\u00f3nde"
    r"|archivo)\b|\u3069\u3053|\u54ea\u91cc"
)
_ASKS_COMMAND = (
    r"\b(?:commands?|flag|option|befehl|commande|comando)\b|\u30b3\u30de\u30f3\u30c9|\u547d\u4ee4"
    r"|\bhow (?:do|can|did|to)\b.{0,60}\b(?:run|start|install|build|test|push|deploy|reset|undo|get)\b"
)
_ASKS_FIX = r"\b(?:fix(?:ed)?|solved?|resolved?|g[eo]t (?:past|rid)|how (?:did|was|were)|what did we do)\b"
_SAYS_FIX = r"(?i:\b(?:fix(?:ed|es)?|solved|resolved|changed|replaced|removed|added|moved|set|use[ds]?|instead|now)\b)"
_ASKS_NAME = r"\b(?:which|name|called|who|welche[mnrs]?|wer|hei\u00dft|quel(?:le)?s?|qui|cu\u00e1l|qui\u00e9n)\b"
_NAMES_FILE = r"\b[\w-]{1,80}\.(?:[jt]sx?|py|go|rs|mdx?|json|ya?ml|toml|sh|sql|txt|html|css)\b"
_STARTS_PROGRAM = r"\b(?:npm|npx|git|bun|uv|pip|cargo|go|make|mise|docker|gh|curl|python3?|pytest) \S"
_FORMS = [
    (re.compile(asks, re.IGNORECASE), re.compile(form))
    for asks, form in (
        (_ASKS_NUMBER, r"\d"),
        (_ASKS_PLACE, rf"[\w.-]{{1,80}}/[\w./-]|`[^`\n]|{_NAMES_FILE}"),
        (_ASKS_COMMAND, rf"`[^`\n]|\$ \S|--[a-z]|{_STARTS_PROGRAM}"),
        (_ASKS_NAME, r"`[^`\n]|[a-z][A-Z]|\w_\w|\w\(\)|https?://"),
        (_ASKS_FIX, _SAYS_FIX),
    )
]
"""What a question asks for, and the form of its answer; the first that it asks for counts."""


class Judged(NamedTuple):
    """A passage as a search judged it: `score` is its cosine and the weighed share of the query's words.

    `after` is the beginning of what follows it in its message.
    """

    text: str
    kind: str
    score: float
    after: str = ""


class Telling(NamedTuple):
    """A sentence, cut around the query's words, and its score."""

    text: str
    score: float


def telling(passages: Iterable[Judged], conclusion: str, words: QueryStems, query: str, weight: float) -> list[Telling]:
    """Return the sentences that tell most, best first; one that announces what is to be done only if there is no other.

    `weight` is that of the share of the query's words.
    """
    form = next((form for asks, form in _FORMS if asks.search(query[:ASKED_CHARS])), None)
    scored: dict[str, Telling] = {}
    for text, nearness in _sentences(passages, conclusion, words, weight):
        score = nearness + FORM * bool(form and form.search(text))
        key = letters(text[: SAME_CHARS * 2])[:SAME_CHARS]
        if key and (key not in scored or scored[key].score < score):
            scored[key] = Telling(text, score)
    ranked = sorted(scored.values(), key=lambda sentence: -sentence.score)
    chosen = [sentence for sentence in ranked if not is_announcement(sentence.text)] or ranked[:1]
    return [
        Telling(_cut(sentence.text, words, form), sentence.score)
        for sentence in chosen
        if sentence.score >= TOLD_SHARE * chosen[0].score
    ]


def letters(text: str) -> str:
    """Return the letters and digits of a text, which are the same with and without markup."""
    return _NO_LETTERS.sub("", text)


def plain(text: str) -> str:
    """Return a text in one line, without the targets of its links, marks of bold, and marks of items at its ends."""
    text = _BOLD.sub("", _LINK_TARGET.sub(r"\1", text)).lstrip("*#->\n ")
    return _NEXT_ITEM.sub("", " ".join(text.split()))


def _sentences(
    passages: Iterable[Judged], conclusion: str, words: QueryStems, weight: float
) -> Iterator[tuple[str, float]]:
    """Yield the passages and the sentences of the conclusion, with the score that each has without its form."""
    conclusion = plain(conclusion)
    concluded = letters(conclusion)
    for passage in passages:
        text = plain(passage.text)
        concludes = letters(text)[:SAME_CHARS] in concluded
        if passage.kind == "assistant" and text.endswith(":"):
            text = _with_what_it_names(text, passage.after)
        yield text, passage.score + CONCLUDES * concludes - LESS.get(passage.kind, 0.0)
    for number, sentence in enumerate(filter(None, _SENTENCE.split(conclusion))):
        share = words.share_of(words.held_in(sentence))
        yield sentence, UNCOMPARED + CONCLUDES + weight * share - 0.02 * number


def _with_what_it_names(text: str, after: str) -> str:
    """Return the end of a sentence that ends with a colon, and what follows, such as the command that it names."""
    named = " ".join(_FENCE.sub(" ", after).split())[:AFTER_COLON_CHARS]
    room = TOLD_CHARS - len(named) - 2
    return f"{text if len(text) <= room else f'…{text[-room:]}'} {named}".rstrip()


def _cut(text: str, words: QueryStems, form: re.Pattern[str] | None) -> str:
    """Return a long text from shortly before the query's words, else before what has the form of the answer."""
    if len(text) <= TOLD_CHARS:
        return text
    matches = words.places_in(text)
    match = form.search(text) if form and not matches else None
    anchor = matches[0][0] if matches else match.start() if match else 0
    at = max(0, min(anchor - LEAD_CHARS, len(text) - TOLD_CHARS))
    at = text.find(" ", at) + 1 if at else 0
    return ("…" if at else "") + one_line(text[at:], TOLD_CHARS)
