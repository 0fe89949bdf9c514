"""Conversations in the admin: their metadata and turns, legal holds and uses of storage; content has its own page."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Count, Min, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.content_access import may_read_content
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.accounts.holds import spaces_of
from convmemory.accounts.models import Archive, LegalHold
from convmemory.accounts.quota import limits_of, model_use
from convmemory.conversations.messages.ingest import delete_for_good
from convmemory.conversations.messages.parts import part_text, speaker_of
from convmemory.conversations.models import Conversation, Event, Message, StoredUse
from convmemory.core.acting import in_archive_of
from convmemory.core.administration.lists import (
    ConversationFilter,
    ExactFilter,
    InputFilter,
    OwnerFilter,
    UptoFilter,
    whole_number,
)
from convmemory.core.administration.metadata import AdminTable, DeletableAdmin, MetadataAdmin, confirmed
from convmemory.core.config import config
from convmemory.core.numbers import MAX_INTEGER, parse_number
from convmemory.core.text import cut

TURNS_PER_PAGE = 50
MESSAGES_PER_PAGE = 50
# The admin's content page cuts longer parts; nothing is lost, because their owner sees them in full.
PART_CHARS = 5_000


@admin.register(Conversation)
class ConversationAdmin(ContentAdmin, DeletableAdmin):
    """Conversations without titles, projects and agents: people name these after the content."""

    list_display = (
        "id", "archive", "status", "source", "message_count", "turn_count", "updated_at", "archived_at"
    )  # fmt: skip
    list_filter = (OwnerFilter, "status", UptoFilter)
    fields = (
        "archive", "status", "source", "message_count", "turn_count", "turns_version", "parent",
        "created_at", "updated_at", "archived_at", "processing_until",
    )  # fmt: skip
    content_template = "admin/conversation_content.html"

    def delete_rows(self, rows: Sequence[Conversation]) -> None:
        for row in rows:
            delete_for_good(caller=Caller.for_archive(row.archive_id), conversation_id=row.pk)

    def sections(self, request: HttpRequest, obj: Conversation) -> list[AdminTable]:
        first = whole_number(request.GET.get("turn", ""))
        is_readable = may_read_content(reader=request.user, archive_id=obj.archive_id)
        return [turns_section(obj, first=first, is_own=obj.archive_id == request.user.pk, is_readable=is_readable)]

    def tools(self, request: HttpRequest, obj: Conversation) -> list[tuple[str, str]]:
        tools = [*super().tools(request, obj), *related_links(obj)]
        if request.user.has_perm("accounts.add_legalhold"):
            values = f"archive={obj.archive_id}&conversation_id={obj.pk}"
            tools.append((f"{reverse('admin:accounts_legalhold_add')}?{values}", "Legal hold"))
        return tools

    def content_name(self, request: HttpRequest, obj: Conversation) -> str:
        if turn := request.GET.get("turn", ""):
            return f"turn {whole_number(turn) + 1} of conversation {obj.pk}"
        return f"{obj} from message {_first_position(request) + 1}"

    def content_of(self, request: HttpRequest, obj: Conversation) -> dict[str, Any]:
        rows = obj.messages.order_by("position")
        if turn := request.GET.get("turn", ""):
            rows = rows.filter(turn_number=whole_number(turn))
        page = list(rows.filter(position__gte=_first_position(request))[: MESSAGES_PER_PAGE + 1])
        more = page[MESSAGES_PER_PAGE].position if len(page) > MESSAGES_PER_PAGE else None
        return {
            "conversation": obj,
            "turn": turn,
            "messages_shown": contents_of_messages(page[:MESSAGES_PER_PAGE]),
            "more_from": more,
        }


class LegalHoldForm(forms.ModelForm):  # type: ignore[type-arg]
    """The admin's form for a new legal hold: the conversation, if one is named, must be the account's."""

    def clean(self) -> dict[str, Any] | None:
        values = super().clean() or {}
        archive, number = values.get("archive"), values.get("conversation_id")
        if archive is not None and number is not None:
            # Locked, so that a deletion that is under way has ended, or waits and sees the hold.
            with in_archive_of(archive.pk):
                rows = Conversation.with_trash.select_for_update().filter(archive_id=archive.pk, pk=number)
                if not rows.exists():
                    self.add_error("conversation_id", f"This account has no conversation {number}.")
        return values


@admin.register(LegalHold)
class LegalHoldAdmin(MetadataAdmin):
    """Legal holds, for those with their permissions. To change one is to lift it, with a reason; none is deleted."""

    list_display = ("id", "archive", "conversation_id", "created_at", "lifted_at")
    list_filter = (OwnerFilter, ConversationFilter, UptoFilter)
    actions = ("hold_spaces",)
    form = LegalHoldForm
    raw_id_fields = ("archive",)
    search_by = ("pk", "archive", "conversation_id")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("accounts.view_legalhold")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.add_legalhold")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        is_lifted = isinstance(obj, LegalHold) and obj.lifted_at is not None
        return request.user.has_perm("accounts.change_legalhold") and not is_lifted

    def get_fields(self, request: HttpRequest, obj: LegalHold | None = None) -> tuple[str, ...]:
        set_by_staff = ("archive", "conversation_id", "reason")
        return set_by_staff if obj is None else (*set_by_staff, "created_at", "lifted_at", "lift_reason")

    def get_readonly_fields(self, request: HttpRequest, obj: LegalHold | None = None) -> tuple[str, ...]:
        return () if obj is None else ("archive", "conversation_id", "reason", "created_at", "lifted_at")

    def save_model(self, request: HttpRequest, obj: LegalHold, form: Any, change: bool) -> None:
        if change:
            obj.lifted_at = timezone.now()
        super().save_model(request, obj, form, change)
        _record(request, obj)

    def sections(self, request: HttpRequest, obj: LegalHold) -> list[AdminTable]:
        if obj.archive.kind == Archive.Kind.SPACE or obj.conversation_id or obj.lifted_at:
            return []
        rows, may_hold = [], self.has_add_permission(request)
        for space in spaces_of(obj.archive_id):
            address = f"{reverse('admin:accounts_legalhold_add')}?archive={space.space_id}"
            offer = format_html('<a href="{}">Hold space {}</a>', address, space.space_id) if may_hold else "none"
            rows.append((f"space {space.space_id}", space.role or "former member", "held" if space.is_held else offer))
        period = f"for {config.audit_days} days (AUDIT_DAYS)" if config.audit_days else "since the audit log began"
        note = (
            "This hold keeps nothing in them: their members can delete what the person wrote there, unless the space, "
            f"or the conversation, is on hold itself. Former memberships are known {period}."
        )
        return [AdminTable(title="Spaces of the person", columns=("Space", "Role", "Hold"), rows=rows, note=note)]

    @admin.action(permissions=["add"], description="Extend to the spaces of the person")
    def hold_spaces(self, request: HttpRequest, queryset: QuerySet[LegalHold]) -> HttpResponse | None:
        """Ask for confirmation, then hold each space of the person of a hold in force, for the same reason."""

        @transaction.atomic
        def apply(holds: Sequence[LegalHold]) -> None:
            for hold in holds:
                for space in spaces_of(hold.archive_id):
                    if not space.is_held:
                        _record(request, LegalHold.objects.create(archive_id=space.space_id, reason=hold.reason))

        return confirmed(
            self,
            request,
            queryset.filter(conversation_id=None, lifted_at=None),
            action="hold_spaces",
            verb="Extend",
            consequence="Each space of which the person is, or was, a member gets a hold of its own with the same "
            "reason: nothing in it can be deleted, also what others wrote.",
            apply=apply,
        )


def _record(request: HttpRequest, hold: LegalHold) -> None:
    what = f"conversation {hold.conversation_id}" if hold.conversation_id else f"account {hold.archive_id}"
    action = Action.RELEASED if hold.lifted_at else Action.HELD
    record(action, what=what, person_id=request.user.pk, about_id=hold.archive_id)


@admin.register(Message)
class MessageAdmin(ContentAdmin):
    list_display = ("id", "conversation", "position", "role", "is_real_user", "turn_number", "model", "created_at")
    list_filter = (ConversationFilter, UptoFilter)
    fields = (
        "conversation", "position", "role", "is_real_user", "turn_number", "model", "source_key", "created_at",
        "has_thinking", "has_tool_calls", "characters",
    )  # fmt: skip
    readonly_fields = ("has_thinking", "has_tool_calls", "characters")
    search_by = ("pk", "conversation_id")
    content_template = "admin/conversation_content.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        # Parts can be megabytes, and lists show none of them.
        return super().get_queryset(request).defer("parts")

    @admin.display(boolean=True)
    def has_thinking(self, obj: Message) -> bool:
        return bool(obj.content_metadata["has_thinking"])

    @admin.display(boolean=True)
    def has_tool_calls(self, obj: Message) -> bool:
        return bool(obj.content_metadata["has_tool_calls"])

    def characters(self, obj: Message) -> str:
        """Return the characters of each kind of part: `text 450, thinking 1,250`."""
        kinds: dict[str, int] = obj.content_metadata["characters"]
        return ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in kinds.items())

    def archive_of(self, obj: Message) -> Archive:
        return obj.conversation.archive

    def content_of(self, request: HttpRequest, obj: Message) -> dict[str, Any]:
        return {"messages_shown": contents_of_messages([obj])}


class TurnFilter(InputFilter):
    title = "turn"
    parameter_name = "turn"
    hint = "number"

    def condition(self, value: str) -> Q:
        number = parse_number(value, maximum=MAX_INTEGER)
        return Q(pk__in=[]) if number is None else Q(turn_number=number)


class TypeFilter(ExactFilter):
    title = parameter_name = "type"
    hint = "such as tool:post"


class ToolFilter(ExactFilter):
    title = parameter_name = "tool"
    hint = "such as bash"


class LevelFilter(ExactFilter):
    title = parameter_name = "level"
    lookup = "level__iexact"
    hint = "such as ERROR"


class DayFilter(InputFilter):
    title = "day (UTC)"
    parameter_name = "day"
    hint = "2026-03-01"

    def condition(self, value: str) -> Q:
        try:
            begun = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            return Q(pk__in=[])
        return Q(created_at__gte=begun, created_at__lt=begun + timedelta(days=1))


@admin.register(Event)
class EventAdmin(ContentAdmin):
    """Events. Types, tools and levels are an agent's own names; the payload is content and cannot be searched here."""

    list_display = ("id", "conversation", "line_number", "type", "tool", "level", "turn_number", "created_at")
    list_filter = (
        ConversationFilter,
        OwnerFilter,
        TypeFilter,
        ToolFilter,
        LevelFilter,
        TurnFilter,
        DayFilter,
        UptoFilter,
    )
    fields = ("archive", "conversation", "line_number", "type", "tool", "level", "turn_number", "created_at")
    search_by = ("pk", "conversation_id")
    content_template = "admin/conversation_content.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        # Lists show neither, and payloads are up to 4 KB each.
        return super().get_queryset(request).defer("payload", "words")

    def content_of(self, request: HttpRequest, obj: Event) -> dict[str, Any]:
        text = json.dumps(obj.payload, ensure_ascii=False, indent=1)
        event = {
            "position": obj.line_number,
            "turn": _from_one(obj.turn_number),
            "speaker": obj.type,
            "parts": [("event", text)],
        }
        return {"messages_shown": [event | {"parts": [("event", text)]}]}


