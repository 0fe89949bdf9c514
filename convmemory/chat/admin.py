"""Agents, replies and captured histories in the admin: their states; what people wrote on pages of their own.

Keys, even encrypted, stand on no page. Staff with the permission may change how an agent runs; its name, its prompt
and its key belong to its owner, who makes it on the page of agents.
"""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from convmemory.accounts.content_admin import ContentAdmin
from convmemory.chat.agents import check_agent
from convmemory.chat.models import Agent, CapturedHistory, Reply
from convmemory.chat.progress import read_partial
from convmemory.conversations.parts import part_text, speaker_of
from convmemory.core.admin_lists import ConversationFilter, OwnerFilter, UptoFilter
from convmemory.core.errors import InvalidInput
from convmemory.core.metadata_admin import DeletableAdmin, MetadataAdmin, Section
from convmemory.core.text import cut

PART_CHARS = 5_000


class AgentForm(ModelForm):  # type: ignore[type-arg]
    """Checks the values as the owner's page does, and says what is wrong."""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        try:
            check_agent(self.instance)
        except InvalidInput as error:
            self.add_error(None, ValidationError(str(error)))


@admin.register(Agent)
class AgentAdmin(ContentAdmin, DeletableAdmin):
    """No names and prompts: people name agents after what they talk about."""

    list_display = ("id", "owner", "base_url", "model", "context_window", "created_at", "updated_at")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, UptoFilter)
    fields = (
        "owner", "base_url", "model", "context_window", "reply_tokens", "temperature", "tools", "context_strategies",
        "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("owner", "created_at", "updated_at")
    form = AgentForm
    search_by = ("pk", "owner")
    search_help_text = "An agent's number, or an owner's name."
    actions = ("delete_chosen",)
    content_template = "admin/facts_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("name", "system_prompt", "api_key_encrypted")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("chat.change_agent")

    def content_of(self, request: HttpRequest, obj: Agent) -> dict[str, Any]:
        return {"facts": [("Name", obj.name), ("System prompt", obj.system_prompt)]}


@admin.register(Reply)
class ReplyAdmin(ContentAdmin):
    """How replies ended. They go with their conversations."""

    list_display = ("id", "owner", "conversation_id", "status", "model", "started_at", "ended_at")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, ConversationFilter, "status", UptoFilter)
    fields = (
        "owner", "conversation", "agent_number", "question", "status", "model", "stop_requested", "started_at",
        "ended_at",
    )  # fmt: skip
    readonly_fields = ("agent_number",)
    search_by = ("pk", "conversation_id", "owner")
    search_help_text = "A reply's or a conversation's number, or an owner's name."
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
            "said": said_so_far(obj),
            "sections": [Section("What the context pipeline did", columns, rows)] if rows else [],
        }


@admin.register(CapturedHistory)
class CapturedHistoryAdmin(MetadataAdmin):
    """Where conversations recorded by the proxy can be continued."""

    list_display = ("conversation_id", "owner")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, ConversationFilter, UptoFilter)
    fields = ("conversation", "owner", "hash_in_hex")
    readonly_fields = ("hash_in_hex",)
    search_by = ("pk", "owner")
    search_help_text = "A conversation's number, or an owner's name."

    @admin.display(description="history hash")
    def hash_in_hex(self, obj: CapturedHistory) -> str:
        return bytes(obj.history_hash).hex()


def said_so_far(reply: Reply) -> list[dict[str, Any]]:
    """What a running or lost reply has brought, as the content pages show messages."""
    return [
        {
            "position": None,
            "turn": None,
            "speaker": speaker_of(draft.role, ""),
            "parts": [(part.type, cut(part_text(part), PART_CHARS)) for part in draft.parts],
        }
        for draft in read_partial(reply.partial)[0]
    ]
