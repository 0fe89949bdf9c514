"""Passages as a list shows them: on one line, with the query's words marked. Pure.

Markdown loses its markup, tables their bars, terminal output its colour codes. Removing text moves no mark: marks are
character offsets in the passage, and the text is split at marks before anything is removed.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from convmemory.core.folding import FoldedText, folded, joined_words
from convmemory.core.text import Span
from search.languages import CHARACTERS, COMMON_IN, ENGLISH
from search.query_text import parse_query

# Letters of scripts with spaces between words; search splits words at underscores too.
_LETTER = rf"[^\W_{CHARACTERS}]"
_OPENS, _CLOSES = re.compile(rf"\A{_LETTER}"), re.compile(rf"{_LETTER}\Z")
_WORDS = re.compile(r"\w{3,}")
_MARKUP = re.compile(
    r"(?P<colour>\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}\x07)"
    r"|(?P<rule>^[ \t]*+\|?[ \t]*+:?-{3}[-:| \t]*+$)"
    r"|(?P<fence>^[ \t]*+(?:```|~~~)\w*+$)"
    r"|(?P<start>^[ \t]*+(?:[-*+>]|#{1,6}|\d{1,3}[.)])[ \t]+)"
    r"|(?P<edge>^[ \t]*+\||\|[ \t]*+$)"
    r"|(?P<code>(?P<ticks>`++)[^`\n\x1b]++(?P=ticks)(?!`))"
    r"|(?P<bar>[ \t]\|[ \t])"
    r"|(?P<power>(?<=[\d)])\*\*(?=[0-9A-Za-z])|(?<=[A-Za-z_])\*\*(?=\d))"
    r"|(?P<parameter>(?:(?<=\()|(?<=, ))\*\*(?=[A-Za-z_]\w*+\)))"
    r"|(?P<stars>(?<![\w*/\\])\*(?=[\w\"'(\[])[^*\n]{0,300}[^\s*/]\*(?![\w*/.]))"
    r"|(?P<emphasis>`++|(?<!/)\*\*(?!/)|(?<!\S)#{2,6}(?=\s))",
    re.MULTILINE,
)
_PUT_IN = {"bar": " · ", "head": " · ", "next": " · ", "name": " · "}
# A call of a tool is indexed as its name, and each parameter as its name, a colon and its text or its JSON.
_CALL_HEAD = re.compile(r"\A\S{1,100}+(?P<head> \w{1,40}+:)")
_CALL_MARKUP = re.compile(
    r"(?P<open>(?<=:)[\[{](?:[\[{ ]|\"\w{1,40}+\":)*+\"?)"
    r"|(?P<next>\"?[\]}]*+,(?=[ ]?[\"\[{])(?:[\[{ ]|\"\w{1,40}+\":)*+\"?)"
    r"|(?P<close>\"?[\]}]++(?=\s|\Z))"
    r"|(?P<name> (?:command|description|file_path|path|pattern|query|old_string|new_string|content|prompt|url|timeout"
    r"|limit|offset|output_mode|glob|workdir|yield_time_ms|max_output_tokens|justification|replace_all|subagent_type):)"
)
_TABLE_ROW = re.compile(r"^[ \t]*+\|", re.MULTILINE)
_OF_TABLES = frozenset({"edge", "bar"})
_OF_PROGRAMS = frozenset({"power", "parameter"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a passage; `is_match` if it is a word of the query."""

    text: str
    is_match: bool


def show_marks(text: str, marks: Sequence[Span], *, is_call: bool = False) -> tuple[Piece, ...]:
    """Return a passage in pieces for display, with those at `marks` (start, end; in order) marked.

    A call of a tool is shown as its name and its parameters, "Bash · pytest -q".
    """
    cuts, pieces, end = _cuts_of_call(text) if is_call else _cuts(text), [], 0
    for start, stop in marks:
        pieces += [Piece(_without(text, cuts, end, start), is_match=False)]
        pieces += [Piece(_without(text, cuts, start, stop), is_match=True)]
        end = stop
    pieces.append(Piece(_without(text, cuts, end, len(text)), is_match=False))
    return tuple(piece for piece in pieces if piece.text)


