"""Agents: saving them with every value checked, their documents, requests to their model, and the dry run."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import IntegrityError, connection, transaction

from convmemory.accounts.callers import Caller
from convmemory.chat.addresses import Reach, clean_address, origin_of, require_allowed
from convmemory.chat.models import Agent, AgentDocument
from convmemory.context.dry_run import DryRun, dry_run
from convmemory.context.strategies import clean_strategies
from convmemory.context.values import ContextRecipe
from convmemory.conversations.reading import get_conversation
from convmemory.core.config import config
from convmemory.core.encryption import decrypt, encrypt
from convmemory.core.endpoints.completions import Endpoint, SettingNames, endpoint_from_settings
from convmemory.core.errors import InvalidInput, NoEndpoint, NotFound, SwitchedOff
from convmemory.core.sql import load_sql
from convmemory.core.text import one_line, storable
from convmemory.documents.library import attached_ids, get_document, own_documents
from convmemory.documents.models import Document
from convmemory.tools.registry import TOOLS, chat_tools, openai_tool, tool_named

DEFAULT_NAME = "Assistant"
DEFAULT_REPLY_TOKENS = 4_096
MIN_WINDOW, MAX_WINDOW = 1_024, 20_000_000
MAX_PROMPT_CHARS = 200_000
DEFAULT_STRATEGIES = ("token_budget",)
HOW_TO_SET_UP = (
    "No chat model is set up. Start the server with CHAT_BASE_URL and CHAT_MODEL (any OpenAI-compatible server: "
    "http://127.0.0.1:11434/v1 for Ollama), and CHAT_API_KEY where it wants one; or "
    "give an agent an endpoint of its own."
)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The configuration of requests to an agent's model. `agent_id` is None for the server's own agent.

    `is_metered` says that the operator's endpoint is used, whose cost counts against the owner's quota.
    """

    name: str
    agent_id: int | None
    endpoint: Endpoint
    recipe: ContextRecipe
    tools: tuple[str, ...]
    temperature: float | None
    reply_tokens: int
    is_metered: bool


def agents_of(caller: Caller) -> list[Agent]:
    return list(Agent.objects.filter(archive_id=caller.archive_id).order_by("name", "pk"))


def get_agent(*, caller: Caller, agent_id: int) -> Agent:
    """Return the caller's agent. Raises: NotFound, the same for unknown and for foreign agents."""
    agent = Agent.objects.filter(archive_id=caller.archive_id, pk=agent_id).first()
    if agent is None:
        raise NotFound(f"There is no agent {agent_id}.")
    return agent


def agent_for(*, caller: Caller, conversation_id: int | None, agent_id: int | None) -> Agent | None:
    """Return the requested agent, otherwise the usual one; None for the server's own (id 0). Raises: NotFound."""
    if agent_id is None:
        agent_id = state_of_chat(caller=caller, conversation_id=conversation_id).agent_id
    return get_agent(caller=caller, agent_id=agent_id) if agent_id else None


class ChatState(NamedTuple):
    """The agent that answers next in a conversation: the last one, otherwise the owner's first; 0 for the server's own.

    `last_question` is the id of the last question, if it can be asked again.
    """

    agent_id: int
    last_question: int | None
    is_busy: bool


