"""Writes one reply: calls the model, runs the tools that it requests, and repeats until it has answered.

Events go to `publish` and messages are collected in `progress`; this module neither stores the reply nor knows its
listeners.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.utils import timezone

from convmemory.chat.agent_documents import documents_seen
from convmemory.chat.completions import open_stream, request_body
from convmemory.chat.deltas import CompletionDraft, FinishedCall
from convmemory.chat.events import Event
from convmemory.chat.metering import metered
from convmemory.chat.progress import ReplyProgress
from convmemory.chat.replies import ReplyJob, store_context
from convmemory.chat.tool_calls import ResultBudget, answer_call
from convmemory.context.sending import prepare_context
from convmemory.context.values import ContextMessage, FilterResult
from convmemory.context.wire import wire_messages
from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.parts import ToolResultPart
from convmemory.core.errors import EndpointUnavailable, InvalidInput, ResponseRefused
from convmemory.core.threads import in_thread
from convmemory.tools.registry import Seen

# After these rounds the model is called once more without tools, so that a loop of tool calls ends with an answer.
MAX_ROUNDS = 8
CUT_AT_LIMIT = "The reply was cut at its limit of {limit:,} tokens."
BROKE_OFF = "{where} ended the reply before it was complete."

Publish = Callable[[Event], None]


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
        publish(Event("context", summary))
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
        owner=job.owner,
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
    own = [
        ContextMessage(message_id=None, position=-1 - number, role=draft.role, parts=draft.parts)
        for number, draft in enumerate(progress.messages)
    ]
    messages = wire_messages(context.system_prompt, [*context.messages, *own])
    draft = progress.current = CompletionDraft(
        call_id_prefix=f"call_{job.reply_id}_{len(own)}", chars=progress.chars, call_count=progress.call_count
    )
    body = request_body(job.agent, messages, may_call=may_call)
    try:
        async with metered(job, body, draft), open_stream(job.agent, body) as chunks:
            async for chunk in chunks:
                for event in draft.add(chunk):
                    publish(event)
                if draft.cut_note:
                    break
    except ResponseRefused as error:
        draft.cut(str(error))
    calls = draft.finished_calls() if may_call else []
    _require_complete(job, draft, calls)
    _keep(draft, calls, progress, job)
    for call in calls:
        publish(Event("tool_call", {"id": call.part.id, "name": call.part.name, "input": dict(call.part.input)}))
    is_at_limit = draft.finish_reason == "length"
    return calls, draft.cut_note or (CUT_AT_LIMIT.format(limit=job.agent.reply_tokens) if is_at_limit else "")


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
    progress.messages.append(MessageDraft(role="assistant", parts=parts, model=model, created_at=timezone.now()))
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
        documents_seen, owner_id=job.owner.pk, conversation_id=job.conversation_id, agent_id=job.agent.agent_id
    )
    seen = Seen(messages=alive, documents=documents)
    first = max(progress.sources, default=0) + 1
    result = await answer_call(
        call, caller=job.owner, allowed=job.agent.tools, budget=budget, seen=seen, first_citation=first
    )
    progress.add_sources([result.text])
    progress.messages.append(MessageDraft(role="tool", parts=(result,), created_at=timezone.now()))
    payload = {"call_id": result.call_id, "name": result.name, "text": result.text, "is_error": result.is_error}
    publish(Event("tool_result", payload))
