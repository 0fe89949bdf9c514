"""Finds conversations and documents whose titles contain the words of a query; results list them first.

A title counts if it contains every word of the query but stop words; for documents also the name of the file. Source:
docs/adr/0084-search-titles.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from convmemory.accounts.spaces import SpaceName
from convmemory.conversations.filters import Filters
from convmemory.core.sql import PendingQuery, load_sql
from search.adapters.documents import KIND as DOCUMENTS
from search.fields import quoted_lexeme
from search.retrieval.corpus import QueryWord
from search.retrieval.filters import source_conditions

MAX_TITLES = 3
# Stemmed words of a query beyond which no title is looked for: a pasted text is no title.
MAX_WORDS = 20

TitleKind = Literal["conversation", "document"]


@dataclass(frozen=True, slots=True)
class TitleHit:
    """A conversation or a document whose title contains the query; `items` counts its turns or sections.

    `space` is None in the archive of the caller.
    """

    kind: TitleKind
    id: int
    title: str
    agent: str
    project: str
    created_at: datetime
    updated_at: datetime
    items: int
    space: SpaceName | None = None

    @property
    def url(self) -> str:
        return f"/{'documents' if self.kind == DOCUMENTS else 'conversations'}/{self.id}"


def find_titles(owner_id: int, words: Sequence[QueryWord], filters: Filters) -> tuple[TitleHit, ...]:
    """Return the owner's sources with matching titles, those that match most closely first. At most one query."""
    lexemes = list(dict.fromkeys(word.lexeme for word in words if not word.is_stop_word))
    is_within_one = filters.conversation_id is not None or filters.turns is not None
    if not lexemes or len(lexemes) > MAX_WORDS or is_within_one:
        return ()
    conditions, parameters = source_conditions(filters, "e")
    for name, how, value in filters.chosen(">=", "<="):
        # It counts if any of its time lies within the limits.
        column = "updated_at" if how.operator == ">=" else "created_at"
        conditions.append(f"e.{column} {how.operator} %(filter_{name})s")
        parameters[f"filter_{name}"] = value
    statement = load_sql("search", "title_matches").replace("{filters}", " AND ".join(["TRUE", *conditions]))
    parameters |= {"owner": owner_id, "words": " & ".join(map(quoted_lexeme, lexemes)), "limit": MAX_TITLES}
    return tuple(TitleHit(*row) for row in PendingQuery(statement, parameters, keeps_plan=True).rows())
