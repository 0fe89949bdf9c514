"""The contents of the search box: the query, its filters and its order, as parameters of the page's address.

Filters can also be typed into the query: `agent:codex after:2026-05`. Such tokens become filters, and several of an
agent or a project mean any of them. `title:`, `is:`, `tag:`, `has:`, `model:`, `file:` and `space:` stay in the box.
"""

import calendar
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, QueryDict

from convmemory.conversations.filters import EXACT, MOMENTS
from convmemory.conversations.names import HAS
from convmemory.core.numbers import parse_number

SPOKEN = ("user", "assistant")
SHOWN_KINDS = ("turn", "section")  # kinds of hits; "" for both
ORDERS = ("date",)  # "" for the best first
TIMES = ("any",)  # "any": words of time are plain words; "": they favour or restrict a time
KEPT = ("title", "is", "tag", "has", "model", "space", "file")  # tokens without a field of the form
MAX_NAMES = 20  # of one filter; searching looks up each
MAX_TYPED_CHARS = 2_000  # longer texts are searched for no tokens
_TOKEN = re.compile(
    r"(?<!\S)(?P<name>" + "|".join((*EXACT, *MOMENTS, *KEPT, "in", "role", "sort", "by")) + r"):"
    r'(?:"(?P<quoted>[^"]{1,300})"|(?P<plain>[^\s"]\S{0,299}))(?!\S)',
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?<!\S)([A-Za-z]{3,20}):(?=[^\s/])")
NEAR_NAME = 0.75
_PERIOD = re.compile(r"(\d{4})(?:-(\d{1,2}))?", re.ASCII)
_SCOPES = {
    "questions": "user",
    "question": "user",
    "user": "user",
    "answers": "assistant",
    "answer": "assistant",
    "assistant": "assistant",
    "thinking": "thinking",
    "tools": "tool",
    "tool": "tool",
}
_STATES = {"starred": "starred", "pinned": "pinned", "archived": ""}
_KINDS = {"conversations": "turn", "documents": "section"}
_MODES = {"words": "full_text", "meaning": "semantic"}
_ORDERS = {"date": "date", "newest": "date", "relevance": "", "best": ""}


@dataclass(frozen=True, slots=True)
class SearchBox:
    """The values of the search form above the list. `typed` names the filters that were typed as tokens.

    With `nearest`, the nearest results are shown even if none is relevant. `space` is the number of the only space that
    is searched, "mine" for the person's own archive alone. `tokens` are the `KEPT` ones, by name.
    """

    q: str = ""
    mode: str = "hybrid"
    scope: tuple[str, ...] = SPOKEN
    agent: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    after: str = ""
    before: str = ""
    archived: bool = False
    kind: str = ""
    sort: str = ""
    nearest: bool = False
    when: str = ""
    space: str = ""
    typed: frozenset[str] = frozenset()
    tokens: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, request: HttpRequest, *, is_typing: bool = False) -> "SearchBox":
        """Return the box of a request's address; with `is_typing`, the token at the very end is incomplete."""
        return cls.read(request.GET, is_typing=is_typing)

    @classmethod
    def read(cls, query: QueryDict, *, is_typing: bool = False) -> "SearchBox":
        """Return the box of the parameters of an address."""
        plain: dict[str, Any] = {name: query.get(name, "").strip() for name in MOMENTS}
        plain |= {name: _names(query.getlist(name)) for name in EXACT}
        scope = tuple(name for value in query.getlist("scope") for name in value.split(",") if name)
        box = cls(
            q=query.get("q", "").strip(),
            mode=query.get("mode") or "hybrid",
            scope=scope or SPOKEN,
            archived=query.get("archived") in ("1", "true", "on"),
            kind=query.get("kind", "") if query.get("kind", "") in SHOWN_KINDS else "",
            sort=query.get("sort", "") if query.get("sort", "") in ORDERS else "",
            nearest=query.get("nearest") == "1",
            when=query.get("when", "") if query.get("when", "") in TIMES else "",
            space=space if (space := query.get("space", "")) == "mine" or parse_number(space) else "",
            **plain,
        )
        return box.with_tokens(query.get("q", ""), is_typing=is_typing)

    def with_tokens(self, text: str, *, is_typing: bool = False) -> "SearchBox":
        """Return the box with the tokens in `text` as filters, and the rest of it as the query."""
        if len(text) > MAX_TYPED_CHARS:
            return self
        values: dict[str, Any] = {}
        chosen = {name: getattr(self, name) for name in EXACT}

        def take(match: re.Match[str]) -> str:
            if is_typing and match.end() == len(text):
                return ""
            read = _READERS[match["name"].lower()](match["quoted"] or match["plain"], chosen | values)
            if read is None:
                return match[0]
            values.update(read)
            return ""

        rest = " ".join(_TOKEN.sub(take, text).split()) if _TOKEN.search(text) else self.q
        tokens = values.pop("tokens", ())
        return replace(self, q=rest, typed=frozenset(values), tokens=tokens, **values)

    @property
    def text(self) -> str:
        """Return what the box shows: the query with the tokens that stay in it."""
        written = (f'{name}:"{value}"' if " " in value else f"{name}:{value}" for name, value in self.tokens)
        return " ".join(filter(None, (self.q, *written)))

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Return the tokens that are conditions on a conversation."""
        return tuple((name, value) for name, value in self.tokens if name != "space")

    @property
    def space_named(self) -> str:
        """Return the name of the space that is typed as a token; "" without one."""
        return dict(self.tokens).get("space", "")

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that differ from the empty form, for an address."""
        values: dict[str, Any] = {"q": self.text, "mode": self.mode if self.mode != "hybrid" else ""}
        values["scope"] = ",".join(self.scope) if set(self.scope) != set(SPOKEN) else ""
        values |= {name: getattr(self, name) for name in (*EXACT, *MOMENTS)}
        values["archived"] = "1" if self.archived else ""
        values |= {"kind": self.kind, "sort": self.sort, "nearest": "1" if self.nearest else "", "when": self.when}
        values["space"] = self.space
        return {name: value for name, value in values.items() if value}

    @property
    def typed_fields(self) -> dict[str, str | list[str]]:
        """The filters typed as tokens, as values of the form's fields; a list for boxes to tick."""
        values = {name: getattr(self, name) for name in self.typed}
        return {name: _field(value) for name, value in sorted(values.items())}

    @property
    def query_string(self) -> str:
        return urlencode(self.parameters, doseq=True)

    @property
    def hidden_fields(self) -> list[tuple[str, str]]:
        """The parameters as the fields of a form that keeps them."""
        return parse_qsl(self.query_string)

    def without(self, *names: str) -> str:
        """Return the address's query without these parameters."""
        return urlencode({name: value for name, value in self.parameters.items() if name not in names}, doseq=True)

    def but(self, values: Mapping[str, Any]) -> "SearchBox":
        """Return the box with these values instead."""
        return replace(self, **values)

    @property
    def has_filters(self) -> bool:
        return bool(self.tokens or self.parameters.keys() - {"q", "sort", "nearest", "when"})


