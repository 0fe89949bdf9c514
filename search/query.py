"""A checked search query: text, mode, scope, filters, page size."""

import unicodedata
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from django.utils import timezone

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.core.errors import InvalidInput
from convmemory.core.text import storable
from search.query_text import QueryText, parse_query
from search.ranking.times.reading import TimeReading, read_time
from search.sources import Kind

Mode = Literal["hybrid", "semantic", "full_text"]
MODES: tuple[str, ...] = get_args(Mode)
SCOPES = ("user", "assistant", "thinking", "tool")
DEFAULT_SCOPE = frozenset({"user", "assistant"})
MIN_QUERY_CHARS, MAX_QUERY_CHARS, MAX_LIMIT = 2, 10_000, 50
# Of a longer query, such as a pasted stack trace, the rarest words are searched for, in this many characters.
SEARCHED_CHARS = 500


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """The documents whose sections alone are searched; without values, all.

    They are one document, or those attached to a conversation, or `among` some. The second half of a page begins with
    further passages of the sections in its first half.
    """

    document_id: int | None = None
    conversation_id: int | None = None
    among: frozenset[int] | None = None

    @property
    def named(self) -> dict[str, int]:
        """Return the object that decides whose archive is searched, under the name of its id; none is empty."""
        if self.conversation_id is not None:
            return {"conversation_id": self.conversation_id}
        return {} if self.document_id is None else {"document_id": self.document_id}


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked query: plain words, unless it `has_operators`, as typed into a search box.

    `by_distance` ranks by cosine distance alone. A time named in the text is relative to `today`, unless the query
    `is_timeless`. With a `document_scope` it finds sections alone, of those documents. `may_rerank` is false if the
    order does not matter: no reranker is called. Without `compares_later` no hit says which later turn decides
    otherwise, without `shows_calls` none shows a call of a tool; if it `tells`, hits have the sentences that tell most.
    Raises: InvalidInput for an invalid query.
    """

    text: str
    limit: int = 20
    mode: str = "hybrid"
    scope: frozenset[str] = DEFAULT_SCOPE
    filters: Filters = EVERYTHING
    min_chars: int = MIN_QUERY_CHARS
    has_operators: bool = False
    by_distance: bool = False
    is_timeless: bool = False
    today: date | None = None
    document_scope: DocumentScope | None = None
    may_rerank: bool = True
    compares_later: bool = True
    shows_calls: bool = True
    tells: bool = False

    def __post_init__(self) -> None:
        if is_too_short(self.text, self.min_chars) or len(self.text) > MAX_QUERY_CHARS:
            raise InvalidInput(
                f"A query has {self.min_chars} to {MAX_QUERY_CHARS:,} characters; this one has {len(self.text):,}."
            )
        if not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidInput(f"limit={self.limit} is out of range: use 1 to {MAX_LIMIT}.")
        if self.mode not in MODES:
            raise InvalidInput(f"There is no mode {self.mode!r}: use one of {', '.join(MODES)}.")
        if unknown := self.scope - set(SCOPES):
            raise InvalidInput(f"There is no scope {', '.join(sorted(unknown))!r}: use any of {', '.join(SCOPES)}.")

    @property
    def parsed(self) -> QueryText:
        """Return the text without its operators, and the operators."""
        text = unicodedata.normalize("NFC", storable(self.text))
        return parse_query(text) if self.has_operators else QueryText(text)

    @property
    def time(self) -> TimeReading | None:
        """Return the time that the text names, if any."""
        if self.is_timeless or self.by_distance:
            return None
        return read_time(self.parsed.text, self.today or timezone.localdate())

    @property
    def identity(self) -> dict[str, Any]:
        """Return the values that a cursor is valid for."""
        return {
            "text": self.text,
            "mode": self.mode,
            "scope": sorted(self.scope),
            "filters": repr(self.filters),
            "operators": self.has_operators,
            "by_distance": self.by_distance,
            "is_timeless": self.is_timeless,
        }


def is_too_short(text: str, least: int = MIN_QUERY_CHARS) -> bool:
    """Return whether a query has fewer than `least` characters; one CJK character or emoji is a word and suffices."""
    plain = text.strip()
    return len(plain) < least and not (plain and unicodedata.category(plain[0]) in ("Lo", "So"))


def kinds_in(scope: frozenset[str]) -> list[Kind]:
    """Return the kinds of passages that rank items in a scope. A tool call belongs to the assistant and to the tool.

    Documents are searched along with answers.
    """
    kinds: list[Kind] = [kind for kind in get_args(Kind) if kind in scope]
    if scope & {"assistant", "tool"}:
        kinds.append("call")
    if "assistant" in scope:
        kinds.append("document")
    return kinds


def shown_kinds_in(scope: frozenset[str], *, shows_calls: bool = True) -> list[Kind]:
    """Return the kinds of passages that are shown: the searched ones, and of messages without a turn.

    These belong to neither user nor assistant, so that both must be in scope. Without `shows_calls`, calls of tools
    help to find a turn and are not shown.
    """
    kinds = kinds_in(scope)
    if scope >= {"user", "assistant"}:
        kinds += ["system", "outside"]
    return [kind for kind in kinds if shows_calls or kind != "call"]


def parse_scope(text: str) -> frozenset[str]:
    """Return the scopes in a comma-separated list; an empty list means user and assistant."""
    return frozenset(name.strip() for name in text.split(",") if name.strip()) or DEFAULT_SCOPE
