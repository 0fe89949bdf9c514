"""Writes one reply: calls the model, runs the tools that it requests, and repeats until it has answered.

Events go to `publish` and messages are collected in `progress`; this module neither stores the reply nor knows its
listeners.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.quota import Reservation, estimated_tokens, reserve, settle
from convmemory.chat.agents import AgentOptions, documents_seen
from convmemory.chat.citations import with_citations
from convmemory.chat.clients import client_for
from convmemory.chat.deltas import CompletionDraft, FinishedCall, MalformedChunk, ReplyEvent
from convmemory.chat.progress import ReplyProgress
from convmemory.chat.replies import ReplyJob, store_context
from convmemory.context.sending import prepare_context
from convmemory.context.values import ContextMessage, FilterResult
from convmemory.context.wire import wire_messages
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolResultPart
from convmemory.core.endpoints.completions import failure_of, reply_limit
from convmemory.core.endpoints.streams import UNREADABLE, EventReader
from convmemory.core.errors import ConvMemoryError, EndpointUnavailable, InvalidInput, ResponseRefused
from convmemory.core.threads import in_thread, in_tool_thread
from convmemory.core.tokens import count_tokens, cut_to_tokens
from convmemory.tools.registry import NOTHING_SEEN, Seen, run_tool

if TYPE_CHECKING:
    import httpx2


TIMEOUT_S = 60.0
MIN_ROOM = 512
CUT = "\n[… cut: the rest does not fit the model's window]"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ResultBudget:
    """The tokens left for results. A single result takes half of them at most, so that a further one fits."""

    tokens: int
    encoding: str

    @property
    def is_used_up(self) -> bool:
        return self.tokens < MIN_ROOM

    def fit(self, text: str) -> str:
        """Cut the text to its share of the remaining tokens, and use those up."""
        fitting = cut_to_tokens(text, max(self.tokens // 2, 0), encoding=self.encoding)
        if len(fitting) < len(text):
            fitting += CUT
        self.tokens -= count_tokens(fitting, encoding=self.encoding)
        return fitting


async def answer_call(
    call: FinishedCall,
    *,
    caller: Caller,
    allowed: tuple[str, ...],
    budget: ResultBudget,
    seen: Seen = NOTHING_SEEN,
    first_citation: int = 1,
) -> ToolResultPart:
    """Return the result of one call; `seen` are the messages in the model's context and the documents that it may
    search.

    Its results can be cited by numbers from `first_citation` on.
    """
    text, is_error = await _run(call, caller, allowed, seen, first_citation)
    fitting = await asyncio.to_thread(budget.fit, text)
    return ToolResultPart(call_id=call.part.id, name=call.part.name, text=fitting, is_error=is_error)


async def _run(
    call: FinishedCall, caller: Caller, allowed: tuple[str, ...], seen: Seen, first_citation: int
) -> tuple[str, bool]:
    name = call.part.name
    if name not in allowed:
        return f"There is no tool {name!r} here: use {', '.join(allowed) or 'none'}.", True
    if call.error:
        return f"{call.error} Call {name} again with arguments as its schema says.", True
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await in_tool_thread(run_tool, name, call.part.input, caller, seen=seen)
    except ConvMemoryError as error:
        return str(error), True
    except TimeoutError:
        return f"{name} gave no answer within {TIMEOUT_S:g} s.", True
    except Exception:  # a tool's boundary: the model gets a short text, the log the details
        logger.exception("The tool %s failed", name)
        return f"{name} failed: an error inside the server.", True
    return json.dumps(with_citations(answer, first=first_citation), ensure_ascii=False), False


# After these rounds the model is called once more without tools, so that a loop of tool calls ends with an answer.
MAX_ROUNDS = 8
CUT_AT_LIMIT = "The reply was cut at its limit of {limit:,} tokens."
BROKE_OFF = "{where} ended the reply before it was complete."

Publish = Callable[[ReplyEvent], None]


class ContextTooLarge(InvalidInput):
    """The conversation does not fit the model's window, even after the context pipeline."""


async def write_reply(job: ReplyJob, progress: ReplyProgress, publish: Publish) -> str:
    """Write the reply; return a remark on how it ended, usually "".

    Raises: ContextTooLarge, EndpointError, QuotaUsedUp.
    """
    context = await in_thread(_prepare, job)
    progress.add_sources(
        part.text for message in context.messages for part in message.parts if isinstance(part, ToolResultPart)
    )
    if summary := summary_of(context):
        publish(ReplyEvent("context", summary))
    budget = ResultBudget(context.window - context.tokens_after, job.agent.endpoint.encoding)
    for number in range(MAX_ROUNDS + 1):
        may_call = number < MAX_ROUNDS and not budget.is_used_up
        calls, remark = await _complete(job, context, progress, publish, may_call=may_call)
        if not calls:
            return remark
        for call in calls:
            await _answer(job, call, progress, publish, budget, context.alive_ids)
    return f"The model was stopped after {MAX_ROUNDS} rounds of tool calls."


