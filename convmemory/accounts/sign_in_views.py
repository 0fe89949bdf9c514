"""Pages of signing in by password, second factor and passkey; and the settings page of second factor and passkeys."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django import forms
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.encoding import iri_to_uri
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.auditing import Action, record, record_repeatable
from convmemory.accounts.mail import Change, can_send_mail, warn
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.core.config import config
from convmemory.core.encryption import decrypt
from convmemory.core.errors import InvalidInput, NotAllowed
from convmemory.core.templatetags.shell import signs_in_by_password
from convmemory.core.web.remote_user import remote_user_of
from convmemory.sign_in import passkeys, second_factor
from convmemory.sign_in.attempts import is_password_of
from convmemory.sign_in.forms import SignInForm
from convmemory.sign_in.second_factor import Step

P = ParamSpec("P")

COOKIE = "convmemory_second_step"
COOKIE_S = 600  # from the password to the code
SALT = "convmemory.accounts.second_step"
MOST_NEXT_CHARS = 2_000  # browsers refuse cookies above 4 KB
CONFIRMED_AT = "confirmed_at"  # in the session
CONFIRMED_S = 600


class SignIn(LoginView):
    """The log-in page: a password, which a second factor may follow, or a passkey."""

    template_name = "accounts/login.html"
    authentication_form = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        more = {"can_send_mail": can_send_mail(), "config": config, "remote_user": remote_user_of(self.request)}
        if not config.sso_only:
            more["passkey_options"] = passkeys.request_options(self.request.get_host())
        return super().get_context_data(**kwargs, **more)

    def form_valid(self, form: Any) -> HttpResponse:
        return enter(self.request, form.get_user(), next_page=self.get_success_url())


def enter(request: HttpRequest, user: User, *, next_page: str) -> HttpResponse:
    """Sign in who has given the right password, or lead to the second step, which a signed cookie remembers."""
    if second_factor.step_after_password(user) is Step.NONE:
        login(request, user)
        return HttpResponseRedirect(next_page)
    next_page = next_page if len(next_page) <= MOST_NEXT_CHARS else reverse("home")
    kept = {"user": user.pk, "hash": user.get_session_auth_hash(), "next": next_page}
    response = redirect("second-step")
    response.set_cookie(
        COOKIE, signing.dumps(kept, salt=SALT, compress=True), max_age=COOKIE_S, path=reverse("second-step"),
        secure=request.is_secure(), httponly=True, samesite="Lax",
    )  # fmt: skip
    return response


class CodeForm(forms.Form):
    """A code of an app, or a recovery code."""

    code = forms.CharField(max_length=100)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for a code after the right password; who must have a second factor and has none sets one up here.

    Raises: CodesPaused.
    """
    try:
        kept = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=COOKIE_S)
    except signing.BadSignature:
        return redirect("login")
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    # A password that was changed meanwhile is no longer the right one.
    if user is None or not constant_time_compare(kept["hash"], user.get_session_auth_hash()):
        return redirect("login")
    if second_factor.step_after_password(user) is Step.SET_UP:
        return _set_up_before_entry(request, user, next_page=kept["next"])
    form, error = CodeForm(request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        address = request.META.get("REMOTE_ADDR", "")
        if second_factor.accept_code(user=user, code=form.cleaned_data["code"], address=address):
            login(request, user)
            return _without_cookie(HttpResponseRedirect(kept["next"]))
        record_repeatable(Action.SIGN_IN_FAILED, what="second factor", about_id=user.pk)
        error = _("That code is wrong, or was used before. An app shows another one every half a minute.")
    factor = second_factor.factor_of(user)
    context = {
        "error": error,
        "next": kept["next"],
        "factor": factor,
        "is_unreadable": factor is not None and decrypt(factor.app_secret_encrypted) is None,
        "has_passkeys": bool(passkeys.passkeys_of(user)),
        "passkey_options": passkeys.request_options(request.get_host()),
    }
    return render(request, "accounts/second_step.html", context, status=422 if error or form.errors else 200)


def _set_up_before_entry(request: HttpRequest, user: User, *, next_page: str) -> HttpResponse:
    context = app_context(request, user)
    if context["codes"] is None:
        status = 422 if context["error"] else 200
        return render(request, "accounts/set_up_before_entry.html", context, status=status)
    login(request, user)
    record(Action.MADE, what="authenticator app", person_id=user.pk, about_id=user.pk)
    warn(user, Change.APP)
    return _without_cookie(_with_codes(request, context["codes"], next_page=next_page))


def _without_cookie(response: HttpResponse) -> HttpResponse:
    response.delete_cookie(COOKIE, path=reverse("second-step"), samesite="Lax")
    return response


@never_cache
@require_POST
def passkey_sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in by a passkey alone, from the log-in page or instead of a code."""
    next_page = request.POST.get("next", "")
    is_here = url_has_allowed_host_and_scheme(next_page, {request.get_host()}, require_https=request.is_secure())
    try:
        user = passkeys.owner_of_answer(request.POST.get("credential", ""), host=request.get_host())
    except passkeys.PasskeyRefused as error:
        if error.person_id is not None:
            record_repeatable(Action.SIGN_IN_FAILED, what="passkey", about_id=error.person_id)
        messages.error(request, str(error))
        return redirect(f"{reverse('login')}?{urlencode({'next': next_page})}" if is_here else "login")
    login(request, user)
    return _without_cookie(HttpResponseRedirect(iri_to_uri(next_page) if is_here else reverse("home")))


def of_local_account(
    view: Callable[Concatenate[PageRequest, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """Admits signed-in users whose account has a password here. Raises: NotAllowed."""

    @signed_in
    @wraps(view)
    def wrapper(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not signs_in_by_password(request.user):
            raise NotAllowed(_("Your account signs in elsewhere: a second factor is set up there."))
        return view(request, *args, **kwargs)

    return wrapper


def confirmed(view: Callable[Concatenate[PageRequest, P], HttpResponse]) -> Callable[..., HttpResponse]:
    """Admits users who gave the password or a passkey again in the last ten minutes; leads others to that page."""

    @of_local_account
    @wraps(view)
    def wrapper(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.session.get(CONFIRMED_AT, 0) < time.time() - CONFIRMED_S:
            return redirect(f"{reverse('confirm')}?{urlencode({'next': request.path})}")
        response = view(request, *args, **kwargs)
        response.headers["Cache-Control"] = "private, no-store"
        return response

    return wrapper


class ConfirmForm(forms.Form):
    password = forms.CharField(max_length=4_096, strip=False)


@require_http_methods(["GET", "HEAD", "POST"])
@of_local_account
def confirm(request: PageRequest) -> HttpResponse:
    """Ask for the password or a passkey again, then lead back. Raises: PasswordsPaused, HashingBusy."""
    purpose, error = f"confirm {request.user.pk}", ""
    if request.method == "POST":
        form = ConfirmForm(request.POST)
        if answer := request.POST.get("credential", ""):
            try:
                owner = passkeys.owner_of_answer(answer, host=request.get_host(), purpose=purpose)
                is_right = owner.pk == request.user.pk
                error = "" if is_right else _("That is another account's passkey.")
            except passkeys.PasskeyRefused as refusal:
                is_right, error = False, str(refusal)
        else:
            address = request.META.get("REMOTE_ADDR", "")
            is_right = form.is_valid() and is_password_of(
                user=request.user, password=form.cleaned_data["password"], address=address
            )
            error = "" if is_right else _("That is not your password.")
        if is_right:
            request.session[CONFIRMED_AT] = time.time()
            next_page = request.POST.get("next", "")
            is_here = url_has_allowed_host_and_scheme(next_page, None)
            return redirect(iri_to_uri(next_page) if is_here else "second-factor")
    context = {
        "error": error,
        "next": request.POST.get("next", request.GET.get("next", "")),
        "has_passkeys": bool(passkeys.passkeys_of(request.user)),
        "passkey_options": passkeys.request_options(request.get_host(), purpose),
    }
    return render(request, "accounts/confirm.html", context, status=422 if error else 200)


@require_safe
@of_local_account
def second_factor_page(request: PageRequest) -> HttpResponse:
    """Render the app, the passkeys and the recovery codes that the user has, without any secret."""
    context = {
        "factor": second_factor.factor_of(request.user),
        "passkeys": passkeys.passkeys_of(request.user),
        "is_required": second_factor.must_have_second_factor(request.user),
    }
    return render(request, "accounts/second_factor.html", context)


def app_context(request: HttpRequest, user: User) -> dict[str, Any]:
    """Return what the form that sets up an app shows; `codes` is None until the right code was sent."""
    secret, prepared = second_factor.prepare_app(user, request.POST.get("prepared", ""))
    error, codes = "", None
    if request.method == "POST":
        form = CodeForm(request.POST)
        try:
            codes = second_factor.set_up_app(user, secret, form.cleaned_data["code"] if form.is_valid() else "")
        except InvalidInput as refusal:
            error = str(refusal)
    groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    # The picture is made here from a name that the library escapes.
    qr_code = mark_safe(second_factor.qr_code(user, secret))  # noqa: S308
    return {"secret": groups, "prepared": prepared, "qr_code": qr_code, "error": error, "codes": codes}


@require_http_methods(["GET", "HEAD", "POST"])
@confirmed
def set_up_app(request: PageRequest) -> HttpResponse:
    """Show a new secret as QR code and text; a POST with a code of it stores it."""
    context = app_context(request, request.user)
    if context["codes"] is None:
        return render(request, "accounts/set_up_app.html", context, status=422 if context["error"] else 200)
    record(Action.MADE, what="authenticator app", person_id=request.user.pk, about_id=request.user.pk)
    warn(request.user, Change.APP)
    return _with_codes(request, context["codes"], next_page=reverse("second-factor"))


def _with_codes(request: HttpRequest, codes: list[str], *, next_page: str) -> HttpResponse:
    """Show new recovery codes this once; without any, lead on."""
    if not codes:
        messages.success(request, _("Saved."))
        return HttpResponseRedirect(next_page)
    response = render(request, "accounts/recovery_codes.html", {"codes": codes, "next": next_page})
    response.headers["Cache-Control"] = "private, no-store"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@confirmed
def remove_app(request: PageRequest) -> HttpResponse:
    """Ask for confirmation, then remove the app. Raises: InvalidInput if a second factor is required."""
    if request.method != "POST":
        title = gettext_lazy("Remove the authenticator app?")
        consequence = gettext_lazy(
            "Its codes are no longer asked for. Without a passkey, the password alone signs you in."
        )
        return render(request, "accounts/remove_factor.html", {"title": title, "consequence": consequence})
    second_factor.remove_app(request.user)
    record(Action.DELETED, what="authenticator app", person_id=request.user.pk, about_id=request.user.pk)
    warn(request.user, Change.APP_REMOVED)
    messages.success(request, _("The authenticator app is removed."))
    return redirect("second-factor")


@require_http_methods(["GET", "HEAD", "POST"])
@confirmed
def renew_recovery_codes(request: PageRequest) -> HttpResponse:
    """Ask for confirmation, then replace the recovery codes and show the new ones."""
    if not second_factor.has_second_factor(request.user):
        return redirect("second-factor")
    if request.method != "POST":
        return render(request, "accounts/renew_recovery_codes.html")
    codes = second_factor.renew_recovery_codes(request.user)
    record(Action.CHANGED, what="recovery codes", person_id=request.user.pk, about_id=request.user.pk)
    warn(request.user, Change.CODES)
    return _with_codes(request, codes, next_page=reverse("second-factor"))


class PasskeyForm(forms.Form):
    name = forms.CharField(max_length=100, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@confirmed
def add_passkey(request: PageRequest) -> HttpResponse:
    """Ask for a name, and store the passkey that the browser makes."""
    error, form, host = "", PasskeyForm(request.POST or None), request.get_host()
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"] or _("Passkey")
        try:
            codes = passkeys.add_passkey(request.user, name=name, answer=request.POST.get("credential", ""), host=host)
        except passkeys.PasskeyRefused as refusal:
            error = str(refusal)
        else:
            record(Action.MADE, what="passkey", person_id=request.user.pk, about_id=request.user.pk)
            warn(request.user, Change.PASSKEY)
            return _with_codes(request, codes, next_page=reverse("second-factor"))
    context = {"form": form, "error": error, "passkey_options": passkeys.creation_options(request.user, host)}
    return render(request, "accounts/add_passkey.html", context, status=422 if error or form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@of_local_account
def rename_passkey(request: PageRequest, passkey_id: int) -> HttpResponse:
    """Ask for another name, and give it to a passkey. Raises: NotFound."""
    passkey = passkeys.passkey_of(request.user, passkey_id)
    form = PasskeyForm(request.POST or None, initial={"name": passkey.name})
    if request.method == "POST" and form.is_valid():
        passkeys.rename_passkey(request.user, passkey_id, form.cleaned_data["name"] or _("Passkey"))
        record(Action.CHANGED, what=f"passkey {passkey_id}", person_id=request.user.pk, about_id=request.user.pk)
        messages.success(request, _("Saved."))
        return redirect("second-factor")
    context = {"form": form, "title": _("Rename the passkey %(name)s") % {"name": passkey.name}}
    return render(request, "accounts/rename_passkey.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@confirmed
def remove_passkey(request: PageRequest, passkey_id: int) -> HttpResponse:
    """Ask for confirmation, then delete a passkey. Raises: NotFound; InvalidInput if a second factor is required."""
    passkey = passkeys.passkey_of(request.user, passkey_id)
    if request.method != "POST":
        title = _("Remove the passkey %(name)s?") % {"name": passkey.name}
        consequence = gettext_lazy("It no longer signs you in. Delete it on your device, too, or it is offered again.")
        return render(request, "accounts/remove_factor.html", {"title": title, "consequence": consequence})
    passkeys.remove_passkey(request.user, passkey_id)
    record(Action.DELETED, what=f"passkey {passkey_id}", person_id=request.user.pk, about_id=request.user.pk)
    warn(request.user, Change.PASSKEY_REMOVED)
    messages.success(request, _("The passkey is removed."))
    return redirect("second-factor")
