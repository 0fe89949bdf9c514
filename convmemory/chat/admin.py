"""Agents, replies and captured histories in the admin: the lists show states, separate pages the content.

No page shows a key, not even encrypted. An agent's name, prompt and key belong to its owner, who sets them on the page
of agents.
"""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.content_access import may_read_content, record_reading
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.chat.agents import check_agent, drop_key_of_other_server
from convmemory.chat.models import Agent, CapturedHistory, Reply
from convmemory.chat.progress import read_partial
from convmemory.conversations.messages.parts import part_text, speaker_of
from convmemory.core.administration.lists import ConversationFilter, OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import AdminTable, DeletableAdmin, MetadataAdmin, confirmed_action
from convmemory.core.errors import InvalidInput
from convmemory.core.text import cut

PART_CHARS = 5_000


class AgentForm(ModelForm):  # type: ignore[type-arg]
    """Checks the values as the owner's page does, and reports errors. Staff can change the address but not read it."""

    new_base_url = forms.CharField(
        required=False, max_length=500, label="New endpoint",
        help_text="Empty: as it is. A key that is stored for another server is deleted with the change.",
    )  # fmt: skip
    use_servers_own = forms.BooleanField(required=False, label="Use the server's own endpoint instead")

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        agent: Agent = self.instance
        address_before = agent.base_url
        agent.base_url = (
            "" if self.cleaned_data["use_servers_own"] else self.cleaned_data["new_base_url"] or address_before
        )
        try:
            check_agent(
                agent,
                caller=Caller.of(agent.archive.person)
                if agent.archive.person
                else Caller.for_archive(agent.archive_id),
            )
        except InvalidInput as error:
            self.add_error(None, ValidationError(str(error)))
        else:
            drop_key_of_other_server(agent, address_before)


def _of(rows: Sequence[Agent]) -> QuerySet[Agent]:
    return Agent.objects.filter(pk__in=[row.pk for row in rows])


@admin.register(Agent)
class AgentAdmin(ContentAdmin, DeletableAdmin):
    """The agents, without the names, prompts and addresses that their owners wrote.

    Staff with `chat.change_agent` switch agents off and on. Only staff who may also read content can change how another
    user's agent runs, and this is recorded as a reading: a person who directs an agent to a server receives what its
    owner says to it.
    """

    list_display = (
        "id",
        "archive",
        "endpoint",
        "model",
        "context_window",
        "switched_off_at",
        "created_at",
        "updated_at",
    )
    list_filter = (OwnerFilter, UptoFilter)
    fields = (
        "archive", "endpoint", "model", "context_window", "reply_tokens", "temperature", "tools", "context_strategies",
        "switched_off_at", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("archive", "endpoint", "switched_off_at", "created_at", "updated_at")
    form = AgentForm
    actions = ("switch_off", "switch_on", "delete_chosen")
    content_template = "admin/facts_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("name", "system_prompt", "api_key_encrypted")

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        may_change = self.has_change_permission(request, obj)
        return (*self.fields, "new_base_url", "use_servers_own") if may_change else self.fields

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if not self.has_change_rows_permission(request):
            return False
        return not isinstance(obj, Agent) or may_read_content(reader=request.user, archive_id=obj.archive_id)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        obj = self.get_object(request, object_id) if request.method == "POST" and object_id else None
        if obj is not None and self.has_change_permission(request, obj):
            record_reading(reader=request.user, archive_id=obj.archive_id, what=f"changes {obj}")
        return super().changeform_view(request, object_id, *args, **kwargs)

    @admin.display(description="endpoint")
    def endpoint(self, obj: Agent) -> str:
        return "its own" if obj.base_url else "the server's"

    switch_off = confirmed_action(
        "switch_off",
        permission="change_rows",
        verb="Switch off",
        consequence="They answer no request from now on.",
        apply=lambda rows: _of(rows).update(switched_off_at=timezone.now()),
    )
    switch_on = confirmed_action(
        "switch_on",
        permission="change_rows",
        verb="Switch on",
        consequence="Their owners can talk to them again.",
        apply=lambda rows: _of(rows).update(switched_off_at=None),
    )

    def content_of(self, request: HttpRequest, obj: Agent) -> dict[str, Any]:
        return {"facts": [("Name", obj.name), ("Endpoint", obj.base_url), ("System prompt", obj.system_prompt)]}


@admin.register(Reply)
class ReplyAdmin(ContentAdmin):
    """The replies and how they ended. They are deleted with their conversations."""

    list_display = ("id", "archive", "conversation_id", "status", "model", "started_at", "ended_at")
    list_filter = (OwnerFilter, ConversationFilter, "status", UptoFilter)
    fields = (
        "archive", "conversation", "agent_number", "question", "status", "model", "stop_requested", "started_at",
        "ended_at",
    )  # fmt: skip
    readonly_fields = ("agent_number",)
    search_by = ("pk", "conversation_id", "archive")
    content_template = "admin/facts_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("partial", "context", "error")

    @admin.display(description="agent")
    def agent_number(self, obj: Reply) -> str:
        return str(obj.agent_id or "")

    def content_of(self, request: HttpRequest, obj: Reply) -> dict[str, Any]:
        steps = obj.context.get("strategies", [])
        columns = ("Strategy", "Left out", "Shortened", "Tokens before", "After")
        rows = [
            (step["name"], len(step["removed_ids"]), len(step["shortened_ids"]), step["tokens_before"],
             step["tokens_after"])
            for step in steps
        ]  # fmt: skip
        return {
            "facts": [("Error", obj.error)],
            "said": received_messages(obj),
            "sections": [AdminTable("What the context pipeline did", columns, rows)] if rows else [],
        }


@admin.register(CapturedHistory)
class CapturedHistoryAdmin(MetadataAdmin):
    """The points at which conversations recorded by the proxy can be continued."""

    list_display = ("conversation_id", "archive")
    list_filter = (OwnerFilter, ConversationFilter, UptoFilter)
    fields = ("conversation", "archive", "hash_in_hex")
    readonly_fields = ("hash_in_hex",)

    @admin.display(description="history hash")
    def hash_in_hex(self, obj: CapturedHistory) -> str:
        return bytes(obj.history_hash).hex()


def received_messages(reply: Reply) -> list[dict[str, Any]]:
    """Return the messages of a running or lost reply, in the format of the content pages."""
    return [
        {
            "position": None,
            "turn": None,
            "speaker": speaker_of(draft.role, ""),
            "parts": [(part.type, cut(part_text(part), PART_CHARS)) for part in draft.parts],
        }
        for draft in read_partial(reply.partial)[0]
    ]
