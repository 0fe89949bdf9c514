"""Tests an agent's endpoint before the agent is saved: lists its models, or reports the error."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from convmemory.chat.addresses import Reach, clean_address, origin_of, require_allowed
from convmemory.chat.agents import get_agent
from convmemory.chat.clients import client_for
from convmemory.core.completions import Endpoint, endpoint_from_settings, failure_of
from convmemory.core.encryption import decrypt
from convmemory.core.errors import EndpointUnavailable, NoEndpoint
from convmemory.core.openai_errors import SettingNames
from convmemory.core.text import one_line, storable
from convmemory.core.threads import in_thread

TIMEOUT_S = 15.0
MODELS_SHOWN = 300
MODEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """The values of the form. `agent_id` names the agent whose stored key is used if the form has no key."""

    base_url: str
    api_key: str = ""
    model: str = ""
    agent_id: int | None = None


async def list_models(*, owner: User, trial: Trial) -> list[str]:
    """Return the models that the endpoint offers, in alphabetical order.

    Raises: InvalidInput for an address that the owner may not use, NoEndpoint, NotFound, EndpointError.
    """
    from openai import OpenAIError

    endpoint = await in_thread(_endpoint, owner, trial)
    try:
        answer: Any = await client_for(endpoint).get("/models", cast_to=object)
    except OpenAIError as error:
        raise failure_of(error, endpoint) from error
    except (ValueError, RecursionError) as error:  # a body that is not JSON
        raise EndpointUnavailable(f"{endpoint.where} sent no list of models.") from error
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise EndpointUnavailable(f"{endpoint.where} sent no list of models.")
    names = {row["id"] for row in rows[: MODELS_SHOWN * 4] if isinstance(row, dict) and isinstance(row.get("id"), str)}
    return sorted(filter(None, (one_line(storable(name), MODEL_CHARS) for name in names)))[:MODELS_SHOWN]


def _endpoint(owner: User, trial: Trial) -> Endpoint:
    """Return the endpoint to test. Raises: InvalidInput, NoEndpoint, NotFound."""
    if not trial.base_url.strip():
        endpoint = endpoint_from_settings()
        if endpoint is None:
            raise NoEndpoint("The server has no endpoint of its own: enter one.")
        return endpoint
    address = clean_address(trial.base_url)
    reach = require_allowed(address, owner=owner)
    return Endpoint(
        base_url=address,
        model=trial.model.strip() or "none chosen",
        context_window=1,
        api_key=trial.api_key.strip() or _stored_key(owner, trial.agent_id, address),
        timeout_s=TIMEOUT_S,
        max_retries=0,
        names=SettingNames("the endpoint", "the key", "the model", "CHAT_TIMEOUT_S"),
        is_public_only=reach is Reach.PUBLIC,
    )


def _stored_key(owner: User, agent_id: int | None, address: str) -> str:
    """Return the agent's key, if the address belongs to the server that the key was entered for."""
    if agent_id is None:
        return ""
    agent = get_agent(owner=owner, agent_id=agent_id)
    is_same = bool(agent.base_url) and origin_of(agent.base_url) == origin_of(address)
    return (decrypt(agent.api_key_encrypted) or "") if is_same else ""
