"""The page of the dry run, which shows an agent's next request."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.chat.agents import agents_of
from convmemory.chat.dry_run import dry_run_of_agent
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import InvalidInput, NoEndpoint, SwitchedOff
from convmemory.core.numbers import number_or_refuse


@require_safe
@signed_in
def show_context(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the dry run of `?agent=ID`, or of the agent that would answer next; 0 is the server's own."""
    conversation = get_conversation(owner=request.user, conversation_id=conversation_id)
    agent_id = _agent_id(request.GET.get("agent", ""))
    context: dict[str, Any] = {
        "conversation": conversation,
        "agents": agents_of(request.user),
        "agent_id": agent_id,
    }
    try:
        options, run = dry_run_of_agent(owner=request.user, conversation_id=conversation_id, agent_id=agent_id)
    except (InvalidInput, NoEndpoint, SwitchedOff) as error:
        return render(request, "context/dry_run.html", context | {"wrong": str(error)})
    return render(request, "context/dry_run.html", context | {"options": options, "run": run})


def _agent_id(text: str) -> int | None:
    """Raises: InvalidInput."""
    return number_or_refuse(text, f"agent={text[:40]!r} is not the number of an agent.")
