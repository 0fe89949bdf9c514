"""The dry run of an agent's context: chooses the agent and shows its next request."""

from django.contrib.auth.models import User

from convmemory.chat.agents import AgentOptions, agent_for, options_of
from convmemory.context.dry_run import DryRun, dry_run
from convmemory.conversations.reading import get_conversation


def dry_run_of_agent(*, owner: User, conversation_id: int, agent_id: int | None) -> tuple[AgentOptions, DryRun]:
    """Return the request that the agent would be sent now; without an id, for the agent that would answer next.

    Raises: NotFound, NoEndpoint, InvalidInput.
    """
    get_conversation(owner=owner, conversation_id=conversation_id)
    agent = agent_for(owner=owner, conversation_id=conversation_id, agent_id=agent_id)
    options = options_of(agent, owner=owner)
    encoding = options.endpoint.encoding
    return options, dry_run(owner=owner, conversation_id=conversation_id, recipe=options.recipe, encoding=encoding)
