"""Requests and responses of the chat routes."""

from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema

from convmemory.conversations.filters import FilterSchema
from convmemory.conversations.schemas import SPACES


class MessageToAnswer(Schema):
    message: str = Field(description="what the person says; at most 1,000,000 characters")
    agent_id: int | None = Field(
        None, description="who answers; without it the agent that answered here last, 0 for the server's own"
    )
    replaces: int | None = Field(
        None,
        description="the message id of an earlier question of this chat: the message takes its place, and what came "
        "after it is superseded; a blank message asks that question again",
    )


class AskIn(FilterSchema):
    """A question about what is stored."""

    question: str = Field(description="2 to 10,000 characters; words that ask nothing get no answer")
    mode: str = Field("hybrid", description="hybrid, semantic or full_text")
    scope: str = Field("", description="any of user, assistant, thinking, tool, separated by commas")
    kind: str = Field("turn,section", description="turn, section, or both, separated by commas")
    when: Literal["", "any"] = Field("", description='any takes words such as "last month" as plain words')
    space: str = Field("", description=SPACES)


class StopOut(Schema):
    reply_id: int


class ReplyOut(Schema):
    id: int
    conversation_id: int
    agent_id: int | None
    question_id: int | None
    model: str
    status: str = Field(description="running, done, stopped, interrupted or failed")
    error: str
    context: dict[str, Any] = Field(description="what the context pipeline left out; empty where nothing")
    started_at: datetime
    ended_at: datetime | None


class ReplyList(Schema):
    results: list[ReplyOut]


class AgentIn(Schema):
    name: str
    system_prompt: str = ""
    base_url: str = Field("", description="an OpenAI-compatible endpoint; empty for the server's own")
    api_key: str | None = Field(
        None, description="written, never read; not given: unchanged, or deleted where base_url leads to another server"
    )
    model: str = ""
    context_window: int | None = Field(None, description="tokens")
    reply_tokens: int | None = Field(None, description="the longest reply, in tokens")
    temperature: float | None = None
    tools: list[str] = []
    context_strategies: list[str] | str = Field([], description="names in the order they run")
    context_strategy: str | None = Field(None, description="older form: one name")


class AgentPatch(Schema):
    name: str | None = None
    system_prompt: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    model: str | None = None
    context_window: int | None = None
    reply_tokens: int | None = None
    temperature: float | None = None
    tools: list[str] | None = None
    context_strategies: list[str] | str | None = None
    context_strategy: str | None = None


class AgentOut(Schema):
    id: int
    name: str
    system_prompt: str
    base_url: str
    has_key: bool
    key_was_dropped: bool = Field(description="this change led to another server, so the stored key was deleted")
    is_switched_off: bool = Field(description="by an administrator")
    model: str
    context_window: int | None
    reply_tokens: int | None
    temperature: float | None
    tools: list[str]
    context_strategies: list[str]


class AgentList(Schema):
    results: list[AgentOut]