def turns_section(conversation: Conversation, *, first: int, is_own: bool, is_readable: bool) -> AdminTable:
    """Return a page of turns from number `first` on, without their texts."""
    rows = (
        conversation.messages.filter(turn_number__gte=first, turn_number__lt=first + TURNS_PER_PAGE)
        .values("turn_number")
        .annotate(messages=Count("pk"), answers=Count("pk", filter=Q(role="assistant")), at=Min("created_at"))
        .order_by("turn_number")
    )
    page = reverse("admin:conversations_conversation_change", args=[conversation.pk])
    links = []
    if first:
        links.append((f"{page}?turn={max(0, first - TURNS_PER_PAGE)}", "Earlier turns"))
    if first + TURNS_PER_PAGE < conversation.turn_count:
        links.append((f"{page}?turn={first + TURNS_PER_PAGE}", "Later turns"))
    return AdminTable(
        title="Turns",
        columns=("Turn", "Messages", "From the assistant", "Begun", "Read"),
        rows=[
            (
                turn_link(conversation.pk, row["turn_number"], is_own=is_own, is_readable=is_readable),
                row["messages"],
                row["answers"],
                row["at"] or "",
                content_link(conversation.pk, row["turn_number"]) if is_readable else "",
            )
            for row in rows
            if row["turn_number"] is not None
        ],
        note="" if is_own else "Reading what another person wrote needs the permission, asks first, and is recorded.",
        links=links,
    )