def _prepare(job: ReplyJob) -> FilterResult:
    """Build the context of the reply. Raises: ContextTooLarge."""
    context = prepare_context(
        caller=job.caller,
        conversation_id=job.conversation_id,
        recipe=job.agent.recipe,
        encoding=job.agent.endpoint.encoding,
    )
    if summary := summary_of(context):
        store_context(job, summary)
    if context.error is not None:
        raise ContextTooLarge(context.error.message)
    return context


def summary_of(context: FilterResult) -> dict[str, Any]:
    """Return the effect of the pipeline as JSON values; empty if it had none."""
    if not context.was_filtered:
        return {}
    return {
        "left_out": len(context.removed_ids),
        "shortened": len(context.shortened_ids),
        "strategies": [asdict(step) for step in context.steps],
        "tokens_before": context.tokens_before,
        "tokens_after": context.tokens_after,
        "window": context.window,
    }


async def _complete(
    job: ReplyJob, context: FilterResult, progress: ReplyProgress, publish: Publish, *, may_call: bool
) -> tuple[list[FinishedCall], str]:
    """Run one completion; return its tool calls, and a remark if it was cut, which leaves no calls."""
    steps = [
        ContextMessage(message_id=None, position=-1 - number, role=draft.role, parts=draft.parts)
        for number, draft in enumerate(progress.messages)
    ]
    messages = wire_messages(context.system_prompt, [*context.messages, *steps])
    draft = progress.current = CompletionDraft(
        call_id_prefix=f"call_{job.reply_id}_{len(steps)}", chars=progress.chars, call_count=progress.call_count
    )
    body = request_body(job.agent, messages, may_call=may_call)
    skipped, first_fault = 0, ""
    try:
        async with metered(job.agent, job.caller, body, draft), open_stream(job.agent, body) as chunks:
            async for chunk in chunks:
                try:
                    for event in draft.add(chunk):
                        publish(event)
                except MalformedChunk as error:
                    skipped += 1
                    first_fault = first_fault or str(error)
                if draft.cut_note:
                    break
    except ResponseRefused as error:
        draft.cut(str(error))
    calls = draft.finished_calls() if may_call else []
    if skipped and not (draft.cut_note or draft.spoken_parts or calls):
        raise EndpointUnavailable(f"{job.agent.endpoint.where} sent something unreadable: {first_fault}.")
    _require_complete(job, draft, calls)
    _keep(draft, calls, progress, job)
    for call in calls:
        publish(ReplyEvent("tool_call", {"id": call.part.id, "name": call.part.name, "input": dict(call.part.input)}))
    remark = UNREADABLE.format(count=skipped) if skipped else ""
    if draft.finish_reason == "length":
        remark = CUT_AT_LIMIT.format(limit=job.agent.reply_tokens)
    return calls, draft.cut_note or remark


def _require_complete(job: ReplyJob, draft: CompletionDraft, calls: list[FinishedCall]) -> None:
    where = job.agent.endpoint.where
    if draft.cut_note:
        if not draft.spoken_parts:
            raise ResponseRefused(draft.cut_note)
        return
    if not draft.finish_reason:
        raise EndpointUnavailable(BROKE_OFF.format(where=where))
    if not draft.spoken_parts and not calls:
        raise EndpointUnavailable(f"{where} gave an empty reply (finish reason {draft.finish_reason!r}).")


def _keep(draft: CompletionDraft, calls: list[FinishedCall], progress: ReplyProgress, job: ReplyJob) -> None:
    parts = (*draft.spoken_parts, *(call.part for call in calls))
    model = draft.model or job.agent.endpoint.model
    now = timezone.now()
    progress.messages.append(MessageDraft("assistant", parts, model=model, created_at=now, usage=draft.usage))
    progress.chars, progress.call_count = draft.chars, draft.call_count
    progress.current = None


async def _answer(
    job: ReplyJob,
    call: FinishedCall,
    progress: ReplyProgress,
    publish: Publish,
    budget: ResultBudget,
    alive: frozenset[int],
) -> None:
    documents = await in_thread(
        documents_seen,
        archive_id=job.caller.archive_id,
        conversation_id=job.conversation_id,
        agent_id=job.agent.agent_id,
    )
    seen = Seen(messages=alive, documents=documents)
    first = max(progress.sources, default=0) + 1
    result = await answer_call(
        call, caller=job.caller, allowed=job.agent.tools, budget=budget, seen=seen, first_citation=first
    )
    progress.add_sources([result.text])
    progress.messages.append(MessageDraft(role="tool", parts=(result,), created_at=timezone.now()))
    payload = {"call_id": result.call_id, "name": result.name, "text": result.text, "is_error": result.is_error}
    publish(ReplyEvent("tool_result", payload))


# Only a connection whose body was read to its end can be used again; a server that keeps the body open must not delay
# the reply.
DRAIN_S = 0.1
SHOWN_BYTES = 80  # of an event that cannot be read


