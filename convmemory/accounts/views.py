"""Account pages: the account, keys, password, the components for developers; and `signed_in`, around every page."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.translation import get_language, get_language_from_request, ngettext, override
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import spaces_of
from convmemory.accounts.forms import ChangePasswordForm, NewKeyForm
from convmemory.accounts.keys import active_key, active_keys, create_key, revoke_key
from convmemory.accounts.mail import Change, can_send_mail, choice_of, warn
from convmemory.accounts.models import ApiKey, MailChoice
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.accounts.quota import model_use
from convmemory.accounts.sessions import end_other_sessions, end_session, sessions_of
from convmemory.core.config import config
from convmemory.core.endpoints.completions import endpoint_from_settings
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.web.languages import DENSITIES, THEMES, Appearance, languages, remember

NEW_KEY_COOKIE = "convmemory_new_key"  # a cookie, so that the server need not store the key
NEW_KEY_S = 60  # the redirect follows at once


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: PageRequest) -> HttpResponse:
    """Render the caller's account and their use of the server's model; store which mail the caller wants."""
    if request.method == "POST":
        chosen = request.POST.get("notices", "")
        if chosen not in MailChoice.Notices.values:
            raise InvalidInput("There is no such choice of mail.")
        values = {"notices": chosen, "language": get_language() or "en"}
        MailChoice.objects.update_or_create(person_id=request.user.pk, defaults=values)
        messages.success(request, _("Saved."))
        return redirect("account")
    use = model_use(archive_id=request.user.pk)
    context = {
        "periods": (use.today, use.month),
        "has_model": endpoint_from_settings() is not None,
        "notices": MailChoice.Notices.choices if can_send_mail() and request.user.email else [],
        "wanted": choice_of(request.user).notices,
    }
    return render(request, "accounts/account.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def appearance(request: PageRequest) -> HttpResponse:
    """Render or store the choices of theme, density and language."""
    if request.method != "POST":
        context = {"themes": THEMES, "densities": DENSITIES, "languages": languages()}
        return render(request, "accounts/appearance.html", context)
    chosen = Appearance(*(request.POST.get(name, "") for name in ("theme", "density", "language")))
    if chosen.theme not in THEMES or chosen.density not in DENSITIES or chosen.language not in languages():
        raise InvalidInput("There is no such appearance.")
    with override(chosen.language or get_language_from_request(request)):
        messages.success(request, _("Saved."))
    response = redirect("appearance")
    remember(response, chosen, is_secure=request.is_secure())
    return response


@require_safe
@signed_in
def key_use(request: PageRequest, key_id: int) -> HttpResponse:
    """Render whether a key has been used yet: the line below a new key polls every two seconds until it was."""
    key = ApiKey.objects.filter(person_id=request.user.pk, pk=key_id).first()
    if key is None:
        raise NotFound(f"There is no API key {key_id}.")
    return render(request, "accounts/key_use.html", {"key": key})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def keys(request: PageRequest) -> HttpResponse:
    """Render the caller's keys, and a form for a new one.

    A new key is shown once, on the page that follows its POST.
    """
    memberships = spaces_of(request.user)
    form = NewKeyForm(request.POST or None, memberships=memberships)
    if request.method == "POST" and form.is_valid():
        return redirect_with_new_key(request, create_key(person=request.user, **form.values()))
    new_key = new_key_of(request)
    context = {
        "keys": active_keys(person=request.user),
        "form": form,
        "memberships": memberships,
        "new_key": new_key,
        "marks": config.mcp_marking,
        "search_address": request.build_absolute_uri("/api/v1/conversations/search"),
    }
    return showing_new_key(request, render(request, "accounts/keys.html", context))


def redirect_with_new_key(request: PageRequest, key: str) -> HttpResponse:
    """Return a redirect to the same page, which shows the new key, so that reloading the page creates no other.

    The key travels in a signed cookie of that page alone, which is deleted when the key is shown: the server stores
    none.
    """
    response = redirect(request.path)
    response.set_signed_cookie(
        NEW_KEY_COOKIE, key, salt=_salt_of(request), max_age=NEW_KEY_S, path=request.path,
        secure=request.is_secure(), httponly=True, samesite="Strict",
    )  # fmt: skip
    response.headers["Cache-Control"] = "private, no-store"
    return response


def new_key_of(request: PageRequest) -> str:
    """Return the key that the POST before this request created, "" if there was none."""
    key = request.get_signed_cookie(NEW_KEY_COOKIE, default=None, salt=_salt_of(request), max_age=NEW_KEY_S)
    return key or ""


def showing_new_key(request: PageRequest, response: HttpResponse) -> HttpResponse:
    """Return the page's response, which deletes the cookie of the new key."""
    if NEW_KEY_COOKIE in request.COOKIES and request.method != "HEAD":
        response.delete_cookie(NEW_KEY_COOKIE, path=request.path, samesite="Strict")
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _salt_of(request: PageRequest) -> str:
    return f"convmemory.accounts.new_key.{request.user.pk}"  # the next user of the same browser must not see it


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def revoke(request: PageRequest, key_id: int) -> HttpResponse:
    """Ask for confirmation, then revoke one key; programs that use it are refused from then on."""
    if request.method != "POST":
        key = active_key(person=request.user, key_id=key_id)
        return render(request, "accounts/revoke_key.html", {"key": key})
    revoke_key(person=request.user, key_id=key_id)
    messages.success(request, _("The key is revoked."))
    return redirect("keys")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def sessions(request: PageRequest) -> HttpResponse:
    """Render the browsers in which the caller is signed in; end one session, or all but this one. Raises: NotFound."""
    current_key = request.session.session_key
    if request.method == "POST":
        if number := request.POST.get("session", ""):
            end_session(person=request.user, number=number, current_key=current_key)
            messages.success(request, _("That browser is signed out."))
        else:
            ended = end_other_sessions(person=request.user, current_key=current_key)
            notice = ngettext(
                "%(count)s other browser is signed out.", "%(count)s other browsers are signed out.", ended
            )
            messages.success(request, notice % {"count": ended})
        return redirect("sessions")
    if request.session.modified:  # it may have begun with this request, by a proxy's header
        request.session.save()
    context = {"sessions": sessions_of(person=request.user, current_key=current_key)}
    return render(request, "accounts/sessions.html", context)


