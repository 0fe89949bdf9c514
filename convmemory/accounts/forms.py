"""Forms of the account pages, and of the admin's page for a user's password."""

from collections.abc import Sequence
from typing import Any, cast

from django import forms
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.callers import Access
from convmemory.accounts.keys import revoke_all_keys
from convmemory.accounts.mail import Change, warn
from convmemory.accounts.models import Invitation
from convmemory.sign_in.forms import ChangePasswordForm as CheckedPasswordForm

FOR_EVER = ""
LIFETIMES = (("30", _("30 days")), ("90", _("90 days")), ("365", _("A year")), (FOR_EVER, _("Never")))


class NewKeyForm(forms.Form):
    """The purpose of a new API key, its lifetime, whether it may write, and the spaces that it reads and writes."""

    name = forms.CharField(
        max_length=100,
        required=False,
        label=_("Name"),
        widget=forms.TextInput(attrs={"placeholder": _("What is it for? Laptop, backup script, …")}),
    )
    expires = forms.ChoiceField(choices=LIFETIMES, required=False, initial="365", label=_("Expires"))
    read_only = forms.BooleanField(required=False, label=_("Read only"))
    all_spaces = forms.BooleanField(required=False, label=_("Reads all your spaces, also later ones"))
    spaces = forms.TypedMultipleChoiceField(required=False, coerce=int, label=_("Reads the spaces"))
    writes_spaces = forms.BooleanField(required=False, label=_("Also writes to them, as far as your role allows"))

    def __init__(self, data: Any, *, memberships: Sequence[Access]) -> None:
        super().__init__(data)
        choices = [(space.archive_id, space.name) for space in memberships]
        cast("forms.TypedMultipleChoiceField", self.fields["spaces"]).choices = choices

    def values(self) -> dict[str, Any]:
        """Return the arguments of `keys.create_key` except the owner."""
        days = self.cleaned_data["expires"]
        return {
            "name": self.cleaned_data["name"],
            "days": int(days) if days else None,
            "read_only": self.cleaned_data["read_only"],
            "space_ids": None if self.cleaned_data["all_spaces"] else self.cleaned_data["spaces"],
            "writes_spaces": self.cleaned_data["writes_spaces"] and not self.cleaned_data["read_only"],
        }


class EndsKeys(forms.Form):
    """A choice whether changing a password also revokes the API keys."""

    end_keys = forms.BooleanField(
        required=False, label=_("End all API keys"), help_text=_("Programs that use one are refused from now on.")
    )

    def end_keys_if_asked(self, user: Any) -> int:
        """Revoke the keys if asked to; returns how many."""
        return revoke_all_keys(person=user) if self.cleaned_data["end_keys"] else 0


class ChangePasswordForm(EndsKeys, CheckedPasswordForm):
    """The form for one's own password, with pauses after wrong old ones."""

    field_order = ("old_password", "new_password1", "new_password2", "end_keys")


class ChangeUserForm(UserChangeForm):  # type: ignore[type-arg]
    """The admin's form for an account.

    Django's own form refuses a name taken in other letter case only for new accounts.
    """

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if User.objects.filter(username__iexact=name).exclude(pk=self.instance.pk).exists():
            raise self.instance.unique_error_message(User, ("username",))
        return name


class AdminChangePasswordForm(EndsKeys, AdminPasswordChangeForm):  # type: ignore[type-arg]
    """The admin's form for another user's password."""

    def save(self, commit: bool = True) -> Any:
        user = super().save(commit=commit)
        self.end_keys_if_asked(user)
        warn(user, Change.PASSWORD)
        return user


class InvitationForm(forms.ModelForm):  # type: ignore[type-arg]
    """The admin's form for a new invitation."""

    class Meta:
        model = Invitation
        fields = ("email",)

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email and User.objects.filter(email__iexact=email).exists():
            raise forms.ValidationError(_("There is an account with this address already."))
        return email
