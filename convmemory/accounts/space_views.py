"""Pages of spaces: the person's spaces and invitations, the members of one, and the choice of the archive that other
pages show.
"""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.callers import MAX_NAME_CHARS
from convmemory.accounts.mail import can_send_mail
from convmemory.accounts.models import Membership
from convmemory.accounts.pages import CHOSEN_SPACE, PageRequest, absolute_address, signed_in
from convmemory.accounts.space_invitations import (
    LASTS,
    MAX_USERNAME_CHARS,
    accept,
    accept_by_link,
    decline,
    invitation_by_link,
    invitations_of_space,
    invite,
    invite_by_link,
    path_of,
    withdraw,
)
from convmemory.accounts.spaces import (
    change_role,
    create_space,
    get_membership,
    may_make_spaces,
    members_of,
    remove_member,
    rename_space,
)
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import parse_number


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def spaces(request: PageRequest) -> HttpResponse:
    """Show the person's spaces and invitations; a POST creates a space."""
    if request.method == "POST":
        try:
            return redirect("space", create_space(person=request.user, name=request.POST.get("name", "")).pk)
        except InvalidInput as refusal:
            return _spaces_page(request, error=str(refusal), status=422)
    return _spaces_page(request)


@require_POST
@signed_in
def answer_invitation(request: PageRequest) -> HttpResponse:
    """Accept or decline an invitation, as the button says."""
    invitation_id = parse_number(request.POST.get("invitation", "")) or 0
    try:
        match request.POST.get("action"):
            case "accept":
                return redirect("space", accept(person=request.user, invitation_id=invitation_id).archive_id)
            case "decline":
                decline(person=request.user, invitation_id=invitation_id)
            case _:
                raise InvalidInput("Use action=accept or decline.")
    except NotFound as gone:
        return _spaces_page(request, error=str(gone), status=404)
    except InvalidInput as refusal:
        return _spaces_page(request, error=str(refusal), status=422)
    messages.success(request, _("The invitation is declined."))
    return redirect("spaces")


def _spaces_page(request: PageRequest, *, error: str = "", status: int = 200) -> HttpResponse:
    context = {
        "memberships": request.caller.spaces,
        "may_make_spaces": may_make_spaces(request.user),
        "days": LASTS.days,
        "error": error,
        "max_name_chars": MAX_NAME_CHARS,
    }
    return render(request, "accounts/spaces.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def space(request: PageRequest, space_id: int) -> HttpResponse:
    """Show the members of a space; a POST changes them, as its button says."""
    error = ""
    if request.method == "POST":
        try:
            has_left = _change_space(request, space_id)
        except InvalidInput as refusal:
            error = str(refusal)
        except NotFound as unknown:
            get_membership(person=request.user, space_id=space_id)  # of the space itself: not found
            error = str(unknown)
        else:
            if has_left:
                messages.success(request, _("You have left the space."))
                return redirect("spaces")
            return redirect("space", space_id)
    mine = get_membership(person=request.user, space_id=space_id)
    is_manager = mine.role == Membership.Role.MANAGER
    rows = invitations_of_space(person=request.user, space_id=space_id) if is_manager else ()
    context = {
        "mine": mine,
        "members": members_of(person=request.user, space_id=space_id),
        "invitations": [(row, absolute_address(request, path_of(row)) if row.by_link else "") for row in rows],
        "can_send_mail": can_send_mail(),
        "roles": Membership.Role.choices,
        "is_manager": is_manager,
        "days": LASTS.days,
        "error": error,
        "max_name_chars": MAX_NAME_CHARS,
        "max_username_chars": MAX_USERNAME_CHARS,
    }
    return render(request, "accounts/space.html", context, status=422 if error else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def join(request: PageRequest, token: str) -> HttpResponse:
    """Show who invites to which space by the link; a POST makes the person a member."""
    error = ""
    try:
        invitation = invitation_by_link(token)
        if request.method == "POST":
            return redirect("space", accept_by_link(person=request.user, token=token))
    except NotFound as gone:
        refused = {"title": _("This invitation is not valid"), "reason": str(gone)}
        return render(request, "refused.html", refused, status=404)
    except InvalidInput as refusal:
        error = str(refusal)
    context = {"invitation": invitation, "error": error}
    return render(request, "accounts/join_space.html", context, status=422 if error else 200)


def _change_space(request: PageRequest, space_id: int) -> bool:
    """Do what the button of the space's page says; return whether the person has left the space."""
    person, form = request.user, request.POST
    member_id = parse_number(form.get("member", "")) or 0
    match form.get("action"):
        case "rename":
            rename_space(person=person, space_id=space_id, name=form.get("name", ""))
        case "invite":
            invite(person=person, space_id=space_id, username=form.get("username", ""), role=form.get("role", ""))
        case "link":
            invite_by_link(person=person, space_id=space_id, address=form.get("address", ""), role=form.get("role", ""))
        case "withdraw":
            invitation_id = parse_number(form.get("invitation", "")) or 0
            withdraw(person=person, space_id=space_id, invitation_id=invitation_id)
        case "set":
            change_role(person=person, space_id=space_id, member_id=member_id, role=form.get("role", ""))
        case "remove":
            remove_member(person=person, space_id=space_id, member_id=member_id)
            return member_id == person.pk
        case _:
            raise InvalidInput("Use action=rename, invite, link, withdraw, set or remove.")
    return False


@require_POST
@signed_in
def choose(request: PageRequest) -> HttpResponse:
    """Choose the archive that lists, searches and uploads use: a space, or the person's own without one.

    With "all" it is their own, from which searches look through all of their spaces, too.
    """
    space_id = parse_number(request.POST.get("space", ""))
    if space_id:
        request.session[CHOSEN_SPACE] = get_membership(person=request.user, space_id=space_id).archive_id
    else:
        request.session.pop(CHOSEN_SPACE, None)
    return redirect("search" if request.POST.get("space") == "all" else "home")


@require_safe
@signed_in
def space_choices(request: PageRequest) -> HttpResponse:
    """Show the archives to choose from, for the menu of the rail."""
    return render(request, "shell/space_choices.html")
