"""Pages without log-in that give a person a password: an invitation, a request for a new password, and choosing it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm, UserCreationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from convmemory.accounts import invitations
from convmemory.accounts.auditing import Action, record
from convmemory.accounts.forms import EndsKeys
from convmemory.accounts.mail import Change, can_send_mail, request_mail, warn
from convmemory.accounts.models import Mail
from convmemory.accounts.sign_in_views import enter
from convmemory.accounts.tasks import enqueue_mail
from convmemory.core import acting
from convmemory.core.errors import NotFound
from convmemory.sign_in.attempts import count_reset_request


class NewAccountForm(UserCreationForm):  # type: ignore[type-arg]
    """The name and the password that an invited person chooses."""

    class Meta(UserCreationForm.Meta):
        model = User
        fields = ("username",)


class ResetForm(forms.Form):
    email = forms.EmailField(max_length=254)


class NewPasswordForm(EndsKeys, SetPasswordForm):  # type: ignore[type-arg]
    """A new password, of a person who has lost the old one."""

    field_order = ("new_password1", "new_password2", "end_keys")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Ask an invited person for a name and a password; a POST makes the account and signs it in."""
    try:
        invited = invitations.invitation_of(token)
        form = NewAccountForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            user = form.save(commit=False)
            invitations.accept(invited, user)
            return enter(request, user, next_page=reverse("home"))
    except NotFound:
        reason = _("It was used, was revoked, or has expired. Ask who invited you for a new one.")
        context = {"title": _("This invitation is not valid"), "reason": reason}
        return render(request, "refused.html", context, status=404)
    status = 422 if form.errors else 200
    return render(request, "accounts/invitation.html", {"form": form, "email": invited.email}, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def reset_password(request: HttpRequest) -> HttpResponse:
    """Ask for an address, and have a link mailed to it; the answer is the same whether or not it has an account."""
    form = ResetForm(request.POST or None)
    is_sent = request.method == "POST" and can_send_mail() and form.is_valid()
    if is_sent:
        recipient = form.cleaned_data["email"]
        count_reset_request(email=recipient, address=request.META.get("REMOTE_ADDR", ""))
        request_mail(Mail.Kind.PASSWORD_RESET, recipient=recipient, language=get_language() or "en")
        enqueue_mail()
    context = {"form": form, "is_sent": is_sent, "can_send": can_send_mail()}
    return render(request, "accounts/reset_password.html", context, status=422 if form.errors else 200)


class ChoosePassword(PasswordResetConfirmView):
    """The page of a mailed link. Django keeps the link in the session, so that no address leads to the form again."""

    form_class = NewPasswordForm
    template_name = "accounts/choose_password.html"
    success_url = reverse_lazy("login")

    def get_user(self, uidb64: str) -> User | None:
        user: Any = super().get_user(uidb64)
        return user if user is not None and user.is_active else None

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        with acting.acting_for(form.user.pk):
            form.end_keys_if_asked(form.user)
            warn(form.user, Change.PASSWORD)
            record(Action.CHANGED, what="password by link", person_id=form.user.pk, about_id=form.user.pk)
        messages.success(self.request, _("Your password is changed. Sign in with the new one."))
        return answer
