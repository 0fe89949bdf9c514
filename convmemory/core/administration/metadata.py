"""The base of the admin pages: read-only metadata for staff, without any text that people wrote.

Each page names the fields that it shows. Filters, searches and orderings on other columns are refused, because a yes or
no to `?title__startswith=` reveals text as well. Actions ask for confirmation and are logged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.admin.views.main import ChangeList
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from convmemory.core.administration.lists import (
    BoundedChangeList,
    BoundedPaginator,
    UptoFilter,
    hash_bytes,
    user_id_of,
    whole_number,
)
from convmemory.core.program import COMMAND

MAX_CHOSEN = 500
SEARCHED = {
    "pk": "a number",
    "conversation_id": "a conversation's number",
    "message__conversation_id": "a conversation's number",
    "message_id": "a message's number",
    "object_id": "a conversation's or document's number",
    "source__object_id": "a conversation's or document's number",
    "content_hash": "a content hash",
    "archive": "an owner's name",
    "person": "an owner's name",
}

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    AnyModelAdmin = admin.ModelAdmin


@dataclass(frozen=True, slots=True)
class AdminTable:
    """A table below the fields of an object's page; cells are text, numbers, or HTML made by `format_html`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    links: Sequence[tuple[str, str]] = field(default=())  # (address, text)


class MetadataAdmin(AnyModelAdmin):
    """Rows that staff may view, but not add or change by hand.

    `search_by` names the fields of a search: `pk`, `archive` or `person` of models that have one, and indexed fields
    that contain numbers or hashes.
    """

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # facets count whole tables
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    ordering = ("-pk",)
    sortable_by = ()
    list_filter: ClassVar[tuple[Any, ...]] = (UptoFilter,)
    search_fields = ("pk",)  # shows the box; `get_search_results` decides
    search_by: ClassVar[tuple[str, ...]] = ("pk", "archive", "person")
    change_form_template = "admin/metadata_form.html"
    actions_selection_counter = True

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.is_active and request.user.is_staff

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_rows_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may start actions that change rows."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")

    def get_list_select_related(self, request: HttpRequest) -> bool | list[str] | tuple[str, ...]:
        if self.list_select_related:
            return self.list_select_related
        keys = [each for each in self.opts.fields if each.is_relation and each.name in self.list_display]
        # An archive is shown by the name of its person.
        has_person = {each.name: hasattr(each.related_model, "person") for each in keys}
        return [f"{name}__person" if named else name for name, named in has_person.items()]

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Return whether a declared filter makes this lookup."""
        fields = [item for item in self.list_filter if isinstance(item, str)]
        choices = {f"{name}__{suffix}" for name in fields for suffix in ("exact", "id__exact", "isnull")}
        return lookup in choices | {item.parameter_name for item in self.list_filter if not isinstance(item, str)}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that match the term exactly; Django's own search would use LIKE."""
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(self.search_condition(term)), False

    @property
    def search_help_text(self) -> str:  # type: ignore[override]
        *others, last = [SEARCHED[name] for name in self._searched()]
        text = f"{', '.join(others)}, or {last}." if others else f"{last}."
        return text[0].upper() + text[1:]

    def _searched(self) -> list[str]:
        fields = {each.name for each in self.opts.get_fields()}
        return [name for name in self.search_by if name not in ("archive", "person") or name in fields]

    def search_condition(self, term: str) -> Q:
        condition = Q(pk__in=[])
        number, digest = whole_number(term), hash_bytes(term)
        for name in self._searched():
            if name in ("archive", "person"):
                condition |= Q(**{f"{name}_id": user_id_of(term)})
            elif name == "content_hash" and digest:
                condition |= self.hash_condition(digest)
            elif name != "content_hash" and number:
                condition |= Q(**{name: number})
        return condition

    def hash_condition(self, digest: bytes) -> Q:
        return Q(content_hash=digest)

    def sections(self, request: HttpRequest, obj: Any) -> list[AdminTable]:
        """Return the tables below the fields of the object's page."""
        return []

    def tools(self, request: HttpRequest, obj: Any) -> list[tuple[str, str]]:
        """Return the links (address, text) at the top of the object's page."""
        return []

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = dict(extra_context or {})
        obj = self.get_object(request, object_id) if object_id else None
        if obj is not None and self.has_view_permission(request, obj):
            context |= {"sections": self.sections(request, obj), "tools": self.tools(request, obj)}
        return super().changeform_view(request, object_id, form_url, context)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)  # it loads and prints every row that depends on the chosen ones
        return actions


class DeletableAdmin(MetadataAdmin):
    """Rows that users with the model's delete permission may delete, through `delete_rows`."""

    actions: Sequence[str] = ("delete_chosen",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.delete_{self.opts.model_name}")

    def delete_rows(self, rows: Sequence[Any]) -> None:
        self.model._default_manager.filter(pk__in=[row.pk for row in rows]).delete()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_rows([obj])

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return only the rows themselves: the rows that depend on them can be millions."""
        rows = [str(obj) for obj in objs]
        return rows, {str(self.opts.verbose_name_plural): len(rows)}, set(), []

    @admin.action(permissions=["delete"], description="Delete")
    def delete_chosen(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        with transaction.atomic():  # a refused deletion is not logged
            return confirmed(
                self,
                request,
                queryset,
                action="delete_chosen",
                verb="Delete",
                consequence="They and everything that hangs on them are deleted for good.",
                apply=self.delete_rows,
                flag=DELETION,
            )


Action = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]


def confirmed_action(
    name: str, *, permission: str, verb: str, consequence: str, apply: Callable[[Sequence[Any]], object]
) -> Action:
    """Return an admin action, under this name in its class, for users with `permission`; it calls `confirmed`."""

    @admin.action(permissions=[permission], description=verb)
    def act(model_admin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return confirmed(model_admin, request, queryset, action=name, verb=verb, consequence=consequence, apply=apply)

    return act


def confirmed(
    model_admin: MetadataAdmin,
    request: HttpRequest,
    queryset: QuerySet[Any],
    *,
    action: str,
    verb: str,
    consequence: str,
    apply: Callable[[Sequence[Any]], object],
    flag: int = CHANGE,
) -> HttpResponse | None:
    """Ask for confirmation before `apply` gets the chosen rows, and log the user; at most `MAX_CHOSEN` rows."""
    rows = list(queryset[: MAX_CHOSEN + 1])
    if len(rows) > MAX_CHOSEN:
        model_admin.message_user(
            request, f"Choose {MAX_CHOSEN} at most; commands of `{COMMAND}` work on more.", messages.ERROR
        )
        return None
    if request.POST.get("post"):
        who = request.user.pk or 0  # the admin admits no anonymous user
        for row in rows:  # one by one, because Django sends no signal of several, and the audit log receives it
            LogEntry.objects.log_actions(who, [row], flag, f"{verb}.")
        apply(rows)
        model_admin.message_user(request, f"{verb}: {len(rows)} {_noun(model_admin, len(rows))}.", messages.SUCCESS)
        return None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{verb} {len(rows)} {_noun(model_admin, len(rows))}?",
        "opts": model_admin.opts,
        "rows": rows,
        "action": action,
        "verb": verb,
        "consequence": consequence,
        "checkbox_name": ACTION_CHECKBOX_NAME,
    }
    return TemplateResponse(request, "admin/confirm_action.html", context)


def _noun(model_admin: MetadataAdmin, count: int) -> str:
    opts = model_admin.opts
    return str(opts.verbose_name if count == 1 else opts.verbose_name_plural)
