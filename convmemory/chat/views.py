"""Pages of the chat: the composer's target, a new chat, a reply in progress, agents, and the dry run.

The composer's form works without JavaScript: it waits for the reply and redirects to its turn. The same URL answers
with an event stream to clients that accept one.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory import problems
from convmemory.accounts.async_authentication import caller_of_session
from convmemory.accounts.pages import PageRequest, signed_in, to_login
from convmemory.chat import agents, live, replies, versions
from convmemory.chat import agents as agent_documents
from convmemory.chat.agents import agents_of, dry_run_of_agent
from convmemory.chat.clients import Trial, list_models
from convmemory.chat.forms import AgentForm, initial_of
from convmemory.chat.models import Agent, Reply
from convmemory.chat.pages import ComposerContent, composer_for, received_parts
from convmemory.chat.streaming import Request, stream_reply, wait_for_reply
from convmemory.conversations import reading
from convmemory.conversations.models import Message
from convmemory.conversations.pages.markdown_html import render_markdown
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import (
    ConvMemoryError,
    InvalidInput,
    NoEndpoint,
    NotFound,
    StorageFull,
    SwitchedOff,
    TooLarge,
    TooManyAtOnce,
)
from convmemory.core.numbers import number_or_refuse, parse_number
from convmemory.core.threads import in_thread
from convmemory.documents.library import clean_name, get_document
from convmemory.documents.views import Attachments, attachments_page, take_upload

if TYPE_CHECKING:
    from convmemory.documents.models import Document

EVENTS = "text/event-stream"
MAX_RENDERED_CHARS = 20_000  # of a reply in one request; scripts send its last blocks
# A new agent can search the archive, and documents that are attached.
OF_A_NEW_AGENT = {"tools": ["ConversationSearch", "document_search"]}
KEY_DROPPED = gettext_noop(
    "The endpoint is another server now. The stored key was for the one before and is deleted: enter the key again."
)


@require_POST
async def send(request: HttpRequest, conversation_id: int | None = None) -> HttpResponseBase:
    """Answer the composer's message: as a stream if the client accepts one, otherwise as a redirect to the finished
    turn.
    """
    wants_events = EVENTS in request.headers.get("Accept", "")
    caller = await caller_of_session(request)
    if caller is None:
        if wants_events and "HX-Request" not in request.headers:
            return problems.problem(HTTPStatus.UNAUTHORIZED, "You are signed out: sign in again.")
        return to_login(request, "/chat" if conversation_id is None else f"/conversations/{conversation_id}")
    text, replaces = request.POST.get("message", ""), _number(request, "replaces")
    files = tuple(number for field in request.POST.getlist("document") if (number := parse_number(field)) is not None)
    agent_id = _number(request, "agent")
    asked = Request(caller, conversation_id, text, agent_id=agent_id, replaces=replaces, document_ids=files)
    try:
        if wants_events:
            return await stream_reply(asked)
        url = await wait_for_reply(asked)
    except ConvMemoryError as error:
        if wants_events:
            return problems.problem_of(error)
        return await in_thread(_refused, request, asked, error)
    return redirect(url)


def _number(request: HttpRequest, name: str) -> int | None:
    return parse_number(request.POST.get(name, ""))


def _refused(request: HttpRequest, asked: Request, error: ConvMemoryError) -> HttpResponse:
    """Show the composer again, with the text and the reason of the refusal."""
    conversation = None
    if asked.conversation_id is not None and not isinstance(error, NotFound):
        conversation = reading.get_conversation(caller=asked.caller, conversation_id=asked.conversation_id)
    status = problems.status_of(error)
    draft = ComposerContent(asked.text, asked.replaces)
    context = {
        "composer": composer_for(caller=asked.caller, conversation=conversation, written=draft),
        "reason": str(error),
    }
    return render(request, "chat/new.html", context, status=status)


@require_safe
@signed_in
def new_chat(request: PageRequest) -> HttpResponse:
    """Show the composer of a conversation that does not exist yet."""
    composer = composer_for(caller=request.caller, conversation=None)
    return render(request, "chat/new.html", {"composer": composer})


@require_POST
@signed_in
def render_text(request: PageRequest) -> HttpResponse:
    """Return a piece of a reply that is still being written, as the page will show it once it is stored."""
    return HttpResponse(render_markdown(request.POST.get("text", "")[:MAX_RENDERED_CHARS]))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def attach_files(request: PageRequest) -> HttpResponse:
    """Store files for the next message and show them in the composer; a GET with `document` shows one as it is now."""
    rows: list[Document] = []
    refusals: list[tuple[str, str]] = []
    if request.method != "POST":
        number = parse_number(request.GET.get("document", ""))
        rows.append(get_document(caller=request.caller, document_id=number or 0))
    for file in request.FILES.getlist("file"):
        try:
            rows.append(take_upload(caller=request.caller, file=file).document)
        except (InvalidInput, TooLarge, TooManyAtOnce, StorageFull) as error:
            refusals.append((clean_name(file.name or "document"), str(error)))
    return render(request, "chat/attached_files.html", {"rows": rows, "refusals": refusals})


@require_safe
@signed_in
def edit_question(request: PageRequest, conversation_id: int, message_id: int) -> HttpResponse:
    """Show a page to rewrite a question; with scripts, the conversation's page does that."""
    conversation = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    text = replies.question_asked_here(caller=request.caller, conversation_id=conversation_id, message_id=message_id)
    composer = composer_for(caller=request.caller, conversation=conversation, written=ComposerContent(text, message_id))
    return render(request, "chat/new.html", {"composer": composer, "conversation": conversation})


