"""The page "Connect an agent"."""

import sys
from functools import cache
from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_noop
from django.views.decorators.http import etag, require_http_methods, require_safe

from convmemory.accounts.keys import active_keys, create_key
from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.accounts.views import new_key_of, redirect_with_new_key, showing_new_key
from convmemory.core import program
from convmemory.core.text import content_hash
from convmemory.core.web.asgi_types import site_of
from convmemory.mcp_server.clients import commands, setups
from convmemory.mcp_server.http import PATH
from convmemory.mcp_server.places import can_authorize
from convmemory.push.application import application
from convmemory.tools.registry import mcp_tools

KEY_DAYS = 365

SAID = (
    gettext_noop("Every agent of this machine"),
    gettext_noop("on the machine of the server"),
    gettext_noop("It makes a key, and finds the agents. --dry-run only says what it would write."),
    gettext_noop("Every agent of another machine"),
    gettext_noop("on that machine"),
    gettext_noop(
        "The client is one file, and needs only Python 3.11. Its command disconnect takes everything out again."
    ),
    gettext_noop("It starts the server itself, so this is for the machine that convmemory runs on."),
    gettext_noop("Any other agent"),
    gettext_noop("As a command on this machine"),
)
"""The texts of `clients`, which does not translate: the template looks up their translations."""


@cache
def client_etag() -> str:
    return f'"{sha256(application("python3")).hexdigest()}"'


@require_safe
@etag(lambda request: client_etag())
def client(request: HttpRequest) -> HttpResponse:
    """Return the client of this version as one file. It contains the program alone, so it needs no key."""
    headers = {"Cache-Control": "no-cache", "Content-Disposition": 'attachment; filename="client.pyz"'}
    return HttpResponse(application("python3"), content_type="application/zip", headers=headers)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def connect(request: PageRequest) -> HttpResponse:
    """Show the instructions for agents and the list of tools; a POST creates a key and puts it into the
    instructions.
    """
    if request.method == "POST":
        name = request.POST.get("name", "").strip()[:100] or "agents"
        key = create_key(person=request.user, name=name, days=KEY_DAYS, read_only="imports" not in request.POST)
        return redirect_with_new_key(request, key)
    new_key = new_key_of(request)
    site: Any = {
        "server": request.build_absolute_uri("/").rstrip("/"),
        "command": program.command(),
        "user": request.user.get_username(),
        "key": new_key,
    }
    keys = active_keys(person=request.user)
    # Commands that start the server are for those who can log in to its machine.
    context = {
        "address": request.build_absolute_uri(PATH),
        "commands": [setup for setup in commands(**site) if request.user.is_staff or sys.executable not in setup.lines],
        "setups": [setup for setup in setups(**site) if request.user.is_staff or sys.executable not in setup.lines],
        "tools": mcp_tools(),
        "marks": any(tool.writes for tool in mcp_tools()),
        "new_key": new_key,
        "key": next((key for key in keys if new_key and bytes(key.key_hash) == content_hash(new_key)), None),
        "keys": keys,
        "takes_oauth": can_authorize(site_of(request.scheme or "http", request.headers)),
    }
    return showing_new_key(request, render(request, "mcp/connect.html", context))
