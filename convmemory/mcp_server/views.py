"""The page "Connect an agent"."""

import sys
from pathlib import Path

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.views import PageRequest, signed_in
from convmemory.core.options import PathOptions
from convmemory.mcp_server.clients import setups
from convmemory.mcp_server.http import PATH
from convmemory.tools.registry import tool_definitions


@require_safe
@signed_in
def connect(request: PageRequest) -> HttpResponse:
    """Set-up lines for the agents that people use, and the tools they get."""
    manage = str(Path(PathOptions.from_settings().base_dir) / "manage.py")
    command = [sys.executable, manage, "mcp", "--user", request.user.get_username()]
    address = request.build_absolute_uri(PATH)
    context = {"address": address, "setups": setups(address=address, command=command), "tools": tool_definitions()}
    return render(request, "mcp/connect.html", context)
