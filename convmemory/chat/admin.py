"""Agents and replies for the administrator. Keys are never shown; values are checked as on the pages."""

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.forms import ModelForm

from convmemory.chat.agents import check_agent
from convmemory.chat.models import Agent, Reply
from convmemory.core.errors import InvalidInput


class AgentAdminForm(ModelForm):  # type: ignore[type-arg]
    """Says what is wrong instead of failing."""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        try:
            check_agent(self.instance)
        except InvalidInput as error:
            self.add_error(None, ValidationError(str(error)))


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = AgentAdminForm
    list_display = ("name", "owner", "model", "base_url", "updated_at")
    search_fields = ("name", "model", "base_url")
    raw_id_fields = ("owner",)


@admin.register(Reply)
class ReplyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("id", "conversation", "owner", "status", "model", "started_at", "ended_at")
    list_filter = ("status",)
    raw_id_fields = ("owner", "conversation", "agent", "question")
    exclude = ("partial",)