# Chunks are parsed as plain JSON: the client's models check nothing and cost more than the rest of the work. Source:
# https://platform.openai.com/docs/api-reference/chat/create
def request_body(agent: AgentOptions, messages: Sequence[dict[str, Any]], *, may_call: bool) -> dict[str, Any]:
    """Return the body of the request.

    With `may_call` false the tools stay defined, because the messages name them, but the model may not call them.
    """
    body: dict[str, Any] = {"model": agent.endpoint.model, "messages": list(messages), "stream": True}
    body |= reply_limit(agent.endpoint, agent.reply_tokens)
    if agent.temperature is not None:
        body["temperature"] = agent.temperature
    if agent.recipe.tool_definitions:
        body["tools"] = list(agent.recipe.tool_definitions)
        if not may_call:
            body["tool_choice"] = "none"
    return body


async def completion_events(
    agent: AgentOptions, caller: Caller, messages: Sequence[dict[str, Any]], draft: CompletionDraft
) -> AsyncGenerator[ReplyEvent]:
    """Yield the events of one completion without tools, which `draft` collects. Raises: EndpointError, QuotaUsedUp."""
    body = request_body(replace(agent, recipe=replace(agent.recipe, tool_definitions=())), messages, may_call=False)
    async with metered(agent, caller, body, draft), open_stream(agent, body) as chunks:
        async for chunk in chunks:
            for event in draft.add(chunk):
                yield event
            if draft.cut_note:
                break


@asynccontextmanager
async def open_stream(agent: AgentOptions, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[object]]:
    """Yield the chunks of the completion as JSON values.

    Errors about their form that are raised in the block are converted too. Raises: EndpointBusy, EndpointRefused
    (ResponseRefused for an event or a stream over its limit), EndpointMisconfigured, EndpointUnavailable.
    """
    from openai import AsyncStream, OpenAIError

    try:
        stream = await client_for(agent.endpoint).post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        async with stream, aclosing(_chunks(stream.response)) as chunks:
            yield chunks
    except OpenAIError as error:
        raise failure_of(error, agent.endpoint) from error
    except ValueError as error:
        raise EndpointUnavailable(f"{agent.endpoint.where} sent something unreadable: {error}.") from error


async def _chunks(response: "httpx2.Response") -> AsyncGenerator[object, None]:
    """Yield the events as JSON values up to `[DONE]`.

    The client's own decoder limits neither lines nor events.
    """
    import httpx2
    from openai import APIConnectionError, APITimeoutError

    reader = EventReader()
    pieces = response.aiter_raw()
    try:
        async for piece in pieces:
            for data in reader.feed(piece):
                if data.startswith(b"[DONE]"):
                    await _drain(pieces)
                    return
                yield _chunk(data, response)
        for data in reader.finish():
            if not data.startswith(b"[DONE]"):
                yield _chunk(data, response)
    except httpx2.TimeoutException as error:
        raise APITimeoutError(request=response.request) from error
    except httpx2.RequestError as error:
        raise APIConnectionError(request=response.request) from error


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Wait a moment for the body to end, so that its connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in pieces:
                pass


def _chunk(data: bytes, response: "httpx2.Response") -> object:
    """Return the JSON value of an event; for what is not JSON its beginning, which is no chunk.

    Raises: APIError for an error of the endpoint.
    """
    from openai import APIError

    try:
        value: object = json.loads(data.decode())
    except (ValueError, RecursionError):
        return data[:SHOWN_BYTES].decode("utf-8", "replace")
    if isinstance(value, dict) and (error := value.get("error")):
        text = error.get("message") if isinstance(error, dict) else error
        raise APIError(text if isinstance(text, str) else "an error", request=response.request, body=error)
    return value


# If the endpoint does not report its usage, it is estimated from the lengths of the request and the reply.
@asynccontextmanager
async def metered(
    agent: AgentOptions, caller: Caller, body: dict[str, Any], draft: CompletionDraft
) -> AsyncIterator[None]:
    """Reserve the maximum cost of one completion of the agent, then count the actual cost of `draft`.

    Agents with an endpoint of their own cost nothing. Raises: QuotaUsedUp.
    """
    if not agent.is_metered:
        yield
        return
    asked = estimated_tokens(json.dumps(body, ensure_ascii=False))
    reservation = await in_thread(
        reserve,
        archive_id=caller.archive_id,
        person_id=caller.person_id,
        tokens=asked + agent.reply_tokens,
    )
    try:
        yield
    finally:
        await settle_quietly(reservation, tokens=cost_of(draft, asked))


def cost_of(draft: CompletionDraft, asked: int) -> int:
    """Return the tokens of a completion, as the endpoint reports them, else from those `asked` and what it wrote."""
    if draft.total_tokens is not None:
        return draft.total_tokens
    received = draft.received_texts
    return asked + estimated_tokens("".join(received)) if received else 0


async def settle_quietly(reservation: Reservation, *, tokens: int) -> None:
    """Settle the reservation; if the database does not answer, only the correction is lost, not the reply."""
    try:
        await in_thread(settle, reservation, tokens=tokens)
    except DatabaseError as error:
        logger.warning("What a reply cost could not be counted, its estimate stays: %s", error)
