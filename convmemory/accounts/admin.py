"""Accounts in the admin: users, their API keys, their use of the model, and the record of readings of
foreign content.
"""

from collections.abc import Sequence

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from convmemory.accounts.forms import AdminChangePasswordForm, ChangeUserForm
from convmemory.accounts.models import ApiKey, ContentAccess, ModelUse
from convmemory.core.administration.lists import OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import MetadataAdmin, confirmed_action

admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Users. They are deactivated here and erased, with all their data, by `manage.py erase_user`."""

    form = ChangeUserForm
    show_full_result_count = False
    change_password_form = AdminChangePasswordForm
    change_user_password_template = "accounts/change_password.html"  # noqa: S105

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def _revoke(keys: Sequence[ApiKey]) -> None:
    pending = ApiKey.objects.filter(pk__in=[key.pk for key in keys], revoked_at=None)
    pending.update(revoked_at=timezone.now())


@admin.register(ApiKey)
class ApiKeyAdmin(MetadataAdmin):
    """API keys without their names, which are text of their owners."""

    list_display = ("id", "prefix", "owner", "read_only", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("prefix", "owner", "read_only", "created_at", "last_used_at", "expires_at", "revoked_at")
    search_by = ("pk", "owner")
    search_help_text = "A number, or an owner's name."
    actions = ("revoke",)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.change_apikey")

    revoke = confirmed_action(
        "revoke",
        permission="revoke",
        verb="Revoke",
        consequence="Programs that use these keys are refused from now on.",
        apply=_revoke,
    )


@admin.register(ContentAccess)
class ContentAccessAdmin(MetadataAdmin):
    list_display = ("id", "created_at", "reader", "owner", "what")
    list_select_related = ("reader", "owner")
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("created_at", "reader", "owner", "what")
    search_by = ("pk", "owner")
    search_help_text = "A number, or an owner's name."


@admin.register(ModelUse)
class ModelUseAdmin(MetadataAdmin):
    list_display = ("id", "owner", "day", "tokens", "requests")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("owner", "day", "tokens", "requests")
    search_by = ("pk", "owner")
    search_help_text = "A number, or an owner's name."
