"""Pages of spaces: the person's spaces, the members of one, and the choice of the archive that other pages show."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from convmemory.accounts.callers import MAX_NAME_CHARS
from convmemory.accounts.models import Membership
from convmemory.accounts.pages import CHOSEN_SPACE, PageRequest, signed_in
from convmemory.accounts.spaces import (
    create_space,
    get_membership,
    members_of,
    remove_member,
    rename_space,
    set_member,
)
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import parse_number


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def spaces(request: PageRequest) -> HttpResponse:
    """Show the person's spaces; a POST creates one."""
    error = ""
    if request.method == "POST":
        try:
            return redirect("space", create_space(person=request.user, name=request.POST.get("name", "")).pk)
        except InvalidInput as refusal:
            error = str(refusal)
    context = {"memberships": request.caller.spaces, "error": error, "max_name_chars": MAX_NAME_CHARS}
    return render(request, "accounts/spaces.html", context, status=422 if error else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def space(request: PageRequest, space_id: int) -> HttpResponse:
    """Show the members of a space; a POST changes them, as its button says."""
    error = ""
    if request.method == "POST":
        member_id = parse_number(request.POST.get("member", "")) or 0
        try:
            match request.POST.get("action"):
                case "rename":
                    rename_space(person=request.user, space_id=space_id, name=request.POST.get("name", ""))
                case "set":
                    username, role = request.POST.get("username", "").strip(), request.POST.get("role", "")
                    set_member(person=request.user, space_id=space_id, username=username, role=role)
                case "remove":
                    remove_member(person=request.user, space_id=space_id, member_id=member_id)
                case _:
                    raise InvalidInput("Use action=rename, set or remove.")
        except InvalidInput as refusal:
            error = str(refusal)
        except NotFound as unknown:
            get_membership(person=request.user, space_id=space_id)  # of the space itself: not found
            error = str(unknown)
        else:
            if member_id == request.user.pk:
                messages.success(request, _("You have left the space."))
                return redirect("spaces")
            return redirect("space", space_id)
    mine = get_membership(person=request.user, space_id=space_id)
    context = {
        "mine": mine,
        "members": members_of(person=request.user, space_id=space_id),
        "roles": Membership.Role.choices,
        "is_manager": mine.role == Membership.Role.MANAGER,
        "error": error,
        "max_name_chars": MAX_NAME_CHARS,
    }
    return render(request, "accounts/space.html", context, status=422 if error else 200)


@require_POST
@signed_in
def choose(request: PageRequest) -> HttpResponse:
    """Choose the archive that lists, searches and uploads use: a space, or the person's own without one."""
    space_id = parse_number(request.POST.get("space", ""))
    if space_id:
        request.session[CHOSEN_SPACE] = get_membership(person=request.user, space_id=space_id).archive_id
    else:
        request.session.pop(CHOSEN_SPACE, None)
    return redirect("home")
