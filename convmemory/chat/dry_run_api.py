"""The route of the dry run, which shows an agent's next request."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from convmemory.accounts.authentication import caller_of
from convmemory.chat.dry_run import dry_run_of_agent

router = Router(tags=["chat"])


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
    options, run = dry_run_of_agent(owner=caller_of(request), conversation_id=conversation_id, agent_id=agent_id)
    return {"agent": options.name, "model": options.endpoint.model, **run.as_json()}