def without_markup(text: str) -> str:
    """Return the text without markup."""
    return _without(text, _cuts(text), 0, len(text))


def _cuts(text: str) -> list[tuple[int, int, str]]:
    """Return the markup of the text as (from, to, replacement). Bars are markup if lines begin with them.

    Code keeps all but its backticks. Two underscores are never markup: they begin names such as `__init__.py`.
    """
    kept = _OF_PROGRAMS if _TABLE_ROW.search(text) else _OF_PROGRAMS | _OF_TABLES
    cuts = []
    for match in _MARKUP.finditer(text):
        start, end = match.span()
        if match.lastgroup in ("code", "stars"):
            signs = len(match["ticks"] or "*")
            inner = _cuts(text[start + 1 : end - 1]) if match.lastgroup == "stars" else []
            within = [(start + 1 + at, start + 1 + to, put_in) for at, to, put_in in inner]
            cuts += [(start, start + signs, ""), *within, (end - signs, end, "")]
        elif match.lastgroup not in kept:
            cuts.append((start, end, _PUT_IN.get(match.lastgroup or "", "")))
    return cuts


def _cuts_of_call(text: str) -> list[tuple[int, int, str]]:
    """Return the names of parameters in the text of a call, and the signs of JSON in its values."""
    head = _CALL_HEAD.match(text)
    start = head.end() if head else 0
    is_json = text[start : start + 1] in ("[", "{")  # else signs of JSON are part of the value
    cuts = [
        (match.start(), match.end(), _PUT_IN.get(match.lastgroup or "", ""))
        for match in _CALL_MARKUP.finditer(text, start)
        if match.lastgroup == "name" or is_json
    ]
    return [(head.start("head"), start, _PUT_IN["head"]), *cuts] if head else cuts


def _without(text: str, cuts: Sequence[tuple[int, int, str]], start: int, stop: int) -> str:
    """Return `text[start:stop]` without the cuts; each replacement is put at the beginning of its cut."""
    kept, position = [], start
    within = (cut for cut in cuts if cut[1] > start and cut[0] < stop)
    for cut_start, cut_end, put_in in within:
        kept += [text[position : max(position, cut_start)], put_in if cut_start >= start else ""]
        position = max(position, min(cut_end, stop))
    return "".join([*kept, text[position:stop]])


def mark_words(text: str, query: str) -> tuple[Piece, ...]:
    """Return `text` in pieces, with words of the query marked, except very common words.

    If the query quotes phrases and the text contains one, only the phrases are marked.
    """
    phrases = parse_query(query).phrases
    plain = FoldedText.of(text)
    pattern = _whole(list(map(folded, phrases))) if phrases else None
    if pattern is None or not pattern.search(plain.text):
        words = set(_WORDS.findall(folded(query))) - COMMON_IN[ENGLISH]
        words |= {word for word, _ in joined_words(folded(query))}
        pattern = _whole(words) if words else None
    matches = pattern.finditer(plain.text) if pattern else ()
    places = [match.span() for match in matches]
    if pattern:
        places += [span for word, span in joined_words(plain.text) if pattern.fullmatch(word)]
    pieces, end = [], 0
    for start, stop in sorted(plain.span_of(*span) for span in places):
        if start >= end:
            pieces += [Piece(text[end:start], is_match=False), Piece(text[start:stop], is_match=True)]
            end = stop
    return tuple(piece for piece in (*pieces, Piece(text[end:], is_match=False)) if piece.text)


def _whole(texts: Collection[str]) -> re.Pattern[str]:
    """Return a pattern for any of `wanted`, the longest first, that matches only whole words."""
    patterns = (
        f"{f'(?<!{_LETTER})' if _OPENS.search(text) else ''}{re.escape(text)}"
        f"{f'(?!{_LETTER})' if _CLOSES.search(text) else ''}"
        for text in sorted(texts, key=len, reverse=True)
    )
    return re.compile("|".join(patterns))
