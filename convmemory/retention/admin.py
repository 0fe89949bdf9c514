"""The operator's retention limits in the admin; saving one asks for confirmation with what it finds now."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from convmemory.core.administration.metadata import MetadataAdmin
from convmemory.core.config import config
from convmemory.retention.models import RetentionLimit
from convmemory.retention.rules import count_everywhere

OF_THE_RULE = ("source", "project", "days")


class RetentionLimitForm(forms.ModelForm):  # type: ignore[type-arg]
    """A limit, and the confirmation of what it does at once."""

    is_confirmed = forms.BooleanField(required=False, label="I have read what it does now")

    class Meta:
        model = RetentionLimit
        fields = OF_THE_RULE

    def clean(self) -> dict[str, Any] | None:
        values = super().clean() or {}
        if not self.errors and not values.get("is_confirmed"):
            count = count_everywhere(RetentionLimit(**{name: values[name] for name in OF_THE_RULE}))
            consequence = "puts into the trash" if config.trash_days else "deletes for good"
            self.add_error(
                "is_confirmed",
                f"Of everybody's conversations, this {consequence} {count:,} now, also those with a star or pin, and "
                "others when they are as old. Tick here and save again.",
            )
        return values


@admin.register(RetentionLimit)
class RetentionLimitAdmin(MetadataAdmin):
    list_display = ("id", "source", "project", "days", "created_at")
    form = RetentionLimitForm
    fields = (*OF_THE_RULE, "is_confirmed")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("retention.add_retentionlimit")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("retention.change_retentionlimit")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("retention.delete_retentionlimit")