@require_POST
@signed_in
def choose_version(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Let the thread go on from the version of a question that `message` names."""
    message_id = _number(request, "message") or 0
    versions.choose_version(caller=request.caller, conversation_id=conversation_id, message_id=message_id)
    turn = (
        Message.objects.filter(archive_id=request.caller.archive_id, pk=message_id)
        .values_list("turn_number", flat=True)
        .first()
    )
    address = reverse("conversation", args=[conversation_id])
    return redirect(address if turn is None else f"{address}?turn={turn}#turn-{turn}")


@require_POST
@signed_in
def stop(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Stop the reply in progress; succeeds without one too."""
    reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    try:
        live.stop_here(replies.request_stop(caller=request.caller, conversation_id=conversation_id))
    except NotFound:
        messages.info(request, _("Nothing is being written any more."))
    return redirect("conversation", conversation_id)


@require_safe
@signed_in
def running(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the running reply so far, for a page that is opened meanwhile; the page reloads at the reply's end."""
    conversation = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    reply = Reply.objects.filter(
        archive_id=request.caller.archive_id, conversation=conversation, status=Reply.Status.RUNNING
    ).first()
    if reply is None:
        return HttpResponse(headers={"HX-Refresh": "true"})
    context = {"conversation": conversation, "parts": received_parts(reply)}
    return render(request, "chat/running.html", context)


@require_safe
@signed_in
def show_reply(request: PageRequest, conversation_id: int, reply_id: int) -> HttpResponse:
    """Show the effect of the context pipeline on one reply."""
    conversation = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    reply = Reply.objects.filter(archive_id=request.caller.archive_id, conversation=conversation, pk=reply_id).first()
    if reply is None:
        raise NotFound(f"There is no reply {reply_id} in conversation {conversation_id}.")
    context = {"conversation": conversation, "reply": reply}
    return render(request, "chat/reply.html", context)


@require_safe
@signed_in
def list_agents(request: PageRequest) -> HttpResponse:
    of_caller = agents.agents_of(request.caller)
    context = {
        "agents": of_caller,
        "server_endpoint": agents.has_endpoint(None, caller=request.caller),
        "can_chat": any(agents.has_endpoint(agent, caller=request.caller) for agent in [None, *of_caller]),
    }
    return render(request, "chat/agents.html", context)


@require_POST
async def check_endpoint(request: HttpRequest, agent_id: int | None = None) -> HttpResponseBase:
    """Show the field of the model as a menu of the endpoint's models, or with its error; a part of the agent's page."""
    caller = await caller_of_session(request)
    if caller is None:
        return to_login(request, "/agents")
    fields = request.POST
    trial = Trial(fields.get("base_url", ""), fields.get("api_key", ""), fields.get("model", ""), agent_id)
    outcome: dict[str, Any] = {"models": None}
    try:
        outcome["models"] = await list_models(caller=caller, trial=trial)
    except ConvMemoryError as error:
        outcome["problem"] = str(error)

    def show() -> HttpResponse:
        model = trial.model.strip()
        form = AgentForm(caller=caller, initial={"model": model})
        typed = {"form": form, "model": model, "base_url": trial.base_url.strip(), "agent_id": agent_id}
        return render(request, "chat/model_field.html", outcome | typed)

    return await in_thread(show)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit_agent(request: PageRequest, agent_id: int | None = None) -> HttpResponse:
    """Show the form of a new or an existing agent, or save it."""
    agent = agents.get_agent(caller=request.caller, agent_id=agent_id) if agent_id is not None else None
    form = AgentForm(
        request.POST or None, caller=request.caller, initial=initial_of(agent) if agent else OF_A_NEW_AGENT
    )
    if request.method == "POST" and form.is_valid() and _save(request, form, agent):
        return redirect("agents")
    status = 422 if request.method == "POST" else 200
    lists_models = agents.has_endpoint(agent, caller=request.caller)
    context = {"form": form, "agent": agent, "agent_id": agent_id, "lists_models": lists_models}
    return render(request, "chat/agent.html", context, status=status)


def _save(request: PageRequest, form: AgentForm, agent: Agent | None) -> bool:
    values: dict[str, Any] = form.values()
    try:
        if agent is None:
            saved = agents.create_agent(caller=request.caller, values=values)
        else:
            saved = agents.change_agent(caller=request.caller, agent_id=agent.pk, values=values)
    except InvalidInput as error:
        form.add_error(None, str(error))
        return False
    messages.success(request, _("“%(name)s” is saved.") % {"name": saved.name})
    if saved.key_was_dropped:
        messages.warning(request, _(KEY_DROPPED))
    return True


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def documents_of_agent(request: PageRequest, agent_id: int) -> HttpResponse:
    """Show the documents that the agent searches in its conversations; a POST attaches or detaches some."""
    of: dict[str, Any] = {"caller": request.caller, "agent_id": agent_id}
    attachments = Attachments(
        heading=_("Documents of the agent “%(name)s”") % {"name": agents.get_agent(**of).name},
        purpose=_("In every conversation this agent searches the documents that are attached here."),
        back=reverse("agent", args=[agent_id]),
        back_label=_("Back to the agent"),
        documents=agent_documents.documents_of_agent(**of),
        attach=lambda chosen: agent_documents.attach_to_agent(**of, document_ids=chosen),
        detach=lambda gone: agent_documents.detach_from_agent(**of, document_id=gone),
    )
    return attachments_page(request, attachments)


@require_POST
@signed_in
def delete_agent(request: PageRequest, agent_id: int) -> HttpResponse:
    agents.delete_agent(caller=request.caller, agent_id=agent_id)
    messages.success(request, _("The agent is deleted. Its conversations stay."))
    return redirect("agents")


@require_safe
@signed_in
def show_context(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the dry run of `?agent=ID`, or of the agent that would answer next; 0 is the server's own."""
    conversation = get_conversation(caller=request.caller, conversation_id=conversation_id)
    text = request.GET.get("agent", "")
    agent_id = number_or_refuse(text, f"agent={text[:40]!r} is not the number of an agent.")
    context: dict[str, Any] = {
        "conversation": conversation,
        "agents": agents_of(request.caller),
        "agent_id": agent_id,
    }
    try:
        options, run = dry_run_of_agent(caller=request.caller, conversation_id=conversation_id, agent_id=agent_id)
    except (InvalidInput, NoEndpoint, SwitchedOff) as error:
        return render(request, "context/dry_run.html", context | {"wrong": str(error)})
    return render(request, "context/dry_run.html", context | {"options": options, "run": run})
