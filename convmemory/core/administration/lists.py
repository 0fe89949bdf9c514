"""Changelists of the admin that stay quick on tables of any size.

Rows are counted up to a bound; pages go from newer to older rows by
primary key; filters on owners and conversations are typed in, so that no list of thousands is rendered.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from convmemory.core.numbers import parse_number, space_number

PAGED_ROWS = 5_000  # beyond it the link "older" filters by key, which costs the same at any depth
UPTO = "upto"

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator


class BoundedPaginator(AnyPaginator):
    """Pages over the first rows. `is_more` says that there are more than it counted."""

    @cached_property
    def counted(self) -> int:
        """The number of rows, counted up to one more than the pages show."""
        return cast("QuerySet[Any]", self.object_list).order_by()[: PAGED_ROWS + 1].count()

    @property
    def is_more(self) -> bool:
        return self.counted > PAGED_ROWS

    @cached_property
    def count(self) -> int:
        return min(self.counted, PAGED_ROWS)


class BoundedChangeList(ChangeList):
    """A changelist that knows whether there are more rows than it counted, and how to reach older ones."""

    is_more = False
    older_url = ""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        paginator: Any = self.paginator
        self.is_more = paginator.is_more
        rows = list(self.result_list)
        self.result_list = rows
        if self.is_more and len(rows) == self.list_per_page and isinstance(rows[-1].pk, int):
            self.older_url = self.get_query_string({UPTO: rows[-1].pk - 1}, [PAGE_VAR])


class InputFilter(admin.SimpleListFilter):
    """A filter with a text field. Subclasses turn the value into a condition."""

    template = "admin/input_filter.html"
    hint = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("", "")]  # without a choice Django leaves the filter out

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        others = {
            name: value for name, value in changelist.params.items() if name not in (self.parameter_name, PAGE_VAR)
        }
        yield {
            "value": self.value() or "",
            "hint": self.hint,
            "others": others,
            "without": changelist.get_query_string(remove=[str(self.parameter_name)]),
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = (self.value() or "").strip()
        return queryset.filter(self.condition(value)) if value else queryset

    def condition(self, value: str) -> Q:
        raise NotImplementedError


class ExactFilter(InputFilter):
    """Selects exact matches of the value; `lookup` is set if the column and the parameter have different names."""

    lookup = ""

    def condition(self, value: str) -> Q:
        return Q(**{self.lookup or str(self.parameter_name): value})


class OwnerFilter(InputFilter):
    """A filter by the owner's user name."""

    title = "owner"
    parameter_name = "owner"
    hint = "user name"

    def condition(self, value: str) -> Q:
        return Q(archive_id=user_id_of(value))


class ConversationFilter(InputFilter):
    """A filter by the conversation's number."""

    title = "conversation"
    parameter_name = "conversation"
    hint = "number"

    def condition(self, value: str) -> Q:
        return Q(conversation_id=whole_number(value))


class UptoFilter(InputFilter):
    """A filter for rows up to a number: it reaches older rows without counting through all newer ones."""

    title = "number, up to"
    parameter_name = UPTO
    hint = "number"

    def condition(self, value: str) -> Q:
        return Q(pk__lte=whole_number(value))


def user_id_of(name: str) -> int:
    """Return the id of the user with this name, or the number of a space from its name, such as "space 7".

    An unknown name gives 0, which owns no rows.
    """
    user = get_user_model().objects.filter(username=name).only("pk").first()
    if user:
        return user.pk
    spaces = apps.get_model("accounts", "Archive").objects.filter(pk=space_number(name) or 0, kind="space")
    return spaces.values_list("pk", flat=True).first() or 0


def whole_number(value: str) -> int:
    """Return the number in `value`; 0, which no row has, without one or if it is too large for a key."""
    return parse_number(value) or 0


def hash_bytes(value: str) -> bytes:
    """Return the bytes of a hash in hexadecimal (dashes allowed); empty for anything else."""
    try:
        return bytes.fromhex(value.replace("-", "")) if len(value) >= 32 else b""
    except ValueError:
        return b""