def empty_box(_: HttpRequest) -> dict[str, SearchBox]:
    """Return the box of every page whose view does not give its own: a context processor."""
    return {"box": SearchBox()}


def _field(value: Any) -> str | list[str]:
    if isinstance(value, bool):
        return "1" if value else ""
    return value if isinstance(value, str) else list(value)


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts if (name := text.strip())))[:MAX_NAMES]


Values = Mapping[str, Any]


def _name(name: str) -> Callable[[str, Values], dict[str, Any] | None]:
    return lambda text, values: {name: _names([*values[name], text])}


def _choice(name: str, choices: Mapping[str, str]) -> Callable[[str, Values], dict[str, Any] | None]:
    return lambda text, _: {name: choices[text.lower()]} if text.lower() in choices else None


def _places(text: str, values: Values) -> dict[str, Any] | None:
    """Read `in:questions`, `in:tools,thinking`, `in:documents`; several of them are combined."""
    names = text.lower().split(",")
    if all(name in _KINDS for name in names):
        return {"kind": _KINDS[names[0]] if len(names) == 1 else ""}
    if not all(name in _SCOPES for name in names):
        return None
    return {"scope": tuple(dict.fromkeys([*values.get("scope", ()), *(_SCOPES[name] for name in names)]))}


def _state(text: str, values: Values) -> dict[str, Any] | None:
    return {"archived": True} if text.lower() == "archived" else _kept("is", _STATES)(text, values)


def _kept(name: str, choices: Mapping[str, str] | None = None) -> Callable[[str, Values], dict[str, Any] | None]:
    def read(text: str, values: Values) -> dict[str, Any] | None:
        value = text.strip() if choices is None else choices.get(text.lower(), "")
        tokens = values.get("tokens", ())
        return {"tokens": (*tokens, (name, value))} if value and len(tokens) < MAX_NAMES else None

    return read


def _first_day(text: str, _: Values) -> dict[str, Any]:
    return {"after": _day_of(text, is_last=False)}


def _last_day(text: str, _: Values) -> dict[str, Any]:
    return {"before": _day_of(text, is_last=True)}


def _day_of(text: str, *, is_last: bool) -> str:
    """Return the first or the last day of `2026` or `2026-05`; any other text unchanged."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        return text
    year, month = int(match[1]), int(match[2] or (12 if is_last else 1))
    if not (1 <= month <= 12 and year):
        return text
    return date(year, month, calendar.monthrange(year, month)[1] if is_last else 1).isoformat()


_READERS: dict[str, Callable[[str, Values], dict[str, Any] | None]] = {
    **{name: _name(name) for name in EXACT},
    "after": _first_day,
    "before": _last_day,
    "in": _places,
    "role": _places,
    "is": _state,
    "has": _kept("has", dict(zip(HAS, HAS, strict=True))),
    **{name: _kept(name) for name in ("title", "tag", "model", "space", "file")},
    "sort": _choice("sort", _ORDERS),
    "by": _choice("mode", _MODES),
}


CHOICES: Mapping[str, Iterable[str]] = {
    "has": HAS,
    "is": _STATES,
    "role": ("user", "assistant", "tool", "thinking"),
    "in": ("questions", "answers", "thinking", "tools", "documents", "conversations"),
    "sort": _ORDERS,
    "by": _MODES,
}


def impossible_filters(text: str) -> list[tuple[str, str]]:
    """Return the filters in a query whose value is none that they take, each with the values that it takes.

    `text` is the query without its tokens; such a token stays text.
    """
    names = dict.fromkeys(match["name"].lower() for match in _TOKEN.finditer(text[:MAX_TYPED_CHARS]))
    return [(name, ", ".join(CHOICES[name])) for name in names if name in CHOICES]


def misspelt_filters(text: str) -> list[tuple[str, str]]:
    """Return the names before a colon in a query that are no filters and resemble one, each with the one it resembles.

    Such a token stays text: it is searched for.
    """
    if len(text) > MAX_TYPED_CHARS:
        return []
    names = dict.fromkeys(match[1].lower() for match in _NAMED.finditer(text))
    near = {name: get_close_matches(name, _READERS, n=1, cutoff=NEAR_NAME) for name in names if name not in _READERS}
    return [(name, similar[0]) for name, similar in near.items() if similar]