class ChangePassword(PasswordChangeView):
    """The form for a new password."""

    form_class = ChangePasswordForm
    template_name = "accounts/password.html"
    success_url = reverse_lazy("password")

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "address": self.request.META.get("REMOTE_ADDR", "")}

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            ended = form.end_keys_if_asked(form.user)
            record(Action.CHANGED, what="password", person_id=form.user.pk, about_id=form.user.pk)
            warn(form.user, Change.PASSWORD)
        text = _("Your password is changed. Other browsers are signed out.")
        if form.cleaned_data["end_keys"]:
            text += " " + ngettext("%(count)s API key ended.", "%(count)s API keys ended.", ended) % {"count": ended}
        messages.success(self.request, text)
        return answer


SURFACES = ("page", "panel", "rail", "raised", "sunken", "line", "line-strong")
TEXTS = ("text", "soft", "muted", "faint", "accent", "accent-strong", "danger", "warning")
FILLS = ("accent", "accent-soft", "mark", "target", "danger-soft", "warning-soft")
SIZES = ("f11", "f12", "f13", "f14", "f15", "f16", "f20", "f24")
SPACES = ("s1", "s2", "s3", "s4", "s5", "s6")


@require_safe
@signed_in
def components(request: PageRequest) -> HttpResponse:
    """Render tokens and components; reads no data."""
    context = {"surfaces": SURFACES, "texts": TEXTS, "fills": FILLS, "sizes": SIZES, "spaces": SPACES}
    return render(request, "shell/components.html", context)
