"""The filters of searches and lists, declared once: surfaces take their parameters from here, and SQL its columns.

A new filter is a field of `Filters` with a `Filter`: then the API and the commands offer it, and lists
(`conditions_on_conversations`) and searches (`search/retrieval/filters.py`) compare its column. The search box needs a
field and a chip for it, and a tool an argument if models are to use it. Pages choose several agents or projects; the
other surfaces take one.
"""

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, get_type_hints

from django.db.models import Exists, OuterRef, Q
from ninja import Schema
from pydantic import Field, create_model

from convmemory.conversations.models import Message
from convmemory.core.commands import moment
from convmemory.core.errors import InvalidInput
from convmemory.push.repositories import Repository

FILTER = "filter"  # the key of a field's metadata


@dataclass(frozen=True, slots=True)
class Filter:
    """How a filter is compared: with a column of the conversation, and with one of the index.

    `indexed` is a column of the index's sources; of its items for moments. An empty operator is compared in code.
    Where `column` is empty, `instead` (`indexed_instead`) is compared.
    """

    operator: Literal["=", ">=", "<=", ""]
    column: str
    indexed: str
    meaning: str
    instead: str = ""
    indexed_instead: str = ""

    @property
    def lookup(self) -> str:
        """Django's name for the comparison."""
        return self.column + {"=": "__in", ">=": "__gte", "<=": "__lte"}.get(self.operator, "")


def _by(
    operator: Literal["=", ">=", "<=", ""], column: str, indexed: str, meaning: str, *instead: str
) -> dict[str, Filter]:
    return {FILTER: Filter(operator, column, indexed, meaning, *instead)}


Names = str | tuple[str, ...]
"""One name, or any of several; "" for all."""


def each_name(names: Names) -> tuple[str, ...]:
    """Return the names one by one."""
    if isinstance(names, str):
        return (names,) if names else ()
    return names


@dataclass(frozen=True, slots=True)
class Filters:
    """Which conversations count, and for one conversation which turns. None and "" mean any.

    A conversation counts if any of its messages is of the time between `after` and `before`, as in the picture of it.
    `except_turns` (conversation, turn number) and `except_conversations` are excluded. Only searches use `kinds`, the
    kinds of sources (all if empty), and `documents`, the only documents that count. `repository` is that of the folder
    `project`, if a client says so. `tokens` are conditions typed into the search box, by name: `with_known_names`
    replaces them by the `conversations` that meet them. `has_full_names` says that it completed the names.
    """

    agent: Names = field(
        default="", metadata=_by("=", "agent", "agent", "only those that this program wrote", "source", "origin")
    )
    project: Names = field(default="", metadata=_by("=", "project", "project", "only those of this project"))
    source: Names = field(default="", metadata=_by("=", "source", "origin", "only those of this source"))
    after: datetime | None = field(default=None, metadata=_by(">=", "updated_at", "created_at", "only since this time"))
    before: datetime | None = field(
        default=None, metadata=_by("<=", "created_at", "created_at", "only until this time")
    )
    archived: bool | None = field(
        default=False, metadata=_by("", "", "", "archived conversations instead of the others")
    )
    conversation_id: int | None = None
    turns: tuple[int, int] | None = None
    except_turns: tuple[tuple[int, int], ...] = ()
    except_conversations: tuple[int, ...] = ()
    kinds: frozenset[str] = frozenset()
    documents: frozenset[int] | None = None
    tokens: tuple[tuple[str, str], ...] = ()
    conversations: frozenset[int] | None = None
    repository: Repository | None = None
    file: str = ""
    has_full_names: bool = False

    def __post_init__(self) -> None:
        if self.after and self.before and self.after > self.before:
            raise InvalidInput("`after` is later than `before`: swap the two dates.")

    def chosen(self, *operators: str) -> list[tuple[str, Filter, Any]]:
        """Return the filters with these operators that have a value: name, comparison, value; for "=" a list."""
        declared = ((name, how, getattr(self, name)) for name, how in DECLARED.items() if how.operator in operators)
        values = (
            (name, how, list(each_name(value)) if how.operator == "=" else value) for name, how, value in declared
        )
        return [chosen for chosen in values if chosen[2]]


EVERYTHING = Filters()
DECLARED: dict[str, Filter] = {each.name: each.metadata[FILTER] for each in fields(Filters) if each.metadata}
"""The filters that people and programs can set, by name."""
EXACT = tuple(name for name, how in DECLARED.items() if how.operator == "=")
MOMENTS = tuple(name for name, how in DECLARED.items() if how.operator in (">=", "<="))


def filters_of(values: Mapping[str, Any], **further: Any) -> Filters:
    """Return the filters among the values of a request, a form, a command or a tool. Raises: InvalidInput."""
    return Filters(**{name: values[name] for name in DECLARED if name in values}, **further)


def conditions_on_conversations(filters: Filters) -> Q:
    """Return Django's conditions on the conversation itself."""
    conditions = Q()
    for _, how, value in filters.chosen("=", ">=", "<="):
        condition = Q(**{how.lookup: value})
        conditions &= condition | Q(**{how.column: "", f"{how.instead}__in": value}) if how.instead else condition
    if filters.after and filters.before:
        # Messages are read only of conversations that begin before that time and end behind it.
        of_conversation = Message.objects.filter(archive_id=OuterRef("archive_id"), conversation_id=OuterRef("pk"))
        of_time = of_conversation.filter(created_at__gte=filters.after, created_at__lte=filters.before)
        conditions &= Q(created_at__gte=filters.after) | Q(updated_at__lte=filters.before) | Q(Exists(of_time))
    if filters.archived is not None:
        conditions &= Q(archived_at__isnull=not filters.archived)
    if filters.conversation_id is not None:
        conditions &= Q(pk=filters.conversation_id)
    if filters.conversations is not None:
        conditions &= Q(pk__in=filters.conversations)
    if filters.except_conversations:
        conditions &= ~Q(pk__in=filters.except_conversations)
    return conditions


_DEFAULTS = {each.name: each.default for each in fields(Filters)}
# None, for both, is not for requests, and neither are several names.
_TYPES = get_type_hints(Filters) | {"archived": bool, **dict.fromkeys(("agent", "project", "source"), str)}
_PARAMETERS: dict[str, Any] = {
    name: (_TYPES[name], Field(_DEFAULTS[name], description=how.meaning)) for name, how in DECLARED.items()
}


class FilterSchema(create_model("FilterParameters", __base__=Schema, **_PARAMETERS)):  # type: ignore[misc]
    """The filters as parameters of a request."""

    def filters(self, **further: Any) -> Filters:
        """Raises: InvalidInput."""
        return filters_of(self.__dict__, **further)


FILTER_USAGE = " ".join(f"[--{name}]" for name in DECLARED)
"""The options of `add_filter_arguments` in the usages of a command."""


def add_filter_arguments(parser: ArgumentParser) -> None:
    """Add an option for each filter to a command; `filters_of` reads them."""
    for name, how in DECLARED.items():
        if name in EXACT:
            parser.add_argument(f"--{name}", default="", help=how.meaning)
        elif name in MOMENTS:
            parser.add_argument(f"--{name}", type=moment, help=f"{how.meaning} (2026-01-31)")
        else:
            parser.add_argument(f"--{name}", action="store_true", help=how.meaning)
