"""Pages of share links: making and revoking them, for signed-in users, and what a link shows, for all who have it.

A conversation as one page, to read or print it as a whole, is the same page without a link.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.validators import MaxValueValidator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from convmemory.accounts.pages import PageRequest, absolute_address, in_archive, signed_in, to_login
from convmemory.conversations import reading, sharing
from convmemory.conversations.exports.formats import FORMATS, exported, record_export, streamed
from convmemory.conversations.exports.html_page import HtmlWriter
from convmemory.conversations.exports.selection import ExportSelection
from convmemory.conversations.pages.pictures import picture_of
from convmemory.core.config import config
from convmemory.core.errors import NotFound, SwitchedOff
from convmemory.core.numbers import parse_number

LIFETIMES = (1, 7, 30)
FOR_EVER = ""
# The page loads nothing and runs nothing, even if the sanitiser let something pass.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-popups"
)


class ShareForm(forms.Form):
    """What a new link shows, for how long, and to whom, as far as the server's settings allow it."""

    turn = forms.IntegerField(min_value=1, required=False, label=gettext_lazy("Only turn (empty: all)"))
    expires = forms.ChoiceField(required=False, label=gettext_lazy("Expires"))
    audience = forms.ChoiceField(required=False, label=gettext_lazy("Who may open it"))

    def __init__(self, *args: Any, turn_count: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        turn: Any = self.fields["turn"]
        turn.validators.append(MaxValueValidator(turn_count))
        most = config.sharing_max_days
        days = [days for days in LIFETIMES if not most or days < most] + ([most] if most else [])
        choices = [(str(each), ngettext("%(count)s day", "%(count)s days", each) % {"count": each}) for each in days]
        expires: Any = self.fields["expires"]
        expires.choices = choices if most else [*choices, (FOR_EVER, _("Never"))]
        expires.initial = "7" if 7 in days else str(days[-1])
        audience: Any = self.fields["audience"]
        people = ("people", _("People who are signed in"))
        audience.choices = (
            [people, ("anybody", _("Any person who has it"))] if config.sharing == "anybody" else [people]
        )

    def clean_expires(self) -> str:
        """Return the days of the default for a request that does not name any; only an empty field is "never"."""
        is_named = self.add_prefix("expires") in self.data
        return str(self.cleaned_data["expires"] if is_named else self.fields["expires"].initial)

    def values(self) -> dict[str, Any]:
        """Return the arguments of `sharing.create_link` except the owner and the conversation."""
        days, number = self.cleaned_data["expires"], self.cleaned_data["turn"]
        return {
            "turn": None if number is None else number - 1,
            "days": int(days) if days else None,
            "audience": self.cleaned_data["audience"] or "people",
        }


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def share(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the links to a conversation and a form for a new one."""
    row = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    form = ShareForm(request.POST if request.method == "POST" else None, turn_count=row.turn_count)
    if request.method == "POST" and form.is_valid():
        made, _token = sharing.create_link(caller=request.caller, conversation_id=row.pk, **form.values())
        messages.success(request, _("The link is made: copy it from the list."))
        return redirect(f"{reverse('share-conversation', args=[row.pk])}?made={made.id}")
    context = {
        "conversation": row,
        "form": form,
        "made": parse_number(request.GET.get("made", "")),
        "links": _with_addresses(request, sharing.links_of(caller=request.caller, conversation_id=row.pk)),
        "is_off": config.sharing == "off",
        "rule": rule_of_server(),
    }
    return render(request, "conversations/share.html", context, status=422 if form.errors else 200)


def rule_of_server() -> str:
    """Return what the server's settings allow of links."""
    most = config.sharing_max_days
    days = ngettext("%(count)s day", "%(count)s days", most) % {"count": most}
    if config.sharing == "people":
        text = _("On this server a link opens only for people who have an account here and are signed in")
        text_with_end = _("%(rule)s, and for at most %(days)s.") % {"rule": text, "days": days}
        return text_with_end if most else f"{text}."
    return _("On this server a link works for at most %(days)s.") % {"days": days} if most else ""


def _with_addresses(request: PageRequest, links: list[sharing.Shared]) -> list[tuple[sharing.Shared, str]]:
    """Return the links, each with the address that can be copied; "" for one whose token was not kept."""
    addresses = (reverse("shared", args=[link.token]) if link.token else "" for link in links)
    return [(link, path and absolute_address(request, path)) for link, path in zip(links, addresses, strict=True)]


@require_safe
@signed_in
def share_links(request: PageRequest) -> HttpResponse:
    """Render all of the caller's links."""
    links = _with_addresses(request, sharing.links_of(caller=request.caller))
    context = {"links": links, "rule": rule_of_server(), "is_off": config.sharing == "off"}
    return render(request, "conversations/share_links.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def revoke(request: PageRequest, link_id: int) -> HttpResponse:
    """Ask for confirmation, then revoke one link."""
    if request.method != "POST":
        link = sharing.link_of(caller=request.caller, link_id=link_id)
        return render(request, "conversations/revoke_share_link.html", {"shared": link})
    sharing.revoke_link(caller=request.caller, link_id=link_id)
    messages.success(request, _("The link is revoked: it no longer opens."))
    return redirect("share-links")


@never_cache
@require_safe
@in_archive
def article(request: PageRequest, conversation_id: int) -> HttpResponseBase:
    """Return the whole conversation as one page, to read or print."""
    pictures = partial(picture_of, caller=request.caller, conversation_id=conversation_id)
    selection = ExportSelection(ids=(conversation_id,))
    title = reading.get_conversation(caller=request.caller, conversation_id=conversation_id).title
    writer = partial(HtmlWriter, title=title or _("Untitled conversation"), pictures=pictures)
    pieces = exported(caller=request.caller, selection=selection, format=replace(FORMATS["html"], writer=writer))
    response = streamed(pieces, media_type=FORMATS["html"].media_type)
    response.headers["Content-Security-Policy"] = POLICY
    record_export(caller=request.caller, selection=selection)
    return response


@never_cache
@require_safe
def shared(request: HttpRequest, token: str) -> HttpResponseBase:
    """Return the page that a link shows. A request for its head alone is not counted."""
    is_read = request.method != "HEAD"
    try:
        pieces = sharing.open_link(token, visitor_id=request.user.pk, is_counted=is_read)
    except sharing.SignInNeeded:
        return to_login(request)
    except SwitchedOff:
        reason = _("Sharing is off on this server, so that no link opens. Ask who runs this server.")
        context = {"title": _("This link shows nothing"), "reason": reason}
        response: HttpResponseBase = render(request, "refused.html", context, status=404)
    except NotFound:
        reason = _("It is wrong, was revoked, or has expired. Ask the person who gave it to you for a new one.")
        context = {"title": _("This link shows nothing"), "reason": reason}
        response = render(request, "refused.html", context, status=404)
    else:
        response = streamed(pieces if is_read else iter(()), media_type=FORMATS["html"].media_type)
        response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