def state_of_chat(*, caller: Caller, conversation_id: int | None) -> ChatState:
    """Return the state of the conversation, or of a new one. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.chat", "state_of_chat"), {"owner": caller.archive_id, "conversation": conversation_id}
        )
        return ChatState(*cursor.fetchone())


def options_of(agent: Agent | None, *, caller: Caller) -> AgentOptions:
    """Return the configuration of requests to the agent's model. Raises: NoEndpoint, InvalidInput, SwitchedOff."""
    if agent is not None and agent.is_switched_off:
        raise SwitchedOff(f"An administrator has switched “{agent.name}” off: choose another agent, or ask them why.")
    agent = agent or Agent(name=DEFAULT_NAME, tools=[tool.name for tool in chat_tools()])
    endpoint = _endpoint(agent, caller)
    names = {tool.name for tool in chat_tools()}
    tools = tuple(name for name in agent.tools if name in names)
    reply_tokens = agent.reply_tokens or min(DEFAULT_REPLY_TOKENS, endpoint.context_window // 4)
    recipe = ContextRecipe(
        window=endpoint.context_window,
        reply_tokens=reply_tokens,
        system_prompt=agent.system_prompt,
        strategies=tuple(agent.context_strategies or DEFAULT_STRATEGIES),
        tool_definitions=tuple(openai_tool(tool_named(name)) for name in tools),
    )
    return AgentOptions(
        name=agent.name,
        agent_id=agent.pk,
        endpoint=endpoint,
        recipe=recipe,
        tools=tools,
        temperature=agent.temperature,
        reply_tokens=reply_tokens,
        is_metered=not agent.base_url,
    )


def has_endpoint(agent: Agent | None, *, caller: Caller) -> bool:
    """Return whether the agent, or the server's own for None, can answer."""
    return model_of(agent, caller=caller) is not None


def model_of(agent: Agent | None, *, caller: Caller) -> str | None:
    """Return the model with which the agent, or the server's own for None, answers; None if it cannot."""
    try:
        return options_of(agent, caller=caller).endpoint.model
    except (NoEndpoint, InvalidInput, SwitchedOff):
        return None


def _endpoint(agent: Agent, caller: Caller) -> Endpoint:
    if not agent.base_url:
        endpoint = endpoint_from_settings()
        if endpoint is None:
            raise NoEndpoint(HOW_TO_SET_UP)
        return Endpoint(
            base_url=endpoint.base_url,
            model=agent.model or endpoint.model,
            context_window=agent.context_window or endpoint.context_window,
            api_key=endpoint.api_key,
            timeout_s=endpoint.timeout_s,
            max_retries=0,
        )
    reach = require_allowed(agent.base_url, caller=caller)
    key = decrypt(agent.api_key_encrypted)
    if key is None:
        raise NoEndpoint(f"The key of {agent.name} cannot be read, SECRET_KEY has changed: enter the key again.")
    return Endpoint(
        base_url=agent.base_url,
        model=agent.model,
        context_window=agent.context_window or config.chat_context_window,
        api_key=key,  # never the server's own key: the address is the owner's choice
        timeout_s=config.chat_timeout_s,
        max_retries=0,
        names=SettingNames("the agent's endpoint", "the agent's key", "the agent's model", "CHAT_TIMEOUT_S"),
        is_public_only=reach is Reach.PUBLIC,
    )


def create_agent(*, caller: Caller, values: Mapping[str, Any]) -> Agent:
    """Create an agent; `values` as in `change_agent`. Raises: InvalidInput."""
    agent = Agent(archive_id=caller.archive_id)
    _set_values(agent, values, caller=caller)
    return _save(agent)


def change_agent(*, caller: Caller, agent_id: int, values: Mapping[str, Any]) -> Agent:
    """Set the given values, by field name; in addition to the fields `api_key` and `context_strategy` (one name).

    A stored key belongs to the server that it was entered for: changing the scheme, host or port without a new key
    deletes it, and sets the agent's `key_was_dropped`. Raises: NotFound, InvalidInput.
    """
    agent = get_agent(caller=caller, agent_id=agent_id)
    _set_values(agent, values, caller=caller)
    return _save(agent)


def delete_agent(*, caller: Caller, agent_id: int) -> None:
    """Delete the agent; its conversations stay. Raises: NotFound."""
    get_agent(caller=caller, agent_id=agent_id).delete()


def _set_values(agent: Agent, values: Mapping[str, Any], *, caller: Caller) -> None:
    fields = dict(values)
    key = fields.pop("api_key", None)
    single = fields.pop("context_strategy", None)
    if single and not fields.get("context_strategies"):
        fields["context_strategies"] = single
    address_before = agent.base_url
    for name, value in fields.items():
        setattr(agent, name, value)
    check_agent(agent, caller=caller)
    if key is not None:
        agent.api_key_encrypted = encrypt(storable(key.strip()))
    else:
        drop_key_of_other_server(agent, address_before)


def drop_key_of_other_server(agent: Agent, address_before: str) -> None:
    """Delete the stored key if the agent's address now names another server; does not save."""
    agent.key_was_dropped = agent.has_key and origin_of(agent.base_url) != origin_of(address_before)
    if agent.key_was_dropped:
        agent.api_key_encrypted = ""


def check_agent(agent: Agent, *, caller: Caller) -> None:
    """Convert the agent's values to their stored form. Raises: InvalidInput, which says what to change."""
    agent.name = one_line(storable(agent.name), 100)
    agent.model = one_line(storable(agent.model), 200)
    agent.system_prompt = storable(agent.system_prompt).strip()
    if not agent.name:
        raise InvalidInput("An agent needs a name.")
    if len(agent.system_prompt) > MAX_PROMPT_CHARS:
        raise InvalidInput(f"The system prompt is too long: {MAX_PROMPT_CHARS:,} characters at most.")
    if agent.base_url:
        agent.base_url = clean_address(agent.base_url)
        require_allowed(agent.base_url, caller=caller)
        if not agent.model:
            raise InvalidInput("An agent with an endpoint of its own needs the name of a model.")
    window, reply, temperature = agent.context_window, agent.reply_tokens, agent.temperature
    if window is not None and not MIN_WINDOW <= window <= MAX_WINDOW:
        raise InvalidInput(f"The context window is {window}: give {MIN_WINDOW:,} to {MAX_WINDOW:,} tokens, or nothing.")
    if reply is not None and not 1 <= reply < (window or MAX_WINDOW):
        raise InvalidInput(f"The reply limit is {reply}: give at least 1 token and less than the context window.")
    if temperature is not None and not (math.isfinite(temperature) and 0 <= temperature <= 2):
        raise InvalidInput(f"The temperature is {temperature}: give a number from 0 to 2, or nothing.")
    # Includes tools that a setting turns off now: the agent keeps them for later.
    offered = [tool.name for tool in TOOLS]
    unknown = [name for name in agent.tools if name not in offered]
    if unknown:
        raise InvalidInput(f"There is no tool {unknown[0]!r}: use any of {', '.join(offered)}.")
    agent.tools = [name for name in offered if name in agent.tools]
    agent.context_strategies = list(clean_strategies(agent.context_strategies)) if agent.context_strategies else []


def _save(agent: Agent) -> Agent:
    try:
        with transaction.atomic():
            agent.save()
    except IntegrityError as error:
        if "agent_name_unique" not in str(error):
            raise
        raise InvalidInput(f"There is an agent {agent.name!r} already: choose another name.") from None
    return agent


def documents_of_agent(*, caller: Caller, agent_id: int) -> list[Document]:
    """Return the documents of the caller's agent. Raises: NotFound."""
    get_agent(caller=caller, agent_id=agent_id)
    chosen = AgentDocument.objects.filter(archive_id=caller.archive_id, agent_id=agent_id)
    return list(
        Document.objects.filter(archive_id=caller.archive_id, pk__in=chosen.values("document")).order_by("title", "pk")
    )


def attach_to_agent(*, caller: Caller, agent_id: int, document_ids: Collection[int]) -> list[Document]:
    """Attach more documents; return all that are attached afterwards. Raises: NotFound."""
    agent = get_agent(caller=caller, agent_id=agent_id)
    documents = own_documents(caller=caller, document_ids=document_ids)
    rows = [AgentDocument(archive_id=caller.archive_id, agent=agent, document=document) for document in documents]
    AgentDocument.objects.bulk_create(rows, ignore_conflicts=True)
    return documents_of_agent(caller=caller, agent_id=agent_id)


def detach_from_agent(*, caller: Caller, agent_id: int, document_id: int) -> None:
    """Detach a document. Raises: NotFound."""
    get_agent(caller=caller, agent_id=agent_id)
    get_document(caller=caller, document_id=document_id)
    AgentDocument.objects.filter(archive_id=caller.archive_id, agent_id=agent_id, document_id=document_id).delete()


def documents_seen(*, archive_id: int, conversation_id: int, agent_id: int | None) -> frozenset[int]:
    """Return the documents that a reply may search: those of its conversation, and those of the answering agent."""
    seen = attached_ids(archive_id=archive_id, conversation_id=conversation_id)
    if agent_id is None:
        return seen
    chosen = AgentDocument.objects.filter(archive_id=archive_id, agent_id=agent_id)
    return seen | frozenset(chosen.values_list("document_id", flat=True))


def dry_run_of_agent(*, caller: Caller, conversation_id: int, agent_id: int | None) -> tuple[AgentOptions, DryRun]:
    """Return the request that the agent would be sent now; without an id, for the agent that would answer next.

    Raises: NotFound, NoEndpoint, InvalidInput.
    """
    get_conversation(caller=caller, conversation_id=conversation_id)
    agent = agent_for(caller=caller, conversation_id=conversation_id, agent_id=agent_id)
    options = options_of(agent, caller=caller)
    encoding = options.endpoint.encoding
    return options, dry_run(caller=caller, conversation_id=conversation_id, recipe=options.recipe, encoding=encoding)
