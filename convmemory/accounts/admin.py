"""Accounts in the admin: users, invitations, keys, share links, quotas, use of the model, and the audit log.

Links to make an account or to choose a new password are shown here, to be passed on where no mail is sent.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import get_language

from convmemory.accounts import invitations
from convmemory.accounts.forms import AdminChangePasswordForm, ChangeUserForm, InvitationForm
from convmemory.accounts.mail import Change, can_send_mail, request_mail, reset_path, warn
from convmemory.accounts.models import (
    ApiKey,
    Archive,
    AuditEntry,
    GroupQuota,
    Invitation,
    Mail,
    Membership,
    ModelUse,
    Quota,
    ShareLink,
)
from convmemory.accounts.pages import absolute_address
from convmemory.accounts.tasks import enqueue_mail
from convmemory.core.administration.lists import ConversationFilter, InputFilter, OwnerFilter, UptoFilter, user_id_of
from convmemory.core.administration.metadata import AdminTable, DeletableAdmin, MetadataAdmin, confirmed_action
from convmemory.core.config import config
from convmemory.sign_in.forms import with_passwords
from convmemory.sign_in.second_factor import remove_everything

MOST_LINKS = 20
RIGHTS = ("is_staff", "is_superuser", "groups", "user_permissions")

admin.site.unregister(User)


def _remove_second_factors(users: Sequence[User]) -> None:
    for user in users:
        if remove_everything(user):
            warn(user, Change.FACTORS_REMOVED)


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Users. They are deactivated here and erased, with all their data, by `manage.py erase_user`.

    Staff who are no superusers see no superuser here and change no rights: a link to choose the password of an account
    is the account, and so is the removal of its second factor.
    """

    form = ChangeUserForm
    show_full_result_count = False
    change_password_form = AdminChangePasswordForm
    change_user_password_template = "accounts/change_password.html"  # noqa: S105

    actions = ("make_reset_links", "remove_second_factor")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        people: QuerySet[User] = super().get_queryset(request)
        return people if request.user.is_superuser else people.filter(is_superuser=False)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return () if request.user.is_superuser else RIGHTS

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data:
            warn(obj, Change.ADDRESS, address=form.initial.get("email", ""))

    def has_make_links_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request) and not config.sso_only

    user_change_password = with_passwords(UserAdmin.user_change_password)

    remove_second_factor = confirmed_action(
        "remove_second_factor",
        permission="change",
        verb="Remove the second factor",
        consequence="Their app, passkeys and recovery codes no longer work; the password alone signs them in.",
        apply=_remove_second_factors,
    )

    @admin.action(permissions=["make_links"], description="Make links to choose a new password")
    def make_reset_links(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse:
        """Show a link for each chosen user who may sign in, for staff to pass on."""
        users = [user for user in queryset[:MOST_LINKS] if user.is_active]
        for user in users:
            LogEntry.objects.log_actions(request.user.pk or 0, [user], CHANGE, "Made a link to choose a new password.")
        section = AdminTable(
            title="Links to choose a new password",
            columns=("User", "Link"),
            rows=[(user.username, absolute_address(request, reset_path(user))) for user in users],
            note=f"Each works once, within {config.password_reset_timeout // 3_600} hours and until the user signs in. "
            "Pass it on to that person alone.",
        )
        context = {**self.admin_site.each_context(request), "title": section.title, "opts": self.opts}
        response = TemplateResponse(request, "admin/links.html", {**context, "sections": [section]})
        response.headers["Cache-Control"] = "private, no-store"
        return response


@admin.register(Invitation)
class InvitationAdmin(DeletableAdmin):
    """Invitations, for those who may add some: who has the link of one can make an account."""

    form = InvitationForm
    list_display = ("id", "email", "created_at", "expires_at", "state")
    list_select_related = ("mail",)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("accounts.add_invitation")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and not config.sso_only

    def get_fields(self, request: HttpRequest, obj: Invitation | None = None) -> tuple[str, ...]:
        return ("email",) if obj is None else ("email", "created_at", "expires_at", "state")

    def get_readonly_fields(self, request: HttpRequest, obj: Invitation | None = None) -> tuple[str, ...]:
        return () if obj is None else ("created_at", "expires_at", "state")

    @admin.display(description="mail")
    def state(self, invitation: Invitation) -> str:
        """Return whether the mail of the invitation is sent."""
        if invitation.is_expired:
            return "the invitation has expired"
        mail = getattr(invitation, "mail", None)
        if mail is None:
            return "none: pass on the link"
        if mail.sent_at:
            return f"sent {timezone.localtime(mail.sent_at):%Y-%m-%d %H:%M}"
        return f"not sent in {mail.attempts} attempts: {mail.error}" if mail.error else "waits for a worker"

    def sections(self, request: HttpRequest, obj: Invitation) -> list[AdminTable]:
        if obj.is_expired or config.sso_only:
            return []
        link = absolute_address(request, invitations.path_of(obj))
        note = (
            "With this link a person chooses a name and a password. It works once. Delete the invitation to revoke it."
        )
        return [AdminTable(title="Link", columns=("Address",), rows=[(link,)], note=note)]

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        obj.expires_at = obj.created_at + invitations.VALID
        super().save_model(request, obj, form, change)
        if obj.email and can_send_mail():
            request_mail(Mail.Kind.INVITATION, recipient=obj.email, language=get_language() or "en", invitation=obj)
            enqueue_mail()

    def response_add(self, request: HttpRequest, obj: Invitation, post_url_continue: str | None = None) -> HttpResponse:
        return redirect("admin:accounts_invitation_change", obj.pk)


def _revoke(keys: Sequence[ApiKey]) -> None:
    pending = ApiKey.objects.filter(pk__in=[key.pk for key in keys], revoked_at=None)
    pending.update(revoked_at=timezone.now())


@admin.register(ApiKey)
class ApiKeyAdmin(MetadataAdmin):
    """API keys without their names, which are text of their owners."""

    list_display = ("id", "prefix", "person", "read_only", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("prefix", "person", "read_only", "created_at", "last_used_at", "expires_at", "revoked_at")
    actions = ("revoke",)

    revoke = confirmed_action(
        "revoke",
        permission="change_rows",
        verb="Revoke",
        consequence="Programs that use these keys are refused from now on.",
        apply=_revoke,
    )


@admin.register(ShareLink)
class ShareLinkAdmin(DeletableAdmin):
    """Share links without the titles that they show; deleting one revokes it."""

    list_display = ("id", "archive", "people_only", "created_at", "expires_at", "opened_count", "last_opened_at")
    list_filter = (OwnerFilter, ConversationFilter, UptoFilter)
    fields = ("archive", "conversation_id", "people_only", "created_at", "expires_at", "opened_count", "last_opened_at")


@admin.register(Archive)
class ArchiveAdmin(MetadataAdmin):
    """Archives of people, and spaces without their names, which are text of their members."""

    list_display = ("id", "kind", "person", "created_at")
    list_filter = ("kind",)
    fields = ("id", "kind", "person", "created_at")

    def sections(self, request: HttpRequest, obj: Archive) -> list[AdminTable]:
        members = Membership.objects.filter(archive_id=obj.pk).select_related("person").order_by("person__username")
        rows = [(member.person.username, member.role, member.added_at) for member in members]
        return [AdminTable(title="Members", columns=("User", "Role", "Since"), rows=rows)]


class PersonFilter(InputFilter):
    """A filter by the name of the user who did it, or whose data it was done to."""

    title = "person"
    parameter_name = "person"
    hint = "user name"

    def condition(self, value: str) -> Q:
        user_id = user_id_of(value)
        return Q(person_id=user_id) | Q(about_id=user_id)


class SinceFilter(InputFilter):
    """A filter by time."""

    title = "since"
    parameter_name = "since"
    hint = "2026-03-01"

    def condition(self, value: str) -> Q:
        try:
            return Q(created_at__date__gte=date.fromisoformat(value))
        except ValueError:
            return Q(pk__in=[])


@admin.register(AuditEntry)
class AuditEntryAdmin(MetadataAdmin):
    list_display = ("id", "created_at", "person", "action", "about", "what", "times", "surface")
    list_filter = (PersonFilter, "action", SinceFilter, UptoFilter)
    fields = ("created_at", "person", "action", "about", "what", "times", "surface")


@admin.register(ModelUse)
class ModelUseAdmin(MetadataAdmin):
    list_display = ("id", "archive", "day", "tokens", "requests")
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("archive", "day", "tokens", "requests")


class LimitsAdmin(MetadataAdmin):
    """Limits, for those with their permissions. An empty field leaves the limit to the next level, 0 lifts it."""

    limits = ("stored_mb", "turns", "documents", "monthly_tokens")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"accounts.add_{self.opts.model_name}")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm(f"accounts.change_{self.opts.model_name}")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm(f"accounts.delete_{self.opts.model_name}")


@admin.register(Quota)
class QuotaAdmin(LimitsAdmin):
    list_display = ("id", "archive", *LimitsAdmin.limits)
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("archive", *LimitsAdmin.limits)
    raw_id_fields = ("archive",)

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> tuple[str, ...]:
        return () if obj is None else ("archive",)


@admin.register(GroupQuota)
class GroupQuotaAdmin(LimitsAdmin):
    list_display = ("id", "group", *LimitsAdmin.limits)
    fields = ("group", *LimitsAdmin.limits)

    def get_readonly_fields(self, request: HttpRequest, obj: GroupQuota | None = None) -> tuple[str, ...]:
        return () if obj is None else ("group",)
