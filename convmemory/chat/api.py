"""Routes for chatting: the stream, stopping it, replies, agents, and the dry run of an agent's context."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Field, P, QueryEx, Router, Schema, Status

from convmemory.accounts.async_authentication import ASYNC_AUTHENTICATION
from convmemory.accounts.authentication import caller_of
from convmemory.chat import agents, live, replies
from convmemory.chat import agents as agent_documents
from convmemory.chat.agents import dry_run_of_agent
from convmemory.chat.asking import answer_lines, prepare_answer
from convmemory.chat.models import Agent
from convmemory.chat.schemas import AgentIn, AgentList, AgentOut, AgentPatch, AskIn, MessageToAnswer, ReplyList, StopOut
from convmemory.chat.streaming import HEADERS, Request, stream_reply
from convmemory.core.threads import first_in_thread
from convmemory.documents.schemas import AttachedDocuments, AttachIn
from search.searching import SearchQuery, parse_kinds, parse_scope

router = Router(tags=["chat"])
NULLABLE = ("context_window", "reply_tokens", "temperature")


@router.post(
    "/conversations/{int:conversation_id}/stream",
    auth=ASYNC_AUTHENTICATION,
    summary="Send a message, receive the reply as events",
)
async def stream(request: HttpRequest, conversation_id: int, body: MessageToAnswer) -> StreamingHttpResponse:
    """Server-sent events: message_started, context, text, thinking, tool_call, tool_result, turn, done or error.

    A `done` that says `title_follows` is followed by `title`, which is empty where the model gave none.
    """
    return await stream_reply(
        Request(caller_of(request), conversation_id, body.message, agent_id=body.agent_id, replaces=body.replaces)
    )


@router.post("/ask", auth=ASYNC_AUTHENTICATION, summary="Ask your archive, receive an answer with citations as events")
async def ask(request: HttpRequest, body: AskIn) -> StreamingHttpResponse:
    """Server-sent events: evidence, sentence for each that has a checked citation, then done or error.

    The status of `done` is answered, unsupported, nothing_answers, no_question or no_model.
    """
    query = SearchQuery(
        text=body.question, mode=body.mode, scope=parse_scope(body.scope),
        filters=body.filters(kinds=parse_kinds(body.kind)), has_operators=True, is_timeless=body.when == "any",
    )  # fmt: skip
    job = await first_in_thread(prepare_answer, caller=caller_of(request), query=query, space=body.space)
    return StreamingHttpResponse(answer_lines(job), content_type="text/event-stream", headers=HEADERS)


@router.post("/conversations/{int:conversation_id}/stop", response=StopOut, summary="Stop the reply being written")
def stop(request: HttpRequest, conversation_id: int) -> dict[str, int]:
    reply_id = replies.request_stop(caller=caller_of(request), conversation_id=conversation_id)
    live.stop_here(reply_id)
    return {"reply_id": reply_id}


@router.get("/conversations/{int:conversation_id}/replies", response=ReplyList, summary="Replies, newest first")
def list_replies(
    request: HttpRequest, conversation_id: int, limit: QueryEx[int, P(ge=1, le=200)] = 20
) -> dict[str, Any]:
    return {"results": replies.replies_of(caller=caller_of(request), conversation_id=conversation_id, limit=limit)}


@router.get("/agents", response=AgentList, summary="Your agents")
def list_agents(request: HttpRequest) -> dict[str, list[Agent]]:
    return {"results": agents.agents_of(caller_of(request))}


@router.post("/agents", response={201: AgentOut}, summary="Make an agent")
def create_agent(request: HttpRequest, body: AgentIn) -> Status[Agent]:
    return Status(201, agents.create_agent(caller=caller_of(request), values=body.model_dump(exclude_unset=True)))


@router.get("/agents/{int:agent_id}", response=AgentOut, summary="One agent")
def show_agent(request: HttpRequest, agent_id: int) -> Agent:
    return agents.get_agent(caller=caller_of(request), agent_id=agent_id)


@router.patch("/agents/{int:agent_id}", response=AgentOut, summary="Change an agent")
def change_agent(request: HttpRequest, agent_id: int, body: AgentPatch) -> Agent:
    fields = body.model_dump(exclude_unset=True)
    values = {name: value for name, value in fields.items() if value is not None or name in NULLABLE}
    return agents.change_agent(caller=caller_of(request), agent_id=agent_id, values=values)


@router.delete("/agents/{int:agent_id}", response={204: None}, summary="Delete an agent; its conversations stay")
def delete_agent(request: HttpRequest, agent_id: int) -> Status[None]:
    agents.delete_agent(caller=caller_of(request), agent_id=agent_id)
    return Status(204, None)


@router.get(
    "/agents/{int:agent_id}/documents",
    response=AttachedDocuments,
    by_alias=False,
    summary="The documents attached to an agent",
)
def list_documents_of_agent(request: HttpRequest, agent_id: int) -> dict[str, Any]:
    return {"results": agent_documents.documents_of_agent(caller=caller_of(request), agent_id=agent_id)}


@router.post(
    "/agents/{int:agent_id}/documents",
    response=AttachedDocuments,
    by_alias=False,
    summary="Attach documents to an agent",
)
def attach_documents_to_agent(request: HttpRequest, agent_id: int, body: AttachIn) -> dict[str, Any]:
    caller = caller_of(request)
    attached = agent_documents.attach_to_agent(caller=caller, agent_id=agent_id, document_ids=body.document_ids)
    return {"results": attached}


@router.delete(
    "/agents/{int:agent_id}/documents/{int:document_id}",
    response={204: None},
    summary="Detach a document from an agent",
)
def detach_document_from_agent(request: HttpRequest, agent_id: int, document_id: int) -> Status[None]:
    agent_documents.detach_from_agent(caller=caller_of(request), agent_id=agent_id, document_id=document_id)
    return Status(204, None)


class SummaryOut(Schema):
    """A summary that is sent in place of messages."""

    id: int
    from_position: int
    to_position: int
    stands_for: list[tuple[int, int]] = Field(
        description="first and last position of each range that no later summary covers"
    )


class StepOut(Schema):
    name: str
    removed_ids: list[int]
    shortened_ids: list[int]
    added: int = Field(description="messages that the strategy inserted: a summary, recalled passages")
    tokens_before: int
    tokens_after: int
    summaries: list[SummaryOut] = Field(description="the summaries that the strategy put in, and what each stands for")


class ContextOut(Schema):
    agent: str
    model: str
    strategies_applied: list[str] = Field(description="empty below the threshold of the window")
    steps: list[StepOut]
    removed_ids: list[int]
    shortened_ids: list[int]
    tokens_before: int
    tokens_after: int
    fixed_tokens: int = Field(description="of the system prompt, the tools and the room for the reply")
    window: int
    fits: bool
    error: str | None
    messages: list[dict[str, Any]] = Field(description="what the request would hold, in OpenAI's shape")


@router.get(
    "/conversations/{int:conversation_id}/context",
    response=ContextOut,
    summary="What would this agent be sent now? Nothing is sent",
)
def show_context(request: HttpRequest, conversation_id: int, agent_id: int | None = None) -> dict[str, Any]:
    options, run = dry_run_of_agent(caller=caller_of(request), conversation_id=conversation_id, agent_id=agent_id)
    return {"agent": options.name, "model": options.endpoint.model, **run.as_json()}