def turn_link(conversation_id: int, turn: int, *, is_own: bool, is_readable: bool) -> str:
    """Return a link to the turn.

    Its owner gets the product's page, an authorised reader the admin's, other staff its name alone.
    """
    if is_own:
        return format_html('<a href="/conversations/{}?turn={}">turn {}</a>', conversation_id, turn, turn + 1)
    if not is_readable:
        return f"turn {turn + 1}"
    address = reverse("admin:conversations_conversation_content", args=[conversation_id])
    return format_html('<a href="{}?turn={}">turn {}</a>', address, turn, turn + 1)


def content_link(conversation_id: int, turn: int) -> str:
    """Return the admin's page with the content of the turn."""
    address = reverse("admin:conversations_conversation_content", args=[conversation_id])
    return format_html('<a href="{}?turn={}">content</a>', address, turn)


def related_links(conversation: Conversation) -> list[tuple[str, str]]:
    """Return changelists of the conversation's related rows, from all apps that registered them."""
    links = []
    for related, page in admin.site._registry.items():
        filters = page.list_filter if isinstance(page, MetadataAdmin) else ()
        if any(isinstance(each, type) and issubclass(each, ConversationFilter) for each in filters):
            address = reverse(f"admin:{related._meta.app_label}_{related._meta.model_name}_changelist")
            links.append((f"{address}?conversation={conversation.pk}", str(related._meta.verbose_name_plural)))
    return links


def contents_of_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages for a content page: a heading and the texts of the parts, cut to what a page can show."""
    return [
        {
            "position": message.position + 1,
            "turn": _from_one(message.turn_number),
            "speaker": speaker_of(message.role, message.name),  # type: ignore[arg-type]
            "parts": [(part.type, cut(part_text(part), PART_CHARS)) for part in message.typed_parts],
        }
        for message in messages
    ]


def _from_one(turn: int | None) -> int | None:
    return None if turn is None else turn + 1


def _first_position(request: HttpRequest) -> int:
    return whole_number(request.GET.get("from", ""))


USED = ("stored_bytes", "turns", "documents", "added_bytes", "added_turns", "added_documents")


@admin.register(StoredUse)
class StoredUseAdmin(MetadataAdmin):
    """What each person and space has stored, and persons added to spaces, with the limits on the page of one."""

    list_display = ("id", "archive", *USED)
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("archive", *USED)

    def sections(self, request: HttpRequest, obj: StoredUse) -> list[AdminTable]:
        model, limits = model_use(archive_id=obj.archive_id), limits_of(archive_id=obj.archive_id)
        rows = [
            ("Bytes", f"{obj.stored_bytes + obj.added_bytes:,}", limits.stored_bytes),
            ("Turns", f"{obj.turns + obj.added_turns:,}", limits.turns),
            ("Documents", f"{obj.documents + obj.added_documents:,}", limits.documents),
            ("Tokens of the model today", f"{model.today.tokens:,}", model.today.limit),
            ("Tokens of the model this month", f"{model.month.tokens:,}", model.month.limit),
        ]
        shown = [(name, used, f"{limit:,}" if limit else "none") for name, used, limit in rows]
        note = (
            "Quotas of people, spaces and groups set limits; other ones are settings. What a person adds to a space, "
            "or asks the model there, counts for both."
        )
        return [AdminTable(title="Limits in force", columns=("Of", "Used", "Limit"), rows=shown, note=note)]
